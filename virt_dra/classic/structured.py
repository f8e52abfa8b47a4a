"""Structured parameters of 1.30 (C-18.9): which parameters a claim has, which instances a node has left, and what is
allocated. Pure.

The parameters of class and claim are objects of resource.k8s.io, named directly or found by what they were generated
from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from virt_dra.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.wire import Json
from virt_dra.cel import CelError, Work
from virt_dra.classic.named_resources import choose
from virt_dra.classic.objects import (
    GROUP,
    ClassicAllocation,
    ClassicClaim,
    DriverRequests,
    NamedResourcesInstance,
    NamedResourcesResult,
    NamedResourcesSelector,
    NamedResourcesSlice,
    ParametersReference,
    ResourceClaimParameters,
    ResourceClass,
    ResourceClassParameters,
    ResourceHandle,
    StructuredHandle,
    StructuredRequest,
    StructuredResult,
)


class ParametersNotFound(Exception):
    """The parameters that a class or claim refers to aren't there (yet), or there are several."""


G = TypeVar("G", ResourceClassParameters, ResourceClaimParameters)


@dataclass(frozen=True)
class StructuredParameters:
    """What the scheduler knows of a claim: its requests by driver, and the filters and vendor parameters of its
    class."""

    requests: tuple[DriverRequests, ...]
    shareable: bool
    filters: Mapping[str, str] = field(default_factory=dict)
    vendor: Mapping[str, Json | None] = field(default_factory=dict)


def class_parameters(
    cls: ResourceClass, candidates: Iterable[ResourceClassParameters]
) -> ResourceClassParameters | None:
    """None if the class refers to none. Raises ParametersNotFound."""
    reference = cls.parameters_ref
    return (
        None
        if reference is None
        else _found("class", reference, reference.namespace, candidates, ResourceClassParameters.KIND)
    )


def claim_parameters(
    claim: ClassicClaim, candidates: Iterable[ResourceClaimParameters]
) -> ResourceClaimParameters | None:
    """None if the claim refers to none. Raises ParametersNotFound."""
    reference = claim.spec.parameters_ref
    return (
        None
        if reference is None
        else _found("claim", reference, claim.namespace, candidates, ResourceClaimParameters.KIND)
    )


def _found(referrer: str, reference: ParametersReference, namespace: str, candidates: Iterable[G], kind: str) -> G:
    here = [parameters for parameters in candidates if parameters.namespace == namespace]
    if (reference.api_group, reference.kind) == (GROUP, kind):
        named = next((parameters for parameters in here if parameters.name == reference.name), None)
        if named is None:
            raise ParametersNotFound(f"{referrer} parameters {namespace}/{reference.name} not found")
        return named
    source = f"{reference.kind}.{reference.api_group} {namespace}/{reference.name}"
    matching = [parameters for parameters in here if _is_from(parameters.generated_from, reference)]
    if not matching:
        raise ParametersNotFound(f"generated {referrer} parameters for {source} not found")
    if len(matching) > 1:
        keys = ", ".join(sorted(parameters.key for parameters in matching))
        raise ParametersNotFound(f"multiple generated {referrer} parameters for {source} found: {keys}")
    return matching[0]


def _is_from(source: ParametersReference | None, reference: ParametersReference) -> bool:
    return source is not None and (source.api_group, source.kind, source.name) == (
        reference.api_group,
        reference.kind,
        reference.name,
    )


def parameters_of(
    claim: ClassicClaim,
    cls: ResourceClass,
    of_classes: Iterable[ResourceClassParameters],
    of_claims: Iterable[ResourceClaimParameters],
) -> StructuredParameters:
    """Both parameters, or the defaults: one instance of the class's driver, whichever, shareable. Raises
    ParametersNotFound."""
    of_class, of_claim = class_parameters(cls, of_classes), claim_parameters(claim, of_claims)
    filters = (
        {
            filter_.driver_name: filter_.named_resources.selector
            for filter_ in of_class.filters
            if filter_.named_resources
        }
        if of_class
        else {}
    )
    vendor: dict[str, Json | None] = (
        {parameters.driver_name: parameters.parameters for parameters in of_class.vendor_parameters} if of_class else {}
    )
    if of_claim is None:
        anything = StructuredRequest(named_resources=NamedResourcesSelector(selector="true"))
        return StructuredParameters(
            (DriverRequests(driver_name=cls.driver_name, requests=(anything,)),), True, filters, vendor
        )
    return StructuredParameters(of_claim.driver_requests, bool(of_claim.shareable), filters, vendor)


