"""The special claim for the extended resources of a pod that devices serve: one a pod, as each node needs it (C-7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from virt_dra.api.core_v1 import Container, ContainerExtendedResourceRequest, Node, Pod
from virt_dra.api.meta import ObjectMeta, OwnerReference
from virt_dra.api.policies.pod_resources import is_sidecar
from virt_dra.api.resource_v1 import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from virt_dra.model.extended_resources import is_extended
from virt_dra.scheduling.pod_requests import amount, pod_requests

IN_MEMORY = "<extended-resources>"
"""The name of a special claim that isn't stored yet; no claim can have it."""
LEFT_OVER = "cannot schedule extended resource claim"
NOWHERE = "cannot fit resource"

ClassOf = Callable[[str], DeviceClass | None]
"""The class that serves an extended resource."""


@dataclass(frozen=True)
class NodeClaim:
    """The special claim as one node needs it, and which request stands for which container's resource (C-7.5)."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class ExtendedResources:
    """The extended resources of one pod in one attempt. ``claim``: the special one, empty unless left over."""

    def __init__(
        self, pod: Pod, requests: Mapping[str, int], class_of: ClassOf, left_over: ResourceClaim | None
    ) -> None:
        self._pod = pod
        self._requests = requests
        self._class_of = class_of
        self.left_over = left_over
        self.claim = left_over or _special_claim(pod)
        self._variants: dict[frozenset[str], NodeClaim] = {}

    @classmethod
    def of_pod(
        cls, pod: Pod, class_of: ClassOf, left_over: Callable[[Pod], ResourceClaim | None]
    ) -> ExtendedResources | None:
        """The pod's extended resources; None if no class serves any of them (C-7.2)."""
        wanted = {name: number for name, number in pod_requests(pod).items() if number and is_extended(name)}
        if all(class_of(name) is None for name in wanted):
            return None
        return cls(pod, wanted, class_of, left_over(pod))

    def served_by_devices(self, node: Node) -> frozenset[str] | None:
        """The resources that devices must serve there, as no device plugin does; None if neither serves one (C-7.3)."""
        served: set[str] = set()
        for name in self._requests:
            offered = node.status.allocatable.get(name)
            if self._class_of(name) is not None and (offered is None or amount(name, offered) == 0):
                served.add(name)
            elif offered is None:
                return None
        return frozenset(served)

    def claim_for(self, served: frozenset[str]) -> NodeClaim:
        """The claim for nodes where devices serve these resources."""
        if served not in self._variants:
            requests, mappings = _requests_of(self._pod, served, self._class_of)
            spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests)) if requests else ResourceClaimSpec()
            self._variants[served] = NodeClaim(self.claim.with_(spec=spec), mappings)
        return self._variants[served]


def is_special_claim_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim was made for the pod's extended resources."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true":
        return False
    return any(
        owner.controller and owner.name == pod.name and owner.uid == pod.metadata.uid
        for owner in claim.metadata.owner_references
    )


def _special_claim(pod: Pod) -> ResourceClaim:
    owner = OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.metadata.uid, controller=True)
    metadata = ObjectMeta(
        name=IN_MEMORY,
        generate_name=f"{pod.name}-extended-resources-",
        namespace=pod.namespace,
        uid=f"extended resources of {pod.metadata.uid}",
        annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata)


# --- requests (C-7.4) -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """A container, where it stands among init containers and containers together."""

    index: int
    container: Container
    lasting: bool
    """It runs beside the others, and not only before them."""

    def asks(self, resource: str) -> int:
        quantity = self.container.resources.requests.get(resource)
        return 0 if quantity is None else amount(resource, quantity)

    def request_name(self, resource: str) -> str:
        """The name of a request. The second number counts the container's own requests by name, of all resources."""
        return f"container-{self.index}-request-{sorted(self.container.resources.requests).index(resource)}"

    def mapping(self, resource: str, request: str) -> ContainerExtendedResourceRequest:
        return ContainerExtendedResourceRequest(
            container_name=self.container.name, resource_name=resource, request_name=request
        )


@dataclass
class _Wanted:
    """A request to be: so many devices under a name."""

    name: str
    count: int


def _requests_of(
    pod: Pod, resources: Iterable[str], class_of: ClassOf
) -> tuple[tuple[DeviceRequest, ...], tuple[ContainerExtendedResourceRequest, ...]]:
    inits = pod.spec.init_containers
    places = [_Place(index, container, is_sidecar(container)) for index, container in enumerate(inits)]
    places += [
        _Place(len(inits) + index, container, lasting=True) for index, container in enumerate(pod.spec.containers)
    ]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = class_of(resource)
        if device_class is None:
            continue
        wanted, mapped = _of_resource(places, resource)
        mappings += mapped
        for request in wanted:
            exactly = ExactDeviceRequest(
                device_class_name=device_class.name, allocation_mode="ExactCount", count=request.count
            )
            requests.append(DeviceRequest(name=request.name, exactly=exactly))
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


class _Passing(NamedTuple):
    """A container that ends before others run: the requests of theirs that it uses, and how many devices it lacks."""

    place: _Place
    shared: list[str]
    missing: int


def _of_resource(
    places: Sequence[_Place], resource: str
) -> tuple[list[_Wanted], list[ContainerExtendedResourceRequest]]:
    """What lasts has devices of its own. What ends before uses these, of its own place or later, and for the rest the
    largest need of any."""
    lasting: dict[int, _Wanted] = {}
    mappings: list[ContainerExtendedResourceRequest] = []
    for place in places:
        if place.lasting and (count := place.asks(resource)):
            lasting[place.index] = _Wanted(place.request_name(resource), count)
            mappings.append(place.mapping(resource, lasting[place.index].name))
    passing: list[_Passing] = []
    for place in places:
        missing = 0 if place.lasting else place.asks(resource)
        shared: list[str] = []
        for index, request in lasting.items():
            if missing <= 0:
                break
            if index >= place.index:
                shared.append(request.name)
                missing -= request.count
        if shared or missing > 0:
            passing.append(_Passing(place, shared, missing))
    largest = max((need for need in passing if need.missing > 0), key=lambda need: need.missing, default=None)
    own = None if largest is None else _Wanted(largest.place.request_name(resource), largest.missing)
    for need in passing:
        names = [*need.shared, own.name] if own is not None and need.missing > 0 else need.shared
        mappings += [need.place.mapping(resource, name) for name in names]
    return [*([own] if own is not None else []), *lasting.values()], mappings
