"""The moment from which NoExecute taints evict whoever uses a claim, by a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from virt_dra.api.defaults import defaulted
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.model.cluster import ClusterModel, derived
from virt_dra.model.evicting.causes import CausedTaint, Eviction, TaintedDevice, claim_eviction
from virt_dra.model.evicting.published import PublishedTaints
from virt_dra.model.evicting.rules import EvictingRules


def eviction_of(claim: ResourceClaim, model: ClusterModel) -> Eviction | None:
    """The eviction of a claim's users, None if no taint counts. A taint without a time was always there."""
    return claim_eviction(claim.status.allocation, _taints_of(model))


@derived(ResourceSlice, DeviceTaintRule)
def _taints_of(model: ClusterModel) -> Callable[[TaintedDevice], Iterable[CausedTaint]]:
    published, rules = PublishedTaints(), EvictingRules()
    for slice_ in model.of(ResourceSlice):
        tainted = any(device.taints for device in slice_.spec.devices)
        published.change(None, defaulted(slice_) if tainted else slice_)
    for rule in model.of(DeviceTaintRule):
        rules.add(defaulted(rule))
    return lambda device: chain(rules.taints_of(device), published.taints_of(device))
