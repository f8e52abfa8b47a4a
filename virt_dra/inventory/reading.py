"""What is read of a live cluster, with no other rights than the user's: kinds that can't be read are left out, and
named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.port import Forbidden, NotFound, Reader
from virt_dra.inventory.kinds import RowKind

_USE: Final = (ResourceSlice, ResourceClaim, Pod, DeviceTaintRule)
READ: Final[Mapping[RowKind, tuple[type[TypedObject], ...]]] = {
    "vms": (VirtualMachine, VirtualMachineInstance, *_USE, VirtualMachineInstanceDevices),
    "devices": _USE,
    "claims": (ResourceClaim, Pod),
    "pools": _USE,
    "drivers": (*_USE, DeviceClass),
}
"""The kinds of objects that rows of each kind are made of."""
_PRIMARY: Final[Mapping[RowKind, tuple[type[TypedObject], ...]]] = {
    "vms": (VirtualMachine, VirtualMachineInstance, Pod, ResourceClaim),
    "devices": (ResourceSlice,),
    "claims": (ResourceClaim,),
    "pools": (ResourceSlice,),
    "drivers": (ResourceSlice,),
}
"""Kinds of which one must be readable, or there is nothing to show."""


@dataclass(frozen=True)
class ReadScope:
    """What can be read: each kind with the namespace in which ("" for all). ``notes``: what was left out, for
    people."""

    namespaces: dict[type[TypedObject], str]
    notes: tuple[str, ...] = ()
    unread: frozenset[type[TypedObject]] = frozenset()
    """Kinds that may have objects which couldn't be read. A kind that isn't served has none."""

    @property
    def partial(self) -> frozenset[type[TypedObject]]:
        """Kinds of which one namespace was read."""
        return frozenset(kind for kind, namespace in self.namespaces.items() if namespace)

    def serves(self, kind: RowKind) -> bool:
        """True if there is something to make rows of."""
        return any(each in self.namespaces for each in _PRIMARY[kind])


async def read_objects_of(
    cluster: Reader, kinds: Iterable[type[TypedObject]], namespace: str
) -> tuple[list[TypedObject], ReadScope]:
    """All objects of the kinds in all namespaces; where that isn't allowed, those of ``namespace``.

    Raises ApiError for what isn't about a single kind: no connection, bad credentials.
    """
    found: list[TypedObject] = []
    namespaces: dict[type[TypedObject], str] = {}
    not_served: list[str] = []
    forbidden: list[type[TypedObject]] = []
    narrowed: list[str] = []
    for kind in kinds:
        for place in ("", namespace) if kind.NAMESPACED and namespace else ("",):
            try:
                found += (await cluster.list(kind, place)).items
            except NotFound:
                not_served.append(f"{kind.KIND} ({kind.API_VERSION})")
            except Forbidden:
                if place or not kind.NAMESPACED or not namespace:
                    forbidden.append(kind)
                continue
            else:
                namespaces[kind] = place
                if place:
                    narrowed.append(kind.KIND)
            break
    notes = _notes(not_served, [kind.KIND for kind in forbidden], narrowed, namespace)
    return found, ReadScope(namespaces, tuple(notes), frozenset(forbidden))


def _notes(
    not_served: Sequence[str], forbidden: Sequence[str], narrowed: Sequence[str], namespace: str
) -> Iterable[str]:
    if not_served:
        yield f"left out, as this cluster doesn't serve them: {', '.join(not_served)}"
    if forbidden:
        yield f"left out, as you may not list them: {', '.join(forbidden)}"
    if narrowed:
        yield f"only of namespace {namespace}, as you may not list those of others: {', '.join(narrowed)}"
