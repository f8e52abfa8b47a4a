"""Equivalence classes of nodes: nodes that the search can't distinguish for some requests, whatever nodes, pools and
devices are called.

The search is a function of a node's *class* and its *usage*. The class stands for the published facts of its devices,
as the requests see them, in search order: computed once per node and list of requests. The usage is what is in use of
its pools, by position: computed once per change of a pool. So nodes of one class with equal usage get the same devices,
by position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import compress, count

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.model import NOT_REUSABLE, Label, PoolDevice, PoolId, Request
from virt_dra.allocator.pools import Pool, Pools, Reachable, ReachablePool
from virt_dra.allocator.usage import PoolUse, Used

_REMEMBERED_NODES = 100_000
"""Nodes whose class is kept; beyond it all are computed anew."""
_BROKEN = "broken"
"""Stands for a device that is an error to a request; which error is found by searching."""
_UNKNOWN = object()


class NodeClasses:
    """The classes of nodes for some requests, numbered as they are met. Any requests that depend on the same facts may
    share them."""

    def __init__(self, pools: Pools, requests: Sequence[Request]) -> None:
        self._pools = pools
        self._requests = requests
        self._by_facts: defaultdict[Hashable, int] = defaultdict(count().__next__)
        self._by_node: dict[Reachable, int] = {}
        self._columns: list[_Column] | None = None

    def number(
        self, reachable: Reachable, selectors: SelectorFilter, features: Callable[[], FeatureTable]
    ) -> int | None:
        """The number of the node's class; None if a feature doesn't support reuse. ``features`` is called only where it
        is needed."""
        number = self._by_node.get(reachable)
        if number is None:
            facts = self._facts(reachable, selectors, features)
            if facts is NOT_REUSABLE:
                return None
            if len(self._by_node) >= _REMEMBERED_NODES:
                self._by_node.clear()
                self._by_facts.clear()
            number = self._by_node[reachable] = self._by_facts[facts]
        return number

    def _facts(self, reachable: Reachable, selectors: SelectorFilter, features: Callable[[], FeatureTable]) -> Hashable:
        if self._columns is None:
            self._columns = [_Column(request, features()) for request in self._requests]
        labels = _LabelNumbers()
        facts: list[Hashable] = []
        for column in self._columns:
            of_request = column.facts(reachable, selectors, features, labels)
            if of_request is NOT_REUSABLE:
                return NOT_REUSABLE
            if of_request is None:
                # a class of its own: expressions that fail may be costly, so they aren't evaluated for all devices
                return reachable
            facts.append(of_request)
        return tuple([self._pool_facts(pool, reachable.node) for pool in reachable.pools]), tuple(facts)

    def _pool_facts(self, visible: ReachablePool, node: str) -> Hashable:
        """A pool that several nodes see is equal only to itself, with the same devices visible."""
        pool = self._pools.pool(visible.id)
        shared = pool.local_node != node
        identity = (
            (pool.id, tuple([pool.positions[device.id.device] for device in visible.devices])) if shared else None
        )
        return visible.id.driver, len(visible.devices), visible.problem and visible.problem.reason, identity


class _Column:
    """The facts of devices that one request depends on: selectors read some attributes, constraints others, the rest
    none."""

    def __init__(self, request: Request, features: FeatureTable) -> None:
        """``features``: of any node."""
        self._request = request
        self._constraints = [check for check in features.checks(request.claim) if check.constrains(request)]
        self._rest_by_alike: dict[tuple[str, ...], dict[int, Hashable]] = {}
        """By the features that a node declares, and PoolDevice.profile."""

    def facts(
        self,
        reachable: Reachable,
        selectors: SelectorFilter,
        features: Callable[[], FeatureTable],
        labels: _LabelNumbers,
    ) -> Hashable | None:
        """The facts of all devices of a node; None if one of them is an error."""
        matching = selectors.matching(self._request, reachable.devices)
        if matching is None:
            return None
        rests_by_profile = self._rest_by_alike.setdefault(reachable.declared_features, {})
        selected = list(compress(reachable.devices, matching))
        rests: list[Hashable] = []
        for device in selected:
            rest = rests_by_profile.get(device.profile, _UNKNOWN)
            if rest is _UNKNOWN:
                rest = self._rest(device, features())
                if not device.slice.per_device_node_selection:  # else it depends on the node
                    rests_by_profile[device.profile] = rest
            if rest is NOT_REUSABLE:
                return NOT_REUSABLE
            if rest is _BROKEN:
                return None
            rests.append(rest)
        constrained = [
            labels.numbered(constraint.reuse_keys(self._request, selected, selectors.work))
            for constraint in self._constraints
        ]
        return NOT_REUSABLE if NOT_REUSABLE in constrained else (tuple(matching), tuple(rests), *constrained)

    def _rest(self, device: PoolDevice, features: FeatureTable) -> Hashable:
        """Everything but selectors and constraints: equal for devices that publish the same apart from names and
        attributes."""
        filters = [filter_ for filter_ in features.filters if filter_ is not features.selectors]
        if not all(filter_.reusable for filter_ in filters):
            return NOT_REUSABLE
        try:
            if not all(filter_.admits(self._request, device) for filter_ in filters):
                return False
        except Aborted:
            raise
        except FatalError:
            return _BROKEN
        checks = features.checks(self._request.claim)
        keys = tuple(
            [check.reuse_key(self._request, device) for check in checks if not check.constrains(self._request)]
        )
        return NOT_REUSABLE if NOT_REUSABLE in keys else keys


class _LabelNumbers:
    """Numbers the values of labels in the order of their first appearance, which leaves only the pattern of
    equality."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, defaultdict[Hashable, int]] = {}

    def numbered(self, keys: Iterable[Hashable]) -> Hashable:
        numbered: list[Hashable] = []
        for key in keys:
            if isinstance(key, Label):
                space, values = key
                numbers = self._numbers.get(space)
                if numbers is None:
                    numbers = self._numbers[space] = defaultdict(count().__next__)
                key = (space, numbers[values[0]] if len(values) == 1 else tuple(map(numbers.__getitem__, values)))
            elif key is NOT_REUSABLE:
                return NOT_REUSABLE
            numbered.append(key)
        return tuple(numbered)


