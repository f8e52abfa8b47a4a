"""What a pod asks of its node: its containers, init containers and sidecars, pod-level resources and overhead together (C-7.2).

Numbers are thousandths of a CPU for ``cpu``, whole units for everything else, rounded up, as kube-scheduler counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from virt_dra.api.core_v1 import Pod
from virt_dra.api.policies.pod_resources import NOTHING, pod_total
from virt_dra.api.quantity import Quantity

CPU, MEMORY, PODS, EPHEMERAL_STORAGE = "cpu", "memory", "pods", "ephemeral-storage"


def amount(resource: str, quantity: Quantity) -> int:
    """The number that counts for a resource."""
    return quantity.milli_value() if resource == CPU else quantity.value()


def amounts(quantities: Mapping[str, Quantity]) -> dict[str, int]:
    """The numbers that count, by resource."""
    return {resource: amount(resource, quantity) for resource, quantity in quantities.items()}


def pod_requests(pod: Pod, missing: Mapping[str, Quantity] = NOTHING) -> Mapping[str, int]:
    """The effective requests, rounded once they are summed. ``missing``: what a container without a request counts as."""
    return amounts(pod_total(pod, "requests", missing))
