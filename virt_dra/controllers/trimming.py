"""What the operator keeps of what it follows: only what it reads. (Equal parts of devices are one object since they were read,
see ``virt_dra.cluster.sharing``.)

Trimmed objects are for reading. Nothing may be written from one as a whole, only patched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from virt_dra.api.core_v1 import Container, Node, Pod
from virt_dra.api.kubevirt_v1 import Devices, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.wire import Wire

O = TypeVar("O", bound=TypedObject)  # noqa: E741 - the object type, as in port
W = TypeVar("W", bound=Wire)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object."""


def trimmed(obj: O) -> O:
    """Without what no controller reads. Kinds that aren't trimmed come back as they are."""
    trim = _TRIMS.get(type(obj))
    kept: O = obj if trim is None else trim(obj)
    return kept


def _vmi(obj: VirtualMachineInstance) -> VirtualMachineInstance:
    spec = obj.spec
    domain = _bare(spec.domain, "cpu", "memory", "machine", "resources")
    domain = domain.with_(devices=_devices(domain.devices, claimed=any(network.resource_claim is not None for network in spec.networks)))
    return obj.with_(
        metadata=_metadata(obj.metadata), spec=_bare(spec, "volumes", "affinity").with_(domain=domain), status=_bare(obj.status)
    )


def _devices(devices: Devices, *, claimed: bool) -> Devices:
    """``claimed``: some network has a claim, so that what its interface is matters."""
    if not claimed:
        return _bare(devices, "disks", "interfaces")
    interfaces = tuple(_bare(interface, "mac_address", "pci_address", "boot_order", "tag") for interface in devices.interfaces)
    return _bare(devices, "disks").with_(interfaces=interfaces)


def _pod(obj: Pod) -> Pod:
    spec = _bare(obj.spec, "volumes", "init_containers", "security_context")
    spec = spec.with_(containers=tuple(_container(container) for container in spec.containers))
    return obj.with_(metadata=_metadata(obj.metadata), spec=spec, status=_bare(obj.status))


def _container(container: Container) -> Container:
    return _bare(container, "command", "args", "env", "volume_mounts", "readiness_probe", "security_context")


def _node(obj: Node) -> Node:
    """Without images, addresses and what else it has."""
    return obj.with_(metadata=_metadata(obj.metadata), status=_bare(obj.status))


def _metadata(meta: ObjectMeta) -> ObjectMeta:
    meta = meta.without("managed_fields")
    if LAST_APPLIED not in meta.annotations:
        return meta
    return meta.with_(annotations={key: value for key, value in meta.annotations.items() if key != LAST_APPLIED})


def _bare(obj: W, *fields: str) -> W:
    """Without the fields (Python names), and without what no type of ours knows."""
    return obj.without(*fields, *(obj.model_extra or {}))


_TRIMS: Mapping[type[TypedObject], Callable[[Any], Any]] = {VirtualMachineInstance: _vmi, Pod: _pod, Node: _node}
