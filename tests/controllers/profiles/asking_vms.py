"""VMs, VMIs and profiles for tests: a profile with one GPU, and who asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virt_dra.api.core_v1 import Namespace
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import controller_reference
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.profiles.instances import admitted_instance
from virt_dra.api.wire import Json

NAMESPACE = Namespace.from_wire({"metadata": {"name": "lab", "labels": {"team": "a"}}})


def profile(
    name: str = "h100", *, generation: int = 1, device: str = "card", status: Json | None = None, **spec: Any
) -> DeviceProfile:
    devices = [{"name": device, "deviceClassName": "gpu"}]
    metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
    return DeviceProfile.from_wire({"metadata": metadata, "spec": {"devices": devices, **spec}, "status": status or {}})


def by_name(*profiles: DeviceProfile) -> Mapping[str, DeviceProfile]:
    return {profile.name: profile for profile in profiles}


def vm(line: str | None = "gpu=h100", name: str = "vm", **spec: Any) -> VirtualMachine:
    template: Json = {} if line is None else {"metadata": {"annotations": {"virt-dra.io/devices": line}}}
    return VirtualMachine.from_wire({
        "metadata": {"name": name, "namespace": "lab", "uid": f"uid-{name}"},
        "spec": {"runStrategy": "Always", "template": template} | spec,
    })  # fmt: skip


def vmi(line: str | None = "gpu=h100", name: str = "vm", uid: str = "u1", **fields: Any) -> VirtualMachineInstance:
    """As it is asked for; ``vm`` of this name owns it."""
    annotations = {} if line is None else {"virt-dra.io/devices": line}
    metadata = {
        "name": name,
        "namespace": "lab",
        "uid": uid,
        "annotations": annotations | fields.pop("annotations", {}),
    }
    made = VirtualMachineInstance.from_wire({"metadata": metadata, **fields})
    owners = (controller_reference(vm(name=name)),)
    return made.with_(metadata=made.metadata.with_(owner_references=owners))


def admitted(*profiles: DeviceProfile, **fields: Any) -> VirtualMachineInstance:
    """As the webhook leaves it."""
    return admitted_instance(vmi(**fields), by_name(*profiles), NAMESPACE.metadata.labels)
