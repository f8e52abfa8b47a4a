"""What a pod asks for as a whole, and its class of service, as Kubernetes computes both from its containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from virt_dra.api.core_v1 import Container, Pod, ResourceRequirements
from virt_dra.api.quantity import Quantity

Amounts = Mapping[str, Quantity]
ServiceClass = Literal["Guaranteed", "Burstable", "BestEffort"]
NOTHING: Final[Amounts] = {}
_COMPUTE = ("cpu", "memory")


def pod_total(
    pod: Pod, field: Literal["requests", "limits"], missing: Amounts = NOTHING, beside: Amounts = NOTHING
) -> dict[str, Quantity]:
    """The larger of what its containers ask for together and what each init container does while sidecars run; plus
    overhead.

    What the pod asks for itself (``spec.resources``) replaces that of its containers. ``missing``: what a container
    counts as that doesn't ask for it. ``beside``: what is asked for beside the containers, before the pod's own.
    """
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in pod.spec.init_containers:
        own = {**missing, **_asked(container.resources, field)}
        if is_sidecar(container):
            own = sidecars = added(sidecars, own)
        else:
            own = added(own, sidecars)
        starting = _largest(starting, own)
    running = sidecars
    for container in pod.spec.containers:
        running = added(running, {**missing, **_asked(container.resources, field)})
    total = {**added(_largest(running, starting), beside), **_asked(pod.spec.resources, field)}
    overhead = pod.spec.overhead
    if field == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def is_sidecar(container: Container) -> bool:
    """Whether an init container goes on beside the containers."""
    return container.restart_policy == "Always"


def has_pod_resources(pod: Pod) -> bool:
    """Whether it asks for something itself, beside its containers."""
    return bool(pod.spec.resources.requests or pod.spec.resources.limits)


def service_class(pod: Pod) -> ServiceClass:
    """``status.qosClass``: Guaranteed if every container limits cpu and memory to what it requests, BestEffort if none
    asks for any."""
    pairs: list[tuple[Amounts, Amounts]] = [
        (container.resources.requests, container.resources.limits)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    ]
    if has_pod_resources(pod):
        pairs = [(pod.spec.resources.requests, pod.spec.resources.limits)]
    if not any(amounts.get(name) for pair in pairs for amounts in pair for name in _COMPUTE):
        return "BestEffort"
    guaranteed = all(
        limits.get(name) and requests.get(name, limits[name]) == limits[name]
        for requests, limits in pairs
        for name in _COMPUTE
    )
    return "Guaranteed" if guaranteed else "Burstable"


def added(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    return {**left, **{name: left[name] + amount if name in left else amount for name, amount in right.items()}}


def _largest(left: Amounts, right: Amounts) -> dict[str, Quantity]:
    return {**left, **{name: max(left[name], amount) if name in left else amount for name, amount in right.items()}}


def _asked(resources: ResourceRequirements, field: Literal["requests", "limits"]) -> Amounts:
    """A limit without a request is one too: the API server writes it so."""
    return (
        resources.limits if field == "limits" or not resources.requests else {**resources.limits, **resources.requests}
    )
