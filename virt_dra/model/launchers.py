"""The VM whose launcher a pod is, by what the pod itself says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import LAUNCHER, LAUNCHER_LABEL, VM_NAME_LABEL, VirtualMachineInstance
from virt_dra.model.cluster import ClusterModel, ModelIndex

_LAUNCHER_POD: Final = re.compile(rf"{LAUNCHER}-(?P<vm>.+)-[a-z0-9]{{5}}")
"""How KubeVirt names launcher pods."""


def vm_of_pod(pod: Pod) -> str:
    """The name of the VM whose launcher a pod is, "" for other pods."""
    for owner in pod.metadata.owner_references:
        if owner.kind == VirtualMachineInstance.KIND:
            return owner.name
    if pod.metadata.labels.get(LAUNCHER_LABEL) == LAUNCHER:
        return pod.metadata.labels.get(VM_NAME_LABEL) or vm_of_pod_name(pod.name)
    return ""


def pod_title(pod: Pod) -> str:
    """``VM team-a/vm`` of a launcher, ``pod team-a/p`` of another pod."""
    vm = vm_of_pod(pod)
    return f"VM {pod.namespace}/{vm}" if vm else f"pod {pod.key}"


def vm_of_pod_name(name: str) -> str:
    """The VM that a pod of this name is most likely the launcher of, "" if it isn't named like a launcher."""
    match = _LAUNCHER_POD.fullmatch(name)
    return match["vm"] if match is not None else ""


_launchers = ModelIndex(Pod, lambda pod: (f"{pod.namespace}/{vm}",) if (vm := vm_of_pod(pod)) else ())


def launchers_of(model: ClusterModel, vm: str) -> tuple[Pod, ...]:
    """The launcher pods of a VM, finished ones too. ``vm``: its ``namespace/name``."""
    return _launchers(model, vm)


def launchers(model: ClusterModel) -> Mapping[str, tuple[Pod, ...]]:
    """The launcher pods of every VM that has one, by the VM's ``namespace/name``."""
    return _launchers.all(model)
