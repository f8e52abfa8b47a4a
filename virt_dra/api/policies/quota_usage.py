"""What objects count for in a quota (C-15): the same for the admission that charges them and for the loop that counts
again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from virt_dra.api.core_v1 import Container, Pod
from virt_dra.api.meta import TypedObject, parse_time
from virt_dra.api.policies.pod_resources import has_pod_resources, pod_total, service_class
from virt_dra.api.policies.quota_v1 import ResourceQuota, ScopeRequirement
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    ALL,
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)

Usage = dict[str, Quantity]

ONE, ZERO = Quantity("1"), Quantity("0")
PER_CLASS = ".deviceclass.resource.k8s.io/devices"
"""After a class's name: the devices that claims ask for of it."""
IMPLICIT = "deviceclass.resource.kubernetes.io/"
REQUESTS = "requests."
ALL_COUNT_AS = 32
"""Devices that a request for all counts for, the most that a claim can get."""
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {"pods", "count/pods", *_COMPUTE, *(f"{prefix}.{name}" for prefix in ("requests", "limits") for name in _COMPUTE)}
)
_MUST_ASK = tuple(sorted({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}))
_ALIASES = ("services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas", "replicationcontrollers")


@dataclass(frozen=True)
class QuotaContext:
    """What an object's usage depends on: classes by name, the pod and the claims that a pod owns by UID, the time."""

    classes: Mapping[str, DeviceClass]
    pod_of: Callable[[str, str], Pod | None]
    claims_of: Callable[[str], Iterable[ResourceClaim]]
    now: datetime
    extended_resources: bool = True


def usage(obj: TypedObject, plural: str, context: QuotaContext) -> Usage:
    """The amounts that an object counts for, by the names that a quota may limit. ``plural``: with the group, as in
    ``resourceclaims.resource.k8s.io``."""
    counted = {f"count/{plural}": ONE, **({plural: ONE} if plural in _ALIASES else {})}
    if isinstance(obj, Pod):
        return {**counted, **(_pod(obj) if _is_charged(obj, context.now) else {})}
    if isinstance(obj, ResourceClaim):
        return {**counted, **_claim(obj, context)}
    return counted


def matching_names(names: Iterable[str], plural: str, context: QuotaContext) -> tuple[str, ...]:
    """The names of a quota that objects of this resource count for."""
    return tuple(name for name in names if _matches(name, plural, context))


def in_scope(quota: ResourceQuota, obj: TypedObject) -> bool:
    """Whether the quota's scopes contain the object; other kinds than pods are in no scope."""
    scopes = (*(ScopeRequirement(scope_name=name, operator="Exists") for name in quota.spec.scopes), *_selected(quota))
    return all(isinstance(obj, Pod) and _has_scope(obj, scope) for scope in scopes)


def missing_amounts(pod: Pod, names: Iterable[str]) -> str:
    """What the containers of a pod must ask for because a quota limits it; empty if they do."""
    if has_pod_resources(pod):
        return ""
    required = [name for name in _MUST_ASK if name in set(names)]
    lacking = {
        name: sorted(
            {
                container.name
                for container in (*pod.spec.containers, *pod.spec.init_containers)
                if not _asks(container, name)
            }
        )
        for name in required
    }
    texts = [f"{name} for: {','.join(containers)}" for name, containers in lacking.items() if containers]
    return f"must specify {'; '.join(texts)}" if texts else ""


# --- matching -------------------------------------------------------------------------------------------------------


def _matches(name: str, plural: str, context: QuotaContext) -> bool:
    if name == f"count/{plural}" or (name == plural and plural in _ALIASES):
        return True
    if plural == "pods":
        return name in _POD_NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or _is_extended(name)
    if plural != "resourceclaims.resource.k8s.io":
        return False
    if name.endswith(PER_CLASS):
        return True
    if not context.extended_resources or not _is_extended(name):
        return False
    resource = name.removeprefix(REQUESTS)
    if resource.startswith(IMPLICIT):  # C-15.5: whether or not the class has an explicit name, too
        return resource.removeprefix(IMPLICIT) in context.classes
    return any(device_class.spec.extended_resource_name == resource for device_class in context.classes.values())


def _is_extended(name: str) -> bool:
    """True for ``requests.example.com/gpu``: a name with a domain that isn't Kubernetes' own, or an implicit one."""
    return name.startswith(REQUESTS + IMPLICIT) or (
        name.startswith(REQUESTS) and "/" in name and "kubernetes.io/" not in name
    )


def _selected(quota: ResourceQuota) -> tuple[ScopeRequirement, ...]:
    return () if quota.spec.scope_selector is None else quota.spec.scope_selector.match_expressions


