"""What a pod asks for as a whole, and its class of service, as Kubernetes computes both from its containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from virt_dra.api.core_v1 import Pod
from virt_dra.api.quantity import Quantity

Amounts = Mapping[str, Quantity]
ServiceClass = Literal["Guaranteed", "Burstable", "BestEffort"]
_COMPUTE = ("cpu", "memory")


def pod_total(pod: Pod, field: Literal["requests", "limits"]) -> dict[str, Quantity]:
    """The larger of what its containers ask for together and what each init container does while sidecars run; plus overhead.

    What the pod asks for itself (``spec.resources``) replaces that of its containers.
    """
    running: dict[str, Quantity] = {}
    for container in pod.spec.containers:
        running = added(running, getattr(container.resources, field))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in pod.spec.init_containers:
        amounts = getattr(container.resources, field)
        if container.restart_policy == "Always":  # a sidecar
            running = added(running, amounts)
            sidecars = added(sidecars, amounts)
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, added(amounts, sidecars))
    total = {**_largest(running, starting), **_of_pod(pod, field)}
    overhead = pod.spec.overhead
    if field == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def has_pod_resources(pod: Pod) -> bool:
    """Whether it asks for something itself, beside its containers."""
    return bool(_of_pod(pod, "requests") or _of_pod(pod, "limits"))


def service_class(pod: Pod) -> ServiceClass:
    """``status.qosClass``: Guaranteed if every container limits cpu and memory to what it requests, BestEffort if none asks for any."""
    pairs: list[tuple[Amounts, Amounts]] = [
        (each.resources.requests, each.resources.limits) for each in (*pod.spec.containers, *pod.spec.init_containers)
    ]
    if has_pod_resources(pod):
        pairs = [(_of_pod(pod, "requests"), _of_pod(pod, "limits"))]
    if not any(amounts.get(name) for pair in pairs for amounts in pair for name in _COMPUTE):
        return "BestEffort"
    guaranteed = all(
        limits.get(name) and requests.get(name, limits[name]) == limits[name] for requests, limits in pairs for name in _COMPUTE
    )
    return "Guaranteed" if guaranteed else "Burstable"


def added(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    return {**left, **{name: left[name] + amount if name in left else amount for name, amount in right.items()}}


def _largest(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    return {**left, **{name: max(left[name], amount) if name in left else amount for name, amount in right.items()}}


def _of_pod(pod: Pod, field: str) -> Amounts:
    amounts: Amounts = getattr(pod.spec.resources, field)
    return amounts