class UsageKeys:
    """Keys for the use of a node's pools, by the devices' positions. The latest key of each pool is cached."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._latest: dict[PoolId, tuple[PoolUse, Hashable]] = {}

    def key(self, reachable: Reachable, used: Used) -> Hashable:
        """Equal for nodes of one class on which the same devices, by position, are in the same use."""
        if len(reachable.pools) == 1:
            return self._pool_key(reachable.pools[0].id, used)
        return tuple([self._pool_key(pool.id, used) for pool in reachable.pools])

    def _pool_key(self, pool: PoolId, used: Used) -> Hashable:
        use = used.get(pool)
        if use is None:
            return 0
        latest = self._latest.get(pool)
        if latest is None or latest[0] is not use:
            latest = self._latest[pool] = use, usage_key(use, self._pools.pool(pool))
        return latest[1]


def usage_key(use: PoolUse, pool: Pool) -> Hashable:
    """Equal for uses of equal pools that no check can distinguish. An int with a bit per device if all use is
    exclusive."""
    exclusive, gone = _bits(use.exclusive, pool.positions)
    if not use.shares and not use.consumed and not gone:
        return exclusive
    shared, also_gone = _bits(use.shared, pool.positions)
    consumed = frozenset(
        (pool.positions.get(device, device), frozenset(amounts.items())) for device, amounts in use.consumed.items()
    )
    return exclusive, shared, consumed, gone, also_gone


def _bits(devices: Iterable[str], positions: Mapping[str, int]) -> tuple[int, frozenset[str]]:
    """A bit per device of the pool, and the names of devices that it no longer publishes."""
    bits, gone = 0, set()
    for device in devices:
        position = positions.get(device)
        if position is None:
            gone.add(device)
        else:
            bits |= 1 << position
    return bits, frozenset(gone)
