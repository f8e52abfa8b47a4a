"""Validation of scheduling.k8s.io: PodGroups, Workloads and PriorityClasses."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic.alias_generators import to_camel

from virt_dra.api.scheduling_v1 import (
    DisruptionMode,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupResourceClaimStatus,
    PodGroupSchedulingPolicy,
    PodGroupTemplate,
    PriorityClass,
    Workload,
)
from virt_dra.api.validation.conditions import conditions
from virt_dra.api.validation.field_errors import (
    Errors,
    FieldError,
    TypedText,
    forbidden,
    immutable,
    invalid,
    not_supported,
    one_of,
    required,
)
from virt_dra.api.validation.formats import declared_label, declared_subdomain, required_by, unique_items
from virt_dra.api.validation.go_values import versioned
from virt_dra.api.wire import present

CLAIMS_MAX = 4
TEMPLATES_MAX = 8
CONDITIONS_MAX = 1000
"""No limit is declared; a list is bounded by the size of a request."""
HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def pod_group(obj: PodGroup) -> Errors:
    spec, path = obj.spec, "spec"
    if spec.parent_composite_pod_group_name is not None and spec.workload_ref is None:
        yield required(f"{path}.workloadRef", "must be set when parentCompositePodGroupName is set")
    if spec.workload_ref is not None:
        yield from required_by(declared_subdomain, spec.workload_ref.workload_name, f"{path}.workloadRef.workloadName")
        yield from required_by(declared_label, spec.workload_ref.template_name, f"{path}.workloadRef.templateName")
    yield from _policy(spec.scheduling_policy, f"{path}.schedulingPolicy")
    yield from _claims(spec.resource_claims, f"{path}.resourceClaims")
    if spec.disruption_mode is None:
        yield required(f"{path}.disruptionMode")
    else:
        yield from _disruption(spec.disruption_mode, f"{path}.disruptionMode")
    yield from _priority(spec.priority_class_name, spec.priority, path)


def pod_group_update(new: PodGroup, old: PodGroup) -> Errors:
    """The faults of an update of a PodGroup's spec, of which only the number of a gang may change."""
    policy, before = new.spec.scheduling_policy, old.spec.scheduling_policy
    if policy != before:
        yield from _policy_update(policy, before, "spec.schedulingPolicy")
    for name in ("workload_ref", "resource_claims", "disruption_mode", "priority_class_name", "priority"):
        if getattr(new.spec, name) != getattr(old.spec, name):
            yield immutable(f"spec.{to_camel(name)}", None)


def pod_group_status(obj: PodGroup) -> Errors:
    status, path = obj.status, "status"
    yield from conditions(status.conditions, f"{path}.conditions", CONDITIONS_MAX)
    names = {claim.name for claim in obj.spec.resource_claims}

    def entry(claim: PodGroupResourceClaimStatus, at: str) -> Iterable[FieldError]:
        if claim.name not in names:
            yield invalid(f"{at}.name", claim.name, "must match the name of an entry in `spec.resourceClaims`")
        if claim.resource_claim_name is not None:
            yield from declared_subdomain(claim.resource_claim_name, f"{at}.resourceClaimName")

    yield from unique_items(
        status.resource_claim_statuses,
        f"{path}.resourceClaimStatuses",
        entry,
        lambda claim: claim.name,
        CLAIMS_MAX,
        versioned,
    )


def workload(obj: Workload) -> Errors:
    spec, path = obj.spec, "spec"
    kinds = {
        "podGroupTemplates": spec.pod_group_templates,
        "compositePodGroupTemplates": spec.composite_pod_group_templates,
    }
    yield from one_of(path, [name for name, templates in kinds.items() if templates], kinds)
    yield from unique_items(
        spec.pod_group_templates,
        f"{path}.podGroupTemplates",
        _template,
        lambda template: template.name,
        TEMPLATES_MAX,
        versioned,
    )
    if len({(template.priority_class_name, template.priority) for template in spec.pod_group_templates}) > 1:
        yield invalid(path, None, "detected multiple priority configurations")


