"""What a pod asks of its node: its containers, init containers and sidecars, pod-level resources and overhead together (C-7.2).

Numbers are thousandths of a CPU for ``cpu``, whole units for everything else, rounded up, as kube-scheduler counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api.core_v1 import Container, Pod, ResourceRequirements
from virt_dra.api.quantity import Quantity

CPU, MEMORY, PODS, EPHEMERAL_STORAGE = "cpu", "memory", "pods", "ephemeral-storage"

_POD_LEVEL = (CPU, MEMORY)
NOTHING: Final[Mapping[str, int]] = {}


def amount(resource: str, quantity: Quantity) -> int:
    """The number that counts for a resource."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """The numbers that count, by resource."""
    return {resource: amount(resource, quantity) for resource, quantity in quantities.items()}


def pod_requests(pod: Pod, missing: Mapping[str, int] = NOTHING) -> Mapping[str, int]:
    """The effective requests. An init container runs beside the sidecars before it; the containers beside all sidecars.

    ``missing``: what a container without a request counts as.
    """
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        own = {**missing, **_requests(container.resources)}
        if is_sidecar(container):
            _add(sidecars, own)
            own = sidecars
        else:
            _add(own, sidecars)
        for resource, number in own.items():
            peak[resource] = max(peak.get(resource, 0), number)
    total = dict(sidecars)
    for container in pod.spec.containers:
        _add(total, {**missing, **_requests(container.resources)})
    for resource, number in peak.items():
        total[resource] = max(total.get(resource, 0), number)
    for resource, number in _requests(pod.spec.resources).items():
        if resource in _POD_LEVEL or resource.startswith("hugepages-"):
            total[resource] = number
    _add(total, amounts(pod.spec.overhead))
    return total


def is_sidecar(container: Container) -> bool:
    """Whether an init container goes on beside the containers."""
    return container.restart_policy == "Always"


def _requests(resources: ResourceRequirements) -> dict[str, int]:
    """A limit without a request is one too: the API server writes it so."""
    return amounts({**resources.limits, **resources.requests})


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, number in more.items():
        total[resource] = total.get(resource, 0) + number
