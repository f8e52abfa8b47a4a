"""Structured parameters of 1.30 (C-18.9): which a claim has, which instances a node has left, and what is allocated.
Parameters are objects of resource.k8s.io, named directly or found by what they were generated from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from virt_dra.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from virt_dra.api.go_text import quoted
from virt_dra.api.wire import Json
from virt_dra.cel import Work
from virt_dra.classic.named_resources import ExpressionFailed, choose
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
    """The parameters that a class or claim refers to aren't there (yet)."""


G = TypeVar("G", ResourceClassParameters, ResourceClaimParameters)


@dataclass(frozen=True)
class StructuredParameters:
    """What the scheduler knows of a claim: requests by driver, and the filters and vendor parameters of its class."""

    requests: tuple[DriverRequests, ...]
    shareable: bool
    filters: Mapping[str, str] = field(default_factory=dict)
    vendor: Mapping[str, Json | None] = field(default_factory=dict)


def class_parameters(
    cls: ResourceClass, candidates: Iterable[ResourceClassParameters]
) -> ResourceClassParameters | None:
    """None if the class refers to none. Generated ones are looked for in all namespaces. Raises ParametersNotFound."""
    reference = cls.parameters_ref
    if reference is None:
        return None
    if (reference.api_group, reference.kind) == (GROUP, ResourceClassParameters.KIND):
        return _named("class", reference, reference.namespace, candidates)
    generated = (made for made in candidates if made.generated_from == reference)
    return _first("class", reference, reference.name, generated)


def claim_parameters(
    claim: ClassicClaim, candidates: Iterable[ResourceClaimParameters]
) -> ResourceClaimParameters | None:
    """None if the claim refers to none. Raises ParametersNotFound."""
    reference = claim.spec.parameters_ref
    if reference is None:
        return None
    here = (made for made in candidates if made.namespace == claim.namespace)
    if (reference.api_group, reference.kind) == (GROUP, ResourceClaimParameters.KIND):
        return _named("claim", reference, claim.namespace, here)
    generated = (made for made in here if made.generated_from is not None and _same(made.generated_from, reference))
    return _first("claim", reference, f"{claim.namespace}/{reference.name}", generated)


def _same(source: ParametersReference, reference: ParametersReference) -> bool:
    """A claim's reference has no namespace: it is the claim's."""
    return source.with_(namespace="") == reference.with_(namespace="")


def _named(referrer: str, reference: ParametersReference, namespace: str, candidates: Iterable[G]) -> G:
    for parameters in candidates:
        if (parameters.namespace, parameters.name) == (namespace, reference.name):
            return parameters
    key = f"{namespace}/{reference.name}" if namespace else reference.name
    raise ParametersNotFound(f"{referrer} parameters {key} not found")


def _first(referrer: str, reference: ParametersReference, key: str, generated: Iterable[G]) -> G:
    """Upstream takes whichever it meets first; here that is the first one by name."""
    first = min(generated, key=lambda made: made.key, default=None)
    if first is None:
        source = f"{reference.kind}.{reference.api_group} {key}"
        raise ParametersNotFound(f"generated {referrer} parameters for {source} not found")
    return first


def parameters_of(
    claim: ClassicClaim,
    cls: ResourceClass,
    of_classes: Iterable[ResourceClassParameters],
    of_claims: Iterable[ResourceClaimParameters],
) -> StructuredParameters:
    """Both parameters, or the defaults: one instance of the class's driver, shareable. Raises ParametersNotFound."""
    of_class, of_claim = class_parameters(cls, of_classes), claim_parameters(claim, of_claims)
    of_class = of_class or ResourceClassParameters()
    filters = {of.driver_name: of.named_resources.selector for of in of_class.filters if of.named_resources}
    vendor = {parameters.driver_name: parameters.parameters for parameters in of_class.vendor_parameters}
    if of_claim is None:
        anything = StructuredRequest(named_resources=NamedResourcesSelector(selector="true"))
        return StructuredParameters(
            (DriverRequests(driver_name=cls.driver_name, requests=(anything,)),), True, filters, vendor
        )
    return StructuredParameters(of_claim.driver_requests, bool(of_claim.shareable), filters, vendor)


NodeInstances = dict[str, list[NamedResourcesInstance]]
"""Driver -> the instances of one node that are left."""


