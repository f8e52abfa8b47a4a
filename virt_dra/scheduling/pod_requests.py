"""What a pod asks of its node: containers, pod-level resources and overhead together (C-7.2). Numbers are thousandths
of a CPU for ``cpu``, whole units for everything else, rounded up, as kube-scheduler counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virt_dra.api.core_v1 import Pod
from virt_dra.api.policies.pod_resources import NOTHING, Amounts, added, pod_total
from virt_dra.api.quantity import Quantity
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import UnknownFact, unknown_facts

CPU, MEMORY, PODS, EPHEMERAL_STORAGE = "cpu", "memory", "pods", "ephemeral-storage"
HUGE_PAGES = "hugepages-"
"""Begins the names of resources of huge pages, which are in bytes as memory is."""


def amount(resource: str, quantity: Quantity) -> int:
    """The number that counts for a resource."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """The numbers that count, by resource."""
    return {resource: amount(resource, quantity) for resource, quantity in quantities.items()}


def pod_requests(pod: Pod, missing: Mapping[str, Quantity] = NOTHING) -> Mapping[str, int]:
    """The effective requests, with what claims take of the node's own resources (C-8.5). ``missing``: of a container
    without a request."""
    return amounts(pod_total(pod, "requests", missing, node_resources_of(pod)))


def node_resources_of(pod: Pod) -> Amounts:
    """What claims take of the node's own resources, as the pod's status says: amounts, and overheads (C-8.3)."""
    total: dict[str, Quantity] = {}
    for status in pod.status.node_allocatable_resource_claim_statuses:
        total = added(total, {mapped.name: mapped.quantity for mapped in status.mapping if mapped.quantity is not None})
        for overhead in status.overhead:
            if overhead.per_pod is not None:
                total = added(total, {overhead.name: overhead.per_pod})
            if overhead.per_container is not None and status.containers:
                total = added(total, {overhead.name: overhead.per_container * len(status.containers)})
    return total


def unknown_to(pods: Iterable[Pod], model: ClusterModel) -> tuple[UnknownFact, ...]:
    """What isn't known of a model, for what these pods ask of a node."""
    pods = tuple(pods)
    resources = {resource for pod in pods for resource in pod_requests(pod)}
    return unknown_facts(model, resources, {claim for pod in pods for claim in pod.volume_claims})
