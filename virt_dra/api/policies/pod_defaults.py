"""What an API server fills into pods, namespaces and nodes when it reads them, and into a new pod's status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from virt_dra.api.core_v1 import (
    SCHEDULER_NAME,
    Container,
    LabelSelector,
    Namespace,
    Node,
    NodeSelectorRequirement,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodStatus,
    TopologySpreadConstraint,
)
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.pod_resources import service_class

NAME_LABEL = "kubernetes.io/metadata.name"
GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"


def with_core_defaults(obj: TypedObject) -> TypedObject:
    """The object with Kubernetes' defaults of core/v1, as far as control loops see them; itself if it has them."""
    if isinstance(obj, Pod):
        return _pod(obj)
    if isinstance(obj, Namespace) and obj.name and obj.metadata.labels.get(NAME_LABEL) != obj.name:
        return obj.with_(metadata=obj.metadata.with_(labels={**obj.metadata.labels, NAME_LABEL: obj.name}))
    if isinstance(obj, Node) and obj.status.capacity and not obj.status.given("allocatable"):
        return obj.with_(status=obj.status.with_(allocatable=obj.status.capacity))
    return obj


def new_pod_status(pod: Pod) -> PodStatus:
    """The status of a pod that was just created."""
    gated = PodCondition(type="PodScheduled", status="False", reason="SchedulingGated", message=GATED_MESSAGE)
    status = PodStatus(phase="Pending").with_(qosClass=service_class(pod))
    return status.with_(conditions=(gated,)) if pod.spec.scheduling_gates else status


def with_label_keys(pod: Pod) -> Pod:
    """A new pod whose selectors of other pods (affinity, spread) have its own values of matchLabelKeys and the like."""
    labels, affinity = pod.metadata.labels, pod.spec.affinity

    def term(given: PodAffinityTerm) -> PodAffinityTerm:
        selector = _narrowed(
            given.label_selector, {"In": given.match_label_keys, "NotIn": given.mismatch_label_keys}, labels
        )
        return given if selector is given.label_selector else given.with_(label_selector=selector)

    def terms(given: PodAffinity | None) -> PodAffinity | None:
        if given is None:
            return None
        preferred = [weighted.with_(pod_affinity_term=term(weighted.pod_affinity_term)) for weighted in given.preferred]
        return given.with_(required=tuple([term(required) for required in given.required]), preferred=tuple(preferred))

    def spread(given: TopologySpreadConstraint) -> TopologySpreadConstraint:
        selector = _narrowed(given.label_selector, {"In": given.match_label_keys}, labels)
        return given if selector is given.label_selector else given.with_(label_selector=selector)

    changes: dict[str, object] = {}
    if any(constraint.match_label_keys for constraint in pod.spec.topology_spread_constraints):
        changes["topology_spread_constraints"] = tuple(
            [spread(constraint) for constraint in pod.spec.topology_spread_constraints]
        )
    if affinity is not None and any(map(_has_keys, (affinity.pod_affinity, affinity.pod_anti_affinity))):
        given = {"pod_affinity": terms(affinity.pod_affinity), "pod_anti_affinity": terms(affinity.pod_anti_affinity)}
        changes["affinity"] = affinity.with_(**{name: value for name, value in given.items() if value is not None})
    return pod.with_(spec=pod.spec.with_(**changes)) if changes else pod


def _has_keys(given: PodAffinity | None) -> bool:
    every = () if given is None else (*given.required, *(weighted.pod_affinity_term for weighted in given.preferred))
    return any(affinity_term.match_label_keys or affinity_term.mismatch_label_keys for affinity_term in every)


def _narrowed(
    selector: LabelSelector | None, keys: Mapping[str, Sequence[str]], labels: Mapping[str, str]
) -> LabelSelector | None:
    """The selector with a requirement for each key that is a label of the pod; one that is absent stays absent."""
    more = [
        NodeSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for operator, label_keys in keys.items()
        for key in label_keys
        if key in labels
    ]
    if selector is None or not more:
        return selector
    return selector.with_(match_expressions=(*selector.match_expressions, *more))


def _pod(pod: Pod) -> Pod:
    spec = pod.spec
    extra = spec.model_extra or {}
    changes: dict[str, object] = {}
    if spec.termination_grace_period_seconds is None:
        changes["termination_grace_period_seconds"] = 30
    elif spec.termination_grace_period_seconds < 0:
        changes["termination_grace_period_seconds"] = 1
    for field, value in (("restart_policy", "Always"), ("scheduler_name", SCHEDULER_NAME)):
        if not getattr(spec, field):
            changes[field] = value
    if spec.enable_service_links is None:
        changes["enable_service_links"] = True
    if spec.security_context is None:
        changes["security_context"] = {}
    if not extra.get("dnsPolicy"):
        changes["dnsPolicy"] = "ClusterFirst"
    for field in ("containers", "init_containers"):
        before: tuple[Container, ...] = getattr(spec, field)
        after = tuple(_requesting(container) for container in before)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            changes[field] = after
    return pod.with_(spec=spec.with_(**changes)) if changes else pod


def _requesting(container: Container) -> Container:
    """The container with requests for what it only limits."""
    resources = container.resources
    missing = {name: amount for name, amount in resources.limits.items() if name not in resources.requests}
    if not missing:
        return container
    return container.with_(resources=resources.with_(requests={**resources.requests, **missing}))
