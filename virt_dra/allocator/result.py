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

    def of(
        self,
        claims: Sequence[ResourceClaim],
        picks: Sequence[Sequence[tuple[Request, int]]],
        selected: Sequence[Mapping[int, int]],
        devices: Sequence[PoolDevice],
        node: str,
    ) -> tuple[AllocationResult, ...]:
        """One result per claim. ``picks``: per claim the requests and positions in ``devices``; ``selected``: per
        claim, index of a request -> of its alternative.

        Raises :class:`FatalError` for more configuration than can be stored (AC-14) and for a node selector with
        several terms (E22).
        """
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
        known = self._stamps.get(key)
        if known is None:
            known = self._stamps[key] = self._stamp(claim, request, device)
        stamp, shared = known
        driver, pool, name = device.id
        if not shared:
            return stamp(driver=driver, pool=pool, device=name)
        share = self._shares.of(claim, request, device)
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
                ["share_id", "consumed_capacity"] if self._shares.of(claim, request, device).consumed else ["share_id"]
            )
        return Stamp(DeviceRequestAllocationResult, same, *different), shared


_devices = Stamp(DeviceAllocationResult, {}, "results")
_configured_devices = Stamp(DeviceAllocationResult, {}, "results", "config")
_allocation = Stamp(AllocationResult, {}, "devices")
_allocation_there = Stamp(AllocationResult, {}, "devices", "node_selector")


def _config(plan: ClaimPlan, selected: Mapping[int, int]) -> tuple[DeviceAllocationConfiguration, ...]:
    """The configuration of the classes, then that of the claim, with the requests each is for (A-18.2 to A-18.4)."""
    requests = [entry.alternatives[selected.get(i, 0)].request for i, entry in enumerate(plan.requests)]
    entries: list[tuple[str, list[str], OpaqueDeviceConfiguration | None]] = []
    by_class: dict[str, range] = {}
    for request in requests:
        known = by_class.get(request.device_class.name)
        if known is not None:
            for i in known:
                entries[i][1].append(request.full_name)
            continue
        first = len(entries)
        entries.extend((FROM_CLASS, [request.full_name], config.opaque) for config in request.device_class.spec.config)
        by_class[request.device_class.name] = range(first, len(entries))
    names = tuple((entry.name, request.full_name) for entry, request in zip(plan.requests, requests, strict=True))
    for claim_config in plan.claim.spec.devices.config:
        listed = list(claim_config.requests)
        if not listed or any(base in listed or full in listed for base, full in names):
            entries.append((FROM_CLAIM, listed, claim_config.opaque))
    return tuple(
        [
            _entry(source, () if _covers_all(listed, names) else tuple(listed), opaque)
            for source, listed, opaque in entries
        ]
    )


def _covers_all(listed: Sequence[str], names: Sequence[tuple[str, str]]) -> bool:
    """True for an entry that is for every request: it is written without names, since empty means all (A-18.4)."""
    return all(base in listed or full in listed for base, full in names)


def _entry(
    source: str, requests: tuple[str, ...], opaque: OpaqueDeviceConfiguration | None
) -> DeviceAllocationConfiguration:
    entry = DeviceAllocationConfiguration(source=source)
    if requests:
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
            known.key == new.key and known.operator == new.operator and set(known.values) == set(new.values)
            for known in into
        ):
            into.append(new)
