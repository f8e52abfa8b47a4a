"""When two nodes are alike: what the search would look at, without the names of nodes, pools and devices.

A node's *shape* stands for the published facts of its devices as a list of requests sees them, in the order of the search. Its *state*
stands for what is in use of its pools. The search is a function of the two: nodes with equal shapes in equal states get the same
devices, by position. Shapes are computed once per node and kind of request, states once per change of a pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress, count
from typing import Protocol

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.model import Check, Device, Filter, Label, Request
from virt_dra.allocator.pools import Pool, Pools, Reachable, ReachablePool
from virt_dra.allocator.usage import PoolUse, Used
from virt_dra.api.resource_v1 import ResourceClaim

_BROKEN = "broken"
"""The fact of a device that is an error to a request; which error is found by searching."""
_UNKNOWN = object()


class Looks(Protocol):
    """The features of a node, as far as published facts go."""

    @property
    def selectors(self) -> SelectorFilter: ...

    @property
    def filters(self) -> Sequence[Filter]:
        """With the selectors."""

    def checks(self, claim: ResourceClaim) -> Sequence[Check]: ...


class Shapes:
    """The shapes of nodes to some requests, numbered as they are met. Any requests that look at the same facts may share them."""

    def __init__(self, pools: Pools, requests: Sequence[Request]) -> None:
        self._pools = pools
        self._requests = requests
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Reachable, int] = {}
        self._views: list[_View] | None = None

    def of(self, reachable: Reachable, selectors: SelectorFilter, looks: Callable[[], Looks]) -> int:
        """The number of the node's shape. The node's features (``looks``) are asked for only where that is needed."""
        known = self._known.get(reachable)
        if known is None:
            shape = self._shape(reachable, selectors, looks)
            known = self._known[reachable] = self._numbers.setdefault(shape, len(self._numbers))
        return known

    def _shape(self, reachable: Reachable, selectors: SelectorFilter, looks: Callable[[], Looks]) -> Hashable:
        if self._views is None:
            self._views = [_View(request, looks()) for request in self._requests]
        labels = _Labels()
        columns: list[Hashable] = []
        for view in self._views:
            column = view.facts(reachable, selectors, looks, labels)
            if column is None:
                return reachable  # like no other: expressions that fail may be costly, so they aren't asked about all devices
            columns.append(column)
        pools = tuple(
            [
                (each.id.driver, len(each.devices), each.problem and each.problem.reason, self._identity(each, reachable.node))
                for each in reachable.pools
            ]
        )
        return pools, tuple(columns)

    def _identity(self, seen: ReachablePool, node: str) -> Hashable:
        """A pool that other nodes see too is like no other, and which of its devices the node sees matters to what is in use."""
        pool = self._pools.pool(seen.id)
        return None if pool.local_node == node else (pool.id, tuple([pool.positions[device.id.device] for device in seen.devices]))


class _View:
    """How one request looks at the devices of nodes: the selectors read some attributes, constraints others, and the rest none."""

    def __init__(self, request: Request, looks: Looks) -> None:
        """``looks``: at any node."""
        self._request = request
        self._constraints = [each for each in looks.checks(request.claim) if each.constrains(request)]
        self._alike: dict[tuple[str, ...], dict[int, Hashable]] = {}
        """By what a node declares: the rest of devices that are alike."""

    def facts(self, reachable: Reachable, selectors: SelectorFilter, looks: Callable[[], Looks], labels: _Labels) -> Hashable | None:
        """Of all devices of a node; None where one of them is an error."""
        matching = selectors.matching(self._request, reachable.devices)
        if matching is None:
            return None
        alike = self._alike.setdefault(reachable.declared_features, {})
        selected = list(compress(reachable.devices, matching))
        rests: list[Hashable] = []
        for device in selected:
            rest = alike.get(device.alike, _UNKNOWN)
            if rest is _UNKNOWN:
                rest = self._rest(device, looks())
                if not device.slice.per_device_node_selection:  # else it depends on the node
                    alike[device.alike] = rest
            if rest is _BROKEN:
                return None
            rests.append(rest)
        constrained = [labels.numbered(each.facts(self._request, selected, selectors.interrupt)) for each in self._constraints]
        return tuple(matching), tuple(rests), *constrained

    def _rest(self, device: Device, looks: Looks) -> Hashable:
        """All but the selectors and constraints: the same for devices that are alike."""
        try:
            if not all(each.admits(self._request, device) for each in looks.filters if each is not looks.selectors):
                return False
        except Aborted:
            raise
        except FatalError:
            return _BROKEN
        checks = looks.checks(self._request.claim)
        return tuple([each.fact(self._request, device) for each in checks if not each.constrains(self._request)])


class _Labels:
    """Numbers labels' values in the order of their first appearance, so that only the pattern of equality is left of them."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, defaultdict[Hashable, int]] = {}

    def numbered(self, facts: Iterable[Hashable]) -> Hashable:
        found: list[Hashable] = []
        for fact in facts:
            if isinstance(fact, Label):
                space, values = fact
                numbers = self._numbers.get(space)
                if numbers is None:
                    numbers = self._numbers[space] = defaultdict(count().__next__)
                fact = (space, numbers[values[0]] if len(values) == 1 else tuple(map(numbers.__getitem__, values)))
            found.append(fact)
        return tuple(found)


def state(reachable: Reachable, used: Used, pools: Pools) -> Hashable:
    """What is in use of the node's pools, by position of the devices in their pools."""
    if len(reachable.pools) == 1:
        (only,) = reachable.pools
        use = used.get(only.id)
        return 0 if use is None else use_key(use, pools.pool(only.id))
    return tuple([0 if (use := used.get(each.id)) is None else use_key(use, pools.pool(each.id)) for each in reachable.pools])


def use_key(use: PoolUse, pool: Pool) -> Hashable:
    """Equal for uses of equal pools that no check can tell apart. An int with a bit per device where all use is exclusive."""
    known = use.remembered.get(pool)
    if known is None:
        known = use.remembered[pool] = _use_key(use, pool.positions)
    return known


def _use_key(use: PoolUse, positions: Mapping[str, int]) -> Hashable:
    exclusive, gone = _bits(use.exclusive, positions)
    if not use.shares and not use.consumed and not gone:
        return exclusive
    shared, also_gone = _bits(use.shared, positions)
    consumed = frozenset((positions.get(device, device), frozenset(amounts.items())) for device, amounts in use.consumed.items())
    return exclusive, shared, consumed, gone, also_gone


def _bits(devices: Iterable[str], positions: Mapping[str, int]) -> tuple[int, frozenset[str]]:
    """A bit per device of the pool, and the devices that it publishes no more."""
    bits, gone = 0, set()
    for device in devices:
        position = positions.get(device)
        if position is None:
            gone.add(device)
        else:
            bits |= 1 << position
    return bits, frozenset(gone)
