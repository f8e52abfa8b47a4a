"""AllocationResults from picked devices (A-18): results, configuration of classes and claim, node selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.features import writers
from virt_dra.allocator.features.capacity import Capacities, ShareNames
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import ClaimPlan, PoolDevice, Request
from virt_dra.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)
from virt_dra.api.wire import Stamp

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"
CONFIG_LIMIT = 64
"""Configuration entries that the API server accepts in an allocation (A-22)."""


class Results:
    """Writes the results of claims that are equal but for their names."""

    def __init__(self, plans: Sequence[ClaimPlan], features: Features, capacities: Capacities) -> None:
        self._plans = plans
        self._writers = writers(features)
        self._shares = ShareNames(capacities, features)
        self._configs: dict[tuple[int, tuple[tuple[int, int], ...]], tuple[DeviceAllocationConfiguration, ...]] = {}
        self._stamps: dict[tuple[Request, int], tuple[Stamp[DeviceRequestAllocationResult], bool]] = {}
        """By request and PoolDevice.profile, whose results differ only in device and share; and whether they name a
        share."""

    def write(
        self,
        claims: Sequence[ResourceClaim],
        picks: Sequence[Sequence[tuple[Request, int]]],
        selected: Sequence[Mapping[int, int]],
        devices: Sequence[PoolDevice],
        node: str,
    ) -> tuple[AllocationResult, ...]:
        """One result per claim. ``picks``: per claim the requests and positions in ``devices``; ``selected``: per
        claim, index of a request -> of its alternative. Raises :class:`FatalError` for more configuration than can be
        stored (AC-14) and for a node selector with several terms (E22)."""
        return tuple(
            [
                self._of(number, claim, picks[number], selected[number], devices, node)
                for number, claim in enumerate(claims)
            ]
        )

    def _of(
        self,
        number: int,
        claim: ResourceClaim,
        picks: Sequence[tuple[Request, int]],
        selected: Mapping[int, int],
        devices: Sequence[PoolDevice],
        node: str,
    ) -> AllocationResult:
        key = (number, tuple(selected.items()))
        config = self._configs.get(key)
        if config is None:
            config = self._configs[key] = _config(self._plans[number], selected)
        if len(config) > CONFIG_LIMIT:
            raise FatalError(
                f"claim {claim.key}: allocation would need {len(config)} "
                f"configuration entries, the limit is {CONFIG_LIMIT}"
            )
        selector = _node_selector(claim.name, [devices[position] for _, position in picks], node)
        results = tuple([self._result(claim, request, devices[position]) for request, position in picks])
        allocated = _configured_devices(results=results, config=config) if config else _devices(results=results)
        return (
            _allocation(devices=allocated)
            if selector is None
            else _allocation_there(devices=allocated, node_selector=selector)
        )

    def _result(self, claim: ResourceClaim, request: Request, device: PoolDevice) -> DeviceRequestAllocationResult:
        key = (request, device.profile)
        stamp, shared = self._stamps.get(key) or self._stamps.setdefault(key, self._stamp(claim, request, device))
        driver, pool, name = device.id
        if not shared:
            return stamp(driver=driver, pool=pool, device=name)
        share = self._shares.share(claim, request, device)
        if not share.consumed:
            return stamp(driver=driver, pool=pool, device=name, share_id=share.id)
        return stamp(driver=driver, pool=pool, device=name, share_id=share.id, consumed_capacity=share.consumed)

    def _stamp(
        self, claim: ResourceClaim, request: Request, device: PoolDevice
    ) -> tuple[Stamp[DeviceRequestAllocationResult], bool]:
        same: dict[str, Any] = {"request": request.full_name}
        if request.admin_access:
            same["admin_access"] = True
        if request.tolerations:
            same["tolerations"] = request.tolerations
        for write in self._writers:
            write(same, device)
        different = ["driver", "pool", "device"]
        shared = self._shares.named(device)
        if shared:
            different += (
                ["share_id", "consumed_capacity"]
                if self._shares.share(claim, request, device).consumed
                else ["share_id"]
            )
        return Stamp(DeviceRequestAllocationResult, same, *different), shared


_devices = Stamp(DeviceAllocationResult, {}, "results")
_configured_devices = Stamp(DeviceAllocationResult, {}, "results", "config")
_allocation = Stamp(AllocationResult, {}, "devices")
_allocation_there = Stamp(AllocationResult, {}, "devices", "node_selector")


def _config(plan: ClaimPlan, selected: Mapping[int, int]) -> tuple[DeviceAllocationConfiguration, ...]:
    """The configuration of the classes, then that of the claim, with the requests each is for (A-18.2 to A-18.4)."""
    requests = [entry.alternatives[selected.get(i, 0)].request for i, entry in enumerate(plan.requests)]
    names = [(entry.name, request.full_name) for entry, request in zip(plan.requests, requests, strict=True)]
    by_class: dict[str, list[Request]] = {}
    for request in requests:
        by_class.setdefault(request.device_class.name, []).append(request)
    entries = [
        _entry(FROM_CLASS, tuple(request.full_name for request in of_class), config.opaque, names)
        for of_class in by_class.values()
        for config in of_class[0].device_class.spec.config
    ]
    for config in plan.claim.spec.devices.config:
        if not config.requests or any(base in config.requests or full in config.requests for base, full in names):
            entries.append(_entry(FROM_CLAIM, config.requests, config.opaque, names))
    return tuple(entries)


def _entry(
    source: str,
    requests: tuple[str, ...],
    opaque: OpaqueDeviceConfiguration | None,
    names: Sequence[tuple[str, str]],
) -> DeviceAllocationConfiguration:
    """One entry of the configuration. ``names``: of all requests, the own and the full one; an entry for all of them is
    written without names, since empty means all (A-18.4)."""
    entry = DeviceAllocationConfiguration(source=source)
    if requests and not all(base in requests or full in requests for base, full in names):
        entry = entry.with_(requests=requests)
    return entry if opaque is None else entry.with_(opaque=opaque)


def _node_selector(claim: str, devices: Sequence[PoolDevice], node: str) -> NodeSelector | None:
    """Selects the nodes that reach the devices: this node, or by the merged requirements of their slices, or all (None)
    (A-18.6)."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in devices:
        source = device.published if device.slice.per_device_node_selection else device.slice
        if source.node_name is not None or device.published.binds_to_node:
            return _only(node)
        terms = source.node_selector.node_selector_terms if source.node_selector is not None else ()
        if len(terms) > 1:
            raise FatalError(
                f"create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _merge(term.match_fields, fields)
            _merge(term.match_expressions, expressions)
    if not fields and not expressions:
        return None
    merged = NodeSelectorTerm()
    if expressions:
        merged = merged.with_(match_expressions=tuple(expressions))
    if fields:
        merged = merged.with_(match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(merged,))


@lru_cache(maxsize=16384)
def _only(node: str) -> NodeSelector:
    """Immutable and the same for all results on a node, so it is made once."""
    only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))


def _merge(requirements: Sequence[NodeSelectorRequirement], into: list[NodeSelectorRequirement]) -> None:
    for new in requirements:
        if not any(
            merged.key == new.key and merged.operator == new.operator and set(merged.values) == set(new.values)
            for merged in into
        ):
            into.append(new)
