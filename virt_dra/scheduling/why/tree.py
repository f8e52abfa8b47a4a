"""The tree of refusals: why a pod can't go to a node, by filter, request, device and term of the selector."""

from __future__ import annotations

from dataclasses import dataclass

from virt_dra.allocator.model import DeviceId
from virt_dra.allocator.pools import PoolProblem
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason
from virt_dra.scheduling.why.distance import distance_of


@dataclass(frozen=True)
class RefusedDevice:
    """The refusal of a device. Of a mismatch the reason has the false term, and as text what the device has instead."""

    device: DeviceId
    reason: Reason


@dataclass(frozen=True)
class RequestRefusal:
    """A request (or alternative) that was tried: ``wanted`` devices, at best ``placed`` at the same time. ``devices``:
    the first refusal of each. ``common_reason``: where it is none of a single device."""

    claim: str
    request: str
    wanted: int
    placed: int
    devices: tuple[RefusedDevice, ...]
    common_reason: Reason | None = None

    @property
    def nearest(self) -> tuple[RefusedDevice, ...]:
        """The devices whose refusal is nearest to a place; empty where the reason isn't about devices."""
        if self.common_reason is not None:
            return ()
        least = min((distance_of(refused.reason) for refused in self.devices), default=0)
        return tuple([refused for refused in self.devices if distance_of(refused.reason) == least])


@dataclass(frozen=True)
class ExplainedRefusal:
    """A filter's refusal of a node. ``reasons``: those of the node itself; of the filter for devices, the one that is
    none of a request. ``requests``: those that were tried, in their order; the search never got past the last.
    ``pools``: those of which no device may be allocated. ``reachable``: the number of devices that the node reaches."""

    refusal: FilterRefusal
    reasons: tuple[Reason, ...] = ()
    requests: tuple[RequestRefusal, ...] = ()
    pools: tuple[PoolProblem, ...] = ()
    reachable: int = 0

    @property
    def nearest(self) -> tuple[Reason, ...]:
        """The different reasons, sorted: the filter's own, or of the blocking request the nearest ones."""
        if not self.requests:
            return self.reasons
        blocking = self.requests[-1]
        if blocking.common_reason is not None:
            return (blocking.common_reason,)
        return tuple(sorted({Reason(refused.reason.code, refused.reason.text) for refused in blocking.nearest}))


@dataclass(frozen=True)
class NodeRefusal:
    """Why the pod can't go to a node; it can where nothing refuses it. ``of_node``: by filters that ask the node
    itself."""

    node: str
    of_node: tuple[ExplainedRefusal, ...] = ()
    devices: ExplainedRefusal | None = None

    @property
    def fits(self) -> bool:
        return not self.of_node and self.devices is None

    @property
    def filters(self) -> tuple[ExplainedRefusal, ...]:
        """All refusals, in the order of the filters, that for devices last."""
        return self.of_node if self.devices is None else (*self.of_node, self.devices)

    @property
    def refusal(self) -> FilterRefusal:
        """The first filter's, which is the one that kube-scheduler would say. Only of a node that doesn't fit."""
        return self.filters[0].refusal

    @property
    def node_reasons(self) -> tuple[Reason, ...]:
        return tuple(reason for refusal in self.of_node for reason in refusal.reasons)

    @property
    def device_reasons(self) -> tuple[Reason, ...]:
        return () if self.devices is None else self.devices.nearest

    @property
    def blocking(self) -> RequestRefusal | None:
        """The request that the search for devices never got past."""
        return self.devices.requests[-1] if self.devices is not None and self.devices.requests else None

    @property
    def common_reason(self) -> Reason | None:
        """The reason where no single device is in the way."""
        if self.devices is None:
            return None
        return self.blocking.common_reason if self.blocking is not None else self.devices.reasons[0]

    @property
    def distance(self) -> int:
        """How far the node is from taking the pod: every reason of its own counts, and the nearest of its devices."""
        nearest = min(map(distance_of, self.device_reasons), default=0)
        return sum(map(distance_of, self.node_reasons)) + nearest