def _has_scope(pod: Pod, scope: ScopeRequirement) -> bool:
    extra = pod.spec.model_extra or {}
    match scope.scope_name:
        case "Terminating":
            return _terminates(pod)
        case "NotTerminating":
            return not _terminates(pod)
        case "BestEffort":
            return service_class(pod) == "BestEffort"
        case "NotBestEffort":
            return service_class(pod) != "BestEffort"
        case "PriorityClass":
            name = getattr(pod.spec, "priority_class_name", None) or extra.get("priorityClassName") or ""
            return {
                "Exists": bool(name),
                "DoesNotExist": not name,
                "In": name in scope.values,
                "NotIn": name not in scope.values,
            }.get(scope.operator, False)
    return False


def _terminates(pod: Pod) -> bool:
    deadline = (pod.spec.model_extra or {}).get("activeDeadlineSeconds")
    return isinstance(deadline, int) and deadline >= 0


# --- pods -----------------------------------------------------------------------------------------------------------


def _pod(pod: Pod) -> Usage:
    requests, limits = pod_total(pod, "requests"), pod_total(pod, "limits")
    counted = {"pods": ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            counted |= {name: amount, f"{REQUESTS}{name}": amount}
        elif _is_extended(REQUESTS + name):
            counted[f"{REQUESTS}{name}"] = amount
    return counted | {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}


def _asks(container: Container, name: str) -> bool:
    prefix, _, resource = name.rpartition(".")
    return resource in (container.resources.limits if prefix == "limits" else container.resources.requests)


def _is_charged(pod: Pod, now: datetime) -> bool:
    """Whether a pod is charged: not once it has finished, nor when it outlives its grace period."""
    if pod.finished:
        return False
    meta = pod.metadata
    if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    try:
        return now <= parse_time(meta.deletion_timestamp) + timedelta(seconds=meta.deletion_grace_period_seconds)
    except (ValueError, OverflowError):
        return True


# --- claims ---------------------------------------------------------------------------------------------------------


def _claim(claim: ResourceClaim, context: QuotaContext) -> Usage:
    """The use of a claim by class, and for each class by its extended resource names, less what the pod was charged
    already (C-15.1 to C-15.3)."""
    devices: dict[str, int] = {}
    for request in claim.spec.devices.requests:
        for name, number in _worst(request.exactly, request.first_available).items():
            devices[name] = devices.get(name, 0) + number
    counted = {f"{name}{PER_CLASS}": Quantity.from_number(number) for name, number in devices.items()}
    if not context.extended_resources:
        return counted
    extended: Usage = {}
    for name, number in devices.items():
        extended[f"{REQUESTS}{IMPLICIT}{name}"] = Quantity.from_number(number)
        explicit = context.classes[name].spec.extended_resource_name if name in context.classes else None
        if explicit:
            extended[f"{REQUESTS}{explicit}"] = Quantity.from_number(number)
    charged = _charged_with_pod(claim, context)
    for name, amount in extended.items():
        rest = amount - charged[name] if name in charged else amount
        if rest.sign() > 0:
            counted[name] = rest
    return counted


def _worst(exactly: ExactDeviceRequest | None, alternatives: tuple[DeviceSubRequest, ...]) -> dict[str, int]:
    """The most devices that the request can get, by class."""
    most: dict[str, int] = {}
    for alternative in alternatives or ((exactly,) if exactly is not None else ()):
        number = {EXACT_COUNT: alternative.count, ALL: ALL_COUNT_AS}.get(alternative.allocation_mode or EXACT_COUNT, 0)
        if number > 0 or not alternatives:
            most[alternative.device_class_name] = max(most.get(alternative.device_class_name, 0), number)
    return most


def _charged_with_pod(claim: ResourceClaim, context: QuotaContext) -> Usage:
    """What was charged with the pod for whose extended resources the claim is; nothing if that isn't certain."""
    owner = claim.metadata.controller_owner
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) != "true" or owner is None:
        return {}
    if (owner.kind, owner.api_version) != ("Pod", "v1"):
        return {}
    pod = context.pod_of(claim.namespace, owner.name)
    if pod is None or pod.metadata.uid != owner.uid:
        return {}
    status = pod.status.extended_resource_claim_status
    if status is not None and status.resource_claim_name != claim.name:
        return {}
    if status is None and any(_age(other) < _age(claim) for other in context.claims_of(owner.uid)):
        return {}
    return _pod(pod) if _is_charged(pod, context.now) else {}


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "9999", claim.name


# --- sums -----------------------------------------------------------------------------------------------------------


def masked(amounts: Mapping[str, Quantity], names: Iterable[str]) -> Usage:
    wanted = set(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def shown(amounts: Mapping[str, Quantity]) -> str:
    """The amounts as the API server shows them in a refusal."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))
