"""Devices that use the node's own cpu, memory and huge pages (C-8): what claims take, and whether there is as much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from virt_dra.api.core_v1 import (
    Node,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    NodeSelector,
    Pod,
)
from virt_dra.api.policies.node_selection import NodeMatcher, NodeSelectorError
from virt_dra.api.policies.pod_resources import Amounts, added, pod_total
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    AllocationResult,
    Device,
    DeviceRequestAllocationResult,
    NodeAllocatableMapping,
    ResourceClaim,
    ResourceSlice,
)
from virt_dra.scheduling.framework.refusals import AttemptError
from virt_dra.scheduling.pod_requests import CPU, EPHEMERAL_STORAGE, HUGE_PAGES, MEMORY, amounts, node_resources_of

_POD_LEVEL = (CPU, MEMORY)

Statuses = tuple[NodeAllocatableResourceClaimStatus, ...]


class Taken(NamedTuple):
    """A claim with the allocation that it has, or would get."""

    claim: ResourceClaim
    allocation: AllocationResult


class MappingDevices:
    """The published devices, as far as some of them use the node's own resources."""

    def __init__(self, slices: Sequence[ResourceSlice]) -> None:
        self._slices: dict[tuple[str, str], list[ResourceSlice]] = {}
        for slice_ in slices:
            self._slices.setdefault(slice_.pool_key, []).append(slice_)

    @cached_property
    def any(self) -> bool:
        """Whether any device uses the nodes' own resources."""
        return any(
            device.node_allocatable_resources
            for of_pool in self._slices.values()
            for slice_ in of_pool
            for device in slice_.spec.devices
        )

    def of(self, result: DeviceRequestAllocationResult, node: Node | None) -> Device:
        """The device as published; ``node``: only if the node can reach it. Raises LookupError."""
        for slice_ in self._slices.get((result.driver, result.pool), ()):
            if node is not None and not _reaches(slice_, node):
                continue
            for device in slice_.spec.devices:
                if device.name == result.device:
                    if node is not None and slice_.spec.per_device_node_selection and not _of_node(device, node):
                        raise LookupError(f"device {result.device} does not match node")
                    return device
        raise LookupError(f"device {result.device} not found in pool {result.pool} for driver {result.driver}")

    def maps(self, allocation: AllocationResult) -> bool:
        """Whether one of the devices stands for an amount of a resource, so that its claim can't be shared (C-8.4)."""
        return any(
            entry.mapping is not None
            for device in self._found(allocation, None)
            for entry in device.node_allocatable_resources.values()
        )

    def concern(self, allocation: AllocationResult, node: Node) -> bool:
        """Whether one of the devices uses the node's own resources."""
        return any(device.node_allocatable_resources for device in self._found(allocation, node))

    def _found(self, allocation: AllocationResult, node: Node | None) -> Iterable[Device]:
        for result in allocation.devices.results:
            try:
                yield self.of(result, node)
            except LookupError:
                continue


def _reaches(slice_: ResourceSlice, node: Node) -> bool:
    spec = slice_.spec
    if spec.node_name:
        return spec.node_name == node.name
    return bool(spec.all_nodes) or bool(spec.per_device_node_selection) or _selects(spec.node_selector, node)


def _of_node(device: Device, node: Node) -> bool:
    return device.node_name == node.name or bool(device.all_nodes) or _selects(device.node_selector, node)


def _selects(selector: NodeSelector | None, node: Node) -> bool:
    if selector is None:
        return False
    try:
        return NodeMatcher(selector).matches(node)
    except NodeSelectorError:
        return False


# --- what a pod's claims take -----------------------------------------------------------------------------------------


def claim_statuses(
    pod: Pod, entries: Mapping[str, str], taken: Sequence[Taken], devices: MappingDevices, node: Node
) -> Statuses:
    """What the claims take of the node, sorted by claim (C-8.2, C-8.3). ``entries``: name in the pod -> UID of the
    claim. Raises AttemptError for a device that isn't there, or whose capacity was not counted."""
    statuses: dict[str, NodeAllocatableResourceClaimStatus] = {}
    for claim, allocation in taken:
        mapped: dict[str, Quantity] = {}
        overhead: dict[str, NodeAllocatableOverheadResources] = {}
        for result in allocation.devices.results:
            where = f"claim {claim.key}, device {result.device}"
            try:
                device = devices.of(result, node)
            except LookupError as error:
                raise AttemptError(f"{where}, driver {result.driver}: {error}") from error
            for resource, entry in device.node_allocatable_resources.items():
                if entry.mapping is not None:
                    amount = _mapped(entry.mapping, result, f"{where}: ", resource)
                    if amount is not None:
                        mapped[resource] = mapped[resource] + amount if resource in mapped else amount
                if entry.overhead is not None and (
                    entry.overhead.per_pod is not None or entry.overhead.per_container is not None
                ):
                    so_far = overhead.get(resource, NodeAllocatableOverheadResources(name=resource))
                    overhead[resource] = _more(
                        _more(so_far, "per_pod", entry.overhead.per_pod), "per_container", entry.overhead.per_container
                    )
        if mapped or overhead:
            statuses[claim.metadata.uid] = NodeAllocatableResourceClaimStatus(
                resource_claim_name=claim.name,
                containers=_containers(pod, entries, claim.metadata.uid),
                mapping=tuple(
                    NodeAllocatableMappedResources(name=name, quantity=mapped[name]) for name in sorted(mapped)
                ),
                overhead=tuple(overhead[name] for name in sorted(overhead)),
            )
    return tuple(sorted(statuses.values(), key=lambda status: status.resource_claim_name))