def priority_class(obj: PriorityClass) -> Errors:
    if obj.name.startswith(SYSTEM_PREFIX):
        yield from _system_class(obj)
    elif obj.value > HIGHEST_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}")
    if obj.preemption_policy is not None and obj.preemption_policy not in ("PreemptLowerPriority", "Never"):
        if obj.preemption_policy:
            yield not_supported("preemptionPolicy", obj.preemption_policy, ("Never", "PreemptLowerPriority"))
        else:
            yield required("preemptionPolicy")


def priority_class_update(new: PriorityClass, old: PriorityClass) -> Errors:
    if new.value != old.value:
        yield forbidden("value", "may not be changed in an update.")
    if new.preemption_policy != old.preemption_policy:
        yield immutable("preemptionPolicy", TypedText(new.preemption_policy or ""))


def _system_class(obj: PriorityClass) -> Errors:
    """Names that begin with ``system-`` are those of two classes that every cluster has."""
    value = SYSTEM_PRIORITIES.get(obj.name)
    if value is None:
        why = f"{obj.name} is not a known system priority class"
    elif obj.value != value:
        why = f"value of {obj.name} PriorityClass must be {value}"
    elif obj.global_default:
        why = f"globalDefault of {obj.name} PriorityClass must be false"
    else:
        return
    yield forbidden(
        "metadata.name",
        f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}",
    )


def _template(template: PodGroupTemplate, path: str) -> Errors:
    yield from required_by(declared_label, template.name, f"{path}.name")
    yield from _policy(template.scheduling_policy, f"{path}.schedulingPolicy")
    yield from _claims(template.resource_claims, f"{path}.resourceClaims")
    if template.disruption_mode is not None:
        yield from _disruption(template.disruption_mode, f"{path}.disruptionMode")
    yield from _priority(template.priority_class_name, template.priority, path)


def _policy(policy: PodGroupSchedulingPolicy, path: str) -> Errors:
    members = {"basic": policy.basic, "gang": policy.gang}
    yield from one_of(path, [*present(members)], members)
    if policy.gang is not None:
        yield from _min_count(policy.gang.min_count, f"{path}.gang.minCount")


def _policy_update(new: PodGroupSchedulingPolicy, old: PodGroupSchedulingPolicy, path: str) -> Errors:
    if new.basic != old.basic:
        yield immutable(f"{path}.basic", None)
    if new.gang is not None and old.gang is None:
        yield invalid(f"{path}.gang", None, "field cannot be set once created")
    elif new.gang is None and old.gang is not None:
        yield invalid(f"{path}.gang", None, "field cannot be cleared once set")
    elif new.gang is not None:
        yield from _min_count(new.gang.min_count, f"{path}.gang.minCount")


def _min_count(count: int, path: str) -> Errors:
    if count == 0:
        yield required(path)
    elif count < 1:
        yield invalid(path, count, "must be greater than or equal to 1")


def _claims(claims: tuple[PodGroupResourceClaim, ...], path: str) -> Errors:
    yield from unique_items(claims, path, _claim, lambda claim: claim.name, CLAIMS_MAX, versioned)


def _claim(claim: PodGroupResourceClaim, path: str) -> Errors:
    sources = {
        "resourceClaimName": claim.resource_claim_name,
        "resourceClaimTemplateName": claim.resource_claim_template_name,
    }
    yield from one_of(path, [*present(sources)], sources)
    yield from required_by(declared_label, claim.name, f"{path}.name")
    for field, name in sources.items():
        if name is not None:
            yield from declared_subdomain(name, f"{path}.{field}")


def _disruption(mode: DisruptionMode, path: str) -> Errors:
    members = {"single": mode.single, "all": mode.all}
    yield from one_of(path, [*present(members)], members)


def _priority(class_name: str, priority: int | None, path: str) -> Errors:
    if class_name:
        yield from declared_subdomain(class_name, f"{path}.priorityClassName")
    if priority is not None and priority > HIGHEST_USER_PRIORITY:
        yield invalid(f"{path}.priority", priority, f"must be less than or equal to {HIGHEST_USER_PRIORITY}")