@dataclass(frozen=True)
class Inventory:
    """What is published and not allocated. ``slices``: those of a node; a node's instances are gathered when it is
    asked about, so that one of many costs no more. ``taken``: node, driver and name of each allocated instance."""

    slices: Callable[[str], Iterable[NamedResourcesSlice]]
    taken: Set[tuple[str, str, str]] = frozenset()

    def free_on(self, node: str) -> NodeInstances:
        """The free instances of a node, to be taken from, in the order of slices' names and their instances."""
        free: dict[str, dict[str, NamedResourcesInstance]] = {}
        for slice_ in sorted(self.slices(node), key=lambda slice_: slice_.name):
            for instance in slice_.named_resources.instances if slice_.named_resources is not None else ():
                if (node, slice_.driver_name, instance.name) not in self.taken:
                    free.setdefault(slice_.driver_name, {}).setdefault(instance.name, instance)
        return {driver: list(instances.values()) for driver, instances in free.items()}


def taken_instances(claims: Iterable[ClassicClaim]) -> frozenset[tuple[str, str, str]]:
    """Node, driver and name of each instance that a claim has."""
    return frozenset(
        (handle.structured_data.node_name, handle.driver_name, result.named_resources.name)
        for claim in claims
        if claim.status.allocation is not None
        for handle in claim.status.allocation.resource_handles
        if handle.structured_data is not None
        for result in handle.structured_data.results
        if result.named_resources is not None
    )


@dataclass(frozen=True)
class NoStructuredFit:
    """Why claims can't be allocated on a node: what is free doesn't suffice, or an expression failed."""

    message: str


def allocate_on(
    parameters: StructuredParameters, node: str, left: NodeInstances, work: Work
) -> ClassicAllocation | NoStructuredFit:
    """A claim's allocation on a node; takes its instances from ``left``. ``work``: the budget of the pod's attempt."""
    handles: list[ResourceHandle] = []
    for requests in parameters.requests:
        try:
            handle = _handle(parameters, requests, node, left, work)
        except ExpressionFailed as error:
            where = f"checking node {quoted(node)} and resources of driver {quoted(requests.driver_name)}"
            return NoStructuredFit(f"checking structured parameters failed: {where}: {error}")
        if handle is None:
            return NoStructuredFit("resourceclaim cannot be allocated for the node (unsuitable)")
        handles.append(handle)
    return _allocation(handles, node, shareable=parameters.shareable)


def _handle(
    parameters: StructuredParameters, wanted: DriverRequests, node: str, left: NodeInstances, work: Work
) -> ResourceHandle | None:
    """What one driver gives for a claim; takes it from ``left``."""
    instances = left.get(wanted.driver_name, [])
    selectors = [request.named_resources.selector for request in wanted.requests if request.named_resources is not None]
    chosen = choose(instances, selectors, parameters.filters.get(wanted.driver_name, ""), work)
    if chosen is None:
        return None
    requests = [request for request in wanted.requests if request.named_resources is not None]
    results = tuple(_result(request, instances[index].name) for request, index in zip(requests, chosen, strict=True))
    left[wanted.driver_name] = [instance for index, instance in enumerate(instances) if index not in set(chosen)]
    data = StructuredHandle(node_name=node, results=results)
    of_class, of_claim = parameters.vendor.get(wanted.driver_name), wanted.vendor_parameters
    data = data if of_class is None else data.with_(vendor_class_parameters=of_class)
    data = data if of_claim is None else data.with_(vendor_claim_parameters=of_claim)
    return ResourceHandle(driver_name=wanted.driver_name, structured_data=data)


def _result(request: StructuredRequest, instance: str) -> StructuredResult:
    result = StructuredResult(named_resources=NamedResourcesResult(name=instance))
    vendor = request.vendor_parameters
    return result if vendor is None else result.with_(vendor_request_parameters=vendor)


def _allocation(handles: Sequence[ResourceHandle], node: str, *, shareable: bool) -> ClassicAllocation:
    here = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=(node,))
    selector = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(here,)),))
    allocation = ClassicAllocation(available_on_nodes=selector)
    allocation = allocation.with_(resource_handles=tuple(handles)) if handles else allocation
    return allocation.with_(shareable=True) if shareable else allocation