def _mapped(
    mapping: NodeAllocatableMapping, result: DeviceRequestAllocationResult, where: str, resource: str
) -> Quantity | None:
    key = mapping.capacity_key
    if not key:
        return mapping.device_multiplier
    if not result.given("consumed_capacity"):
        raise AttemptError(
            f"{where}ConsumedCapacity is nil, but Capacity key '{key}' is set in "
            f"NodeAllocatableResources for resource {resource}"
        )
    consumed = result.consumed_capacity.get(key) if result.consumed_capacity else None
    multiplier = mapping.capacity_multiplier
    if consumed is None or multiplier is None or multiplier.as_fraction() == 1:
        return consumed
    return Quantity.from_number(Fraction(consumed.as_fraction() * multiplier.as_fraction()), consumed.format)


def _more(
    overhead: NodeAllocatableOverheadResources, field: str, amount: Quantity | None
) -> NodeAllocatableOverheadResources:
    if amount is None:
        return overhead
    before: Quantity | None = getattr(overhead, field)
    return overhead.with_(**{field: amount if before is None else before + amount})


def _containers(pod: Pod, entries: Mapping[str, str], uid: str) -> tuple[str, ...]:
    return tuple(
        container.name
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for claim in container.resources.claims
        if entries.get(claim.name) == uid
    )


# --- whether the node has as much -------------------------------------------------------------------------------------


def pod_level_refusal(pod: Pod) -> str | None:
    """Why the pod's own requests and limits don't cover its containers and claims; the pod has the statuses (C-8.5)."""
    own = pod.spec.resources
    alone = pod.with_(spec=pod.spec.with_(resources=type(own)(), overhead={}))
    extra = node_resources_of(pod)
    asked = added(pod_total(alone, "requests"), extra)
    for name in sorted(own.requests):
        if _of_pods(name) and name in asked and asked[name] > own.requests[name]:
            return (
                f"pod level request for {name} is insufficient to cover the aggregated "
                "container and node-allocatable DRA requests"
            )
    limits = pod_total(alone, "limits")
    limits = {
        **limits,
        **{n: limits[n] + q if n in limits else q for n, q in extra.items() if n in limits or n.startswith(HUGE_PAGES)},
    }
    for name in sorted(limits):
        if name.startswith(HUGE_PAGES) and name in own.limits and limits[name] > own.limits[name]:
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated "
                "container and node-allocatable DRA limits"
            )
    for container in pod.spec.containers:
        of_container = _container_amounts(pod, container.name)
        for name, limit in sorted(container.resources.limits.items()):
            if name.startswith(HUGE_PAGES) or name not in own.limits:
                continue
            if (limit + of_container[name] if name in of_container else limit) > own.limits[name]:
                return (
                    f"pod level limit for {name} is insufficient to cover the limit "
                    f"and DRA overhead for container {container.name}"
                )
    return None


def _of_pods(resource: str) -> bool:
    return resource in _POD_LEVEL or resource.startswith(HUGE_PAGES)


def _container_amounts(pod: Pod, container: str) -> Amounts:
    total: dict[str, Quantity] = {}
    for status in pod.status.node_allocatable_resource_claim_statuses:
        if container in status.containers:
            total = added(
                total, {mapped.name: mapped.quantity for mapped in status.mapping if mapped.quantity is not None}
            )
            for overhead in status.overhead:
                for amount in (overhead.per_pod, overhead.per_container):
                    if amount is not None:
                        total = added(total, {overhead.name: amount})
    return total


def shortages(requests: Mapping[str, int], node: Node, requested: Mapping[str, int]) -> tuple[tuple[str, ...], bool]:
    """What the node has too little of, and whether evicting could help. ``requests``: with what claims take."""
    allocatable = amounts(node.status.allocatable)
    texts: list[str] = []
    resolvable = True
    huge = sorted(name for name in requests if name.startswith(HUGE_PAGES))
    for name in (CPU, MEMORY, EPHEMERAL_STORAGE, *huge):
        wanted, offered = requests.get(name, 0), allocatable.get(name, 0)
        if wanted > offered - requested.get(name, 0) and (wanted > 0 or name in huge):
            texts.append(f"Insufficient {name}")
            resolvable = resolvable and wanted <= offered
    return tuple(texts), resolvable
