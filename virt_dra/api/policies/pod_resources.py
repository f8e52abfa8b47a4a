"""What a pod asks for as a whole, and its class of service, as Kubernetes computes both from its containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from virt_dra.api.core_v1 import Container, Pod
from virt_dra.api.quantity import Quantity, QuantityError

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
        if _is_sidecar(container):
            running = added(running, amounts)
            sidecars = added(sidecars, amounts)
            starting = _largest(starting, sidecars)
        else:
            starting = _largest(starting, added(amounts, sidecars))
    total = _largest(running, starting) | _of_pod(pod, field)
    overhead = _amounts((pod.spec.model_extra or {}).get("overhead"))
    if field == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def has_pod_resources(pod: Pod) -> bool:
    """Whether it asks for something itself, beside its containers."""
    return bool(_of_pod(pod, "requests") or _of_pod(pod, "limits"))


def service_class(pod: Pod) -> ServiceClass:
    """``status.qosClass``: Guaranteed if every container limits cpu and memory to what it requests, BestEffort if none asks for any."""
    pairs = [(each.resources.requests, each.resources.limits) for each in (*pod.spec.containers, *pod.spec.init_containers)]
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


def _is_sidecar(container: Container) -> bool:
    return (container.model_extra or {}).get("restartPolicy") == "Always"


def _of_pod(pod: Pod, field: str) -> dict[str, Quantity]:
    resources = (pod.spec.model_extra or {}).get("resources")
    return _amounts(resources.get(field)) if isinstance(resources, dict) else {}


def _amounts(raw: Any) -> dict[str, Quantity]:
    """Amounts in a part of a pod that has no type; what is no quantity counts as nothing."""
    found = {}
    for name, amount in raw.items() if isinstance(raw, dict) else ():
        try:
            found[str(name)] = Quantity.from_json(amount)
        except (QuantityError, ValueError, TypeError):
            continue
    return found
