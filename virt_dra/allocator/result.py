"""Choices -> AllocationResult (A-18): results, configuration of classes and claim, node selector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.features import Writer, writers
from virt_dra.allocator.features.capacity import Share, Shares
from virt_dra.allocator.gates import Features
from virt_dra.allocator.model import Choice, ClaimPlan, Request
from virt_dra.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    OpaqueDeviceConfiguration,
    ResourceClaim,
)

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"
CONFIG_LIMIT = 64
"""Configuration entries that the API server accepts in an allocation (A-22)."""


def assemble(
    claim: ResourceClaim,
    plan: ClaimPlan,
    chosen: Sequence[Choice],
    selected: Mapping[int, int],
    node: str,
    features: Features,
    shares: Shares,
) -> AllocationResult:
    """The result for one claim. ``plan`` is its own or that of an equal claim. ``selected``: request index -> index of the alternative.

    Raises :class:`FatalError` for more configuration than can be stored (AC-14) and for a node selector with several terms (E22).
    """
    requests = tuple(entry.alternatives[selected.get(i, 0)].request for i, entry in enumerate(plan.requests))
    config = _config(plan, requests)
    if len(config) > CONFIG_LIMIT:
        raise FatalError(f"claim {claim.key}: allocation would need {len(config)} configuration entries, the limit is {CONFIG_LIMIT}")
    selector = _node_selector(claim.name, chosen, node)
    extras = writers(features)
    devices = DeviceAllocationResult(
        results=tuple([_result(choice, extras, shares.of(claim, choice.request, choice.device)) for choice in chosen])
    )
    result = AllocationResult(devices=devices.with_(config=tuple(config)) if config else devices)
    return result if selector is None else result.with_(node_selector=selector)


def _result(choice: Choice, extras: Sequence[Writer], share: Share | None) -> DeviceRequestAllocationResult:
    request, device = choice.request, choice.device
    result = DeviceRequestAllocationResult(request=request.full_name, driver=device.id.driver, pool=device.id.pool, device=device.id.device)
    if request.admin_access:
        result = result.with_(admin_access=True)
    if request.tolerations:
        result = result.with_(tolerations=request.tolerations)
    for write in extras:
        result = write(result, choice)
    if share is not None:
        result = result.with_(share_id=share.id)
        if share.consumed:
            result = result.with_(consumed_capacity=share.consumed)
    return result


def _config(plan: ClaimPlan, requests: Sequence[Request]) -> list[DeviceAllocationConfiguration]:
    """A-18.2 to A-18.4. ``requests``: per entry of the claim the request itself or its selected alternative."""
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
    return [_entry(source, () if _covers_all(listed, names) else tuple(listed), opaque) for source, listed, opaque in entries]


def _covers_all(listed: Sequence[str], names: Sequence[tuple[str, str]]) -> bool:
    """An entry for every request is written without names: empty means all (A-18.4)."""
    return all(base in listed or full in listed for base, full in names)


def _entry(source: str, requests: tuple[str, ...], opaque: OpaqueDeviceConfiguration | None) -> DeviceAllocationConfiguration:
    entry = DeviceAllocationConfiguration(source=source)
    if requests:
        entry = entry.with_(requests=requests)
    return entry if opaque is None else entry.with_(opaque=opaque)


def _node_selector(claim: str, chosen: Sequence[Choice], node: str) -> NodeSelector | None:
    """Where the allocated devices can be reached: this node, or the merged requirements of their slices, or anywhere (A-18.6)."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in (choice.device for choice in chosen):
        source = device.published if device.slice.per_device_node_selection else device.slice
        if source.node_name is not None or device.published.binds_to_node:
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        terms = source.node_selector.node_selector_terms if source.node_selector is not None else ()
        if len(terms) > 1:
            raise FatalError(f"create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
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


def _merge(requirements: Sequence[NodeSelectorRequirement], into: list[NodeSelectorRequirement]) -> None:
    for new in requirements:
        if not any(known.key == new.key and known.operator == new.operator and set(known.values) == set(new.values) for known in into):
            into.append(new)
