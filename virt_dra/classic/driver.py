"""What the author of a classic driver writes: three functions. The framework around them is :mod:`.driver_controller`.

They may be called again for the same claims, after a crash or a conflict: they must be idempotent. An exception fails
that attempt only: it is reported as an Event ``Failed`` and tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from virt_dra.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.classic.objects import ClassicAllocation, ClassicClaim, ClassicDeviceClass, ResourceClass, ResourceHandle
from virt_dra.classic.release import NEWEST_STRUCTURED, ClassicRelease


class AllocationRefused(Exception):
    """A driver can't allocate a claim now; the text is for the claim's Event. Returned or raised."""


@dataclass(frozen=True)
class PendingClaim:
    """A claim that is to be allocated. ``entry``: the name of the pod's claim entry; empty for immediate allocation.
    ``class_parameters``, ``claim_parameters``: what the references lead to; None without one. ``resource_class``: for a
    claim with a ``controller`` (1.31) the DeviceClass of its first request, or None."""

    claim: ClassicClaim
    resource_class: ResourceClass | ClassicDeviceClass | None
    entry: str = ""
    class_parameters: object = None
    claim_parameters: object = None


class ClassicDriver(Protocol):
    """``name``: the driver's, as classes name it."""

    name: str

    async def allocate(
        self, claims: Sequence[PendingClaim], node: str
    ) -> Sequence[ClassicAllocation | AllocationRefused]:
        """Allocate claims of a pod for a node, or for any if that is empty (immediate). One answer each, in order."""

    async def deallocate(self, claim: ClassicClaim) -> None:
        """Free what a claim has; also to stop an allocation that was never recorded, and for one that has nothing."""

    async def unsuitable_nodes(
        self, pod: Pod, claims: Sequence[PendingClaim], nodes: Sequence[str]
    ) -> Sequence[Collection[str]]:
        """For each claim, in order, those of the nodes on which all claims together can't be allocated."""


@runtime_checkable
class ParametersReader(Protocol):
    """An optional port of a driver that reads parameters itself. Other drivers get the referenced objects."""

    async def class_parameters(self, resource_class: ResourceClass | ClassicDeviceClass | None) -> object: ...

    async def claim_parameters(
        self, claim: ClassicClaim, resource_class: ResourceClass | ClassicDeviceClass | None, class_parameters: object
    ) -> object: ...


@dataclass(frozen=True)
class DriverSettings:
    """``parameter_kinds``: what references may name, beside ConfigMaps; a reference has no version, so the driver fixes
    it. ``reserves``: the pod that triggered an allocation is reserved in the same write, which saves the scheduler one
    (C-18.5). ``recheck``: seconds after which unsuitable nodes are determined again."""

    DEFAULT_RECHECK: ClassVar[float] = 30.0

    parameter_kinds: tuple[type[TypedObject], ...] = ()
    reserves: bool = True
    recheck: float = DEFAULT_RECHECK
    workers: int = 4
    release: ClassicRelease = NEWEST_STRUCTURED


def on_node(driver: str, data: str, node: str = "", *, shareable: bool = False) -> ClassicAllocation:
    """An allocation with one handle, available on one node (all, if empty)."""
    term = NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,)),))
    selector = NodeSelector(node_selector_terms=(term,)) if node else None
    return on_nodes(driver, data, selector, shareable=shareable)


def on_nodes(
    driver: str, data: str, selector: NodeSelector | None = None, *, shareable: bool = False
) -> ClassicAllocation:
    """An allocation with one handle, available where a selector says (everywhere, if None)."""
    allocation = ClassicAllocation(resource_handles=(ResourceHandle(driver_name=driver, data=data),))
    allocation = allocation.with_(shareable=True) if shareable else allocation
    return allocation if selector is None else allocation.with_(available_on_nodes=selector)
