"""Caches of everything computed from slices and classes alone, kept beside the snapshots that share them."""

from __future__ import annotations

from collections.abc import Mapping

from virt_dra.allocator.features.attributes import Attributes
from virt_dra.allocator.features.capacity import Capacities
from virt_dra.allocator.features.selectors import SelectorOutcomes
from virt_dra.allocator.gates import Features
from virt_dra.allocator.memo import remember
from virt_dra.allocator.pools import Pools
from virt_dra.allocator.published import PublishedValues
from virt_dra.allocator.reuse.pod_classes import PodClasses
from virt_dra.api.resource_v1 import DeviceClass, ResourceSlice

_REMEMBERED_FEATURE_SETS = 16


class SnapshotCaches:
    """Each cache is bounded, by a limit of its own or by the number of published devices. None changes an answer."""

    def __init__(self, slices: tuple[ResourceSlice, ...], classes: Mapping[str, DeviceClass]) -> None:
        self._slices = slices
        self._classes = classes
        self._numbers = PublishedValues()
        self.selectors = SelectorOutcomes()
        self.attributes = Attributes(self._numbers)
        self.capacities = Capacities()
        self._pools: dict[Features, Pools] = {}
        self._pod_classes: dict[tuple[Features, type], PodClasses] = {}

    def pools(self, features: Features) -> Pools:
        pools = self._pools.get(features)
        if pools is None:
            pools = remember(
                self._pools, features, Pools(self._slices, features, self._numbers), _REMEMBERED_FEATURE_SETS
            )
        return pools

    def pod_classes(self, features: Features, table: type) -> PodClasses:
        """``table``: the type of the feature table, whose outcomes aren't those of another."""
        key = (features, table)
        pod_classes = self._pod_classes.get(key)
        if pod_classes is None:
            pod_classes = PodClasses(self.pools(features), self._classes, self.capacities, features)
            remember(self._pod_classes, key, pod_classes, _REMEMBERED_FEATURE_SETS)
        return pod_classes