Inventory = Mapping[tuple[str, str], Sequence[NamedResourcesInstance]]
"""Node and driver -> the free instances."""


def free_instances(slices: Iterable[NamedResourcesSlice], claims: Iterable[ClassicClaim]) -> Inventory:
    """What is published and not allocated, in the order of slices' names and their instances."""
    taken = {
        (handle.structured_data.node_name, handle.driver_name, result.named_resources.name)
        for claim in claims
        if claim.status.allocation is not None
        for handle in claim.status.allocation.resource_handles
        if handle.structured_data is not None
        for result in handle.structured_data.results
        if result.named_resources is not None
    }
    free: dict[tuple[str, str], dict[str, NamedResourcesInstance]] = {}
    for slice_ in sorted(slices, key=lambda slice_: slice_.name):
        for instance in slice_.named_resources.instances if slice_.named_resources is not None else ():
            if (slice_.node_name, slice_.driver_name, instance.name) not in taken:
                free.setdefault((slice_.node_name, slice_.driver_name), {}).setdefault(instance.name, instance)
    return {place: tuple(instances.values()) for place, instances in free.items()}


@dataclass(frozen=True)
class NoStructuredFit:
    """Why claims can't be allocated on a node. ``error``: an expression failed, which aborts the pod's attempt."""

    message: str
    error: bool = False


def allocate_on(
    claims: Sequence[StructuredParameters], node: str, inventory: Inventory, work: Work
) -> tuple[ClassicAllocation, ...] | NoStructuredFit:
    """An allocation for each claim, of instances of the node that no earlier one took. ``work``: the budget of the
    pod's attempt."""
    left = {place: list(instances) for place, instances in inventory.items() if place[0] == node}
    made: list[ClassicAllocation] = []
    try:
        for parameters in claims:
            handles = [_handle(parameters, requests, node, left, work) for requests in parameters.requests]
            if any(handle is None for handle in handles):
                return NoStructuredFit("resourceclaim cannot be allocated for the node (unsuitable)")
            made.append(
                _allocation([handle for handle in handles if handle is not None], node, shareable=parameters.shareable)
            )
    except CelError as error:
        return NoStructuredFit(f"checking structured parameters failed: {error}", error=True)
    return tuple(made)


_Left = dict[tuple[str, str], list[NamedResourcesInstance]]


def _handle(
    parameters: StructuredParameters,
    wanted: DriverRequests,
    node: str,
    left: _Left,
    work: Work,
) -> ResourceHandle | None:
    """What one driver gives for a claim; takes it from ``left``."""
    place = (node, wanted.driver_name)
    instances = left.get(place, [])
    selectors = [request.named_resources.selector for request in wanted.requests if request.named_resources is not None]
    chosen = choose(instances, selectors, parameters.filters.get(wanted.driver_name, ""), work)
    if chosen is None:
        return None
    requests = [request for request in wanted.requests if request.named_resources is not None]
    results = tuple(_result(request, instances[index].name) for request, index in zip(requests, chosen, strict=True))
    left[place] = [instance for index, instance in enumerate(instances) if index not in set(chosen)]
    data = StructuredHandle(node_name=node, results=results)
    of_class, of_claim = parameters.vendor.get(wanted.driver_name), wanted.vendor_parameters
    data = data if of_class is None else data.with_(vendor_class_parameters=of_class)
    data = data if of_claim is None else data.with_(vendor_claim_parameters=of_claim)
    return ResourceHandle(driver_name=wanted.driver_name, structured_data=data)


def _result(request: StructuredRequest, instance: str) -> StructuredResult:
    result = StructuredResult(named_resources=NamedResourcesResult(name=instance))
    return (
        result
        if request.vendor_parameters is None
        else result.with_(vendor_request_parameters=request.vendor_parameters)
    )


def _allocation(handles: Sequence[ResourceHandle], node: str, *, shareable: bool) -> ClassicAllocation:
    term = NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,)),))
    selector = NodeSelector(node_selector_terms=(term,))
    return ClassicAllocation(resource_handles=tuple(handles), available_on_nodes=selector, shareable=shareable)
