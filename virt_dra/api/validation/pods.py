"""Validation of the parts of a Pod that name resource claims (K-3.2, C-14.6); the rest is not checked here."""

from __future__ import annotations

from collections.abc import Collection

from virt_dra.api.core_v1 import (
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    ResourceClaimReference,
)
from virt_dra.api.validation.field_errors import Errors, TypedText, duplicate, forbidden, invalid, not_found, required
from virt_dra.api.validation.formats import is_node_allocatable, label, not_negative, required_by, subdomain
from virt_dra.api.validation.go_values import internal

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On the API server's image of a static pod."""

FIXED_FIELDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod(obj: Pod) -> Errors:
    seen: set[str] = set()
    for index, claim in enumerate(obj.spec.resource_claims):
        if MIRROR_ANNOTATION in obj.metadata.annotations:
            yield forbidden("[]", "static pods do not support resource claims")
        else:
            yield from _claim(claim, f"spec.resourceClaims[{index}]", seen)
    group = obj.spec.scheduling_group
    if group is not None and group.pod_group_name is None:
        yield invalid("spec.schedulingGroup.podGroupName", None, "must specify one of: `podGroupName`")
    elif group is not None and group.pod_group_name is not None:
        yield from subdomain(group.pod_group_name, "spec.schedulingGroup.podGroupName")
    names = sorted({claim.name for claim in obj.spec.resource_claims if claim.name})
    for field, containers in (("containers", obj.spec.containers), ("initContainers", obj.spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _container_claims(container.resources.claims, f"spec.{field}[{index}].resources.claims", names)


def pod_update(new: Pod, old: Pod) -> Errors:
    """The faults of an update: a pod's claims are immutable (K-3.1). Kubernetes also adds the difference."""
    yield from pod(new)
    if _asked(new) != _asked(old):
        yield forbidden("spec", FIXED_FIELDS)


def pod_status(obj: Pod) -> Errors:
    names = {claim.name for claim in obj.spec.resource_claims}
    seen: set[str] = set()
    for index, status in enumerate(obj.status.resource_claim_statuses):
        yield from _claim_status(status, f"status.resourceClaimStatuses[{index}]", names, seen)
    if obj.status.extended_resource_claim_status is not None:
        yield from _extended_resources(
            obj.status.extended_resource_claim_status, obj.spec, "status.extendedResourceClaimStatus"
        )
    referenced = {claim.resource_claim_name for claim in obj.spec.resource_claims}
    referenced |= {claim.resource_claim_name for claim in obj.status.resource_claim_statuses}
    for index, uses in enumerate(obj.status.node_allocatable_resource_claim_statuses):
        yield from _node_resources(uses, f"status.nodeAllocatableResourceClaimStatuses[{index}]", referenced)


def _asked(obj: Pod) -> object:
    containers = (*obj.spec.init_containers, *obj.spec.containers)
    return (
        obj.spec.resource_claims,
        obj.spec.scheduling_group,
        [(container.name, container.resources.claims) for container in containers],
    )


def _claim(claim: PodResourceClaim, path: str, seen: set[str]) -> Errors:
    if not claim.name:
        yield required(f"{path}.name")
    elif claim.name in seen:
        yield duplicate(f"{path}.name", claim.name)
    else:
        yield from label(claim.name, f"{path}.name")
    seen.add(claim.name)
    if claim.resource_claim_name is not None and claim.resource_claim_template_name is not None:
        yield invalid(
            path, internal(claim), "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        )
    if claim.resource_claim_name is None and claim.resource_claim_template_name is None:
        yield invalid(path, internal(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    if claim.resource_claim_name is not None:
        yield from subdomain(claim.resource_claim_name, f"{path}.resourceClaimName")
    if claim.resource_claim_template_name is not None:
        yield from subdomain(claim.resource_claim_template_name, f"{path}.resourceClaimTemplateName")


def _container_claims(claims: tuple[ResourceClaimReference, ...], path: str, names: list[str]) -> Errors:
    """The faults of a container's claims: each appears once as a whole, or several times with different requests, which
    may not exist."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        if not claim.name:
            yield required(at)
            continue
        if claim.name in seen:
            yield duplicate(at, claim.name)
        else:
            key = f"{claim.name}/{claim.request}" if claim.request else claim.name
            if claim.request:
                yield from label(claim.request, f"{at}.request")
            if key in seen:
                yield duplicate(at, key)
            elif not claim.request and any(other.startswith(f"{claim.name}/") for other in seen):
                yield duplicate(at, claim.name)
            seen.add(key)
        if claim.name not in names:
            listed = f": {', '.join(names)}" if names else " which is empty"
            yield not_found(at, claim.name, f"must be one of the names in pod.spec.resourceClaims{listed}")


def _claim_status(status: PodResourceClaimStatus, path: str, names: set[str], seen: set[str]) -> Errors:
    if status.name not in names:
        yield invalid(f"{path}.name", status.name, "must match the name of an entry in `spec.resourceClaims`")
    if status.name in seen:
        yield duplicate(f"{path}.name", status.name)
    seen.add(status.name)
    if status.resource_claim_name is not None:
        yield from subdomain(status.resource_claim_name, f"{path}.resourceClaimName")


def _extended_resources(status: PodExtendedResourceClaimStatus, spec: PodSpec, path: str) -> Errors:
    """The faults of the claim for extended resources, which maps its requests to containers' resources (C-7.5)."""
    containers = {container.name: container.resources for container in (*spec.init_containers, *spec.containers)}
    if not status.request_mappings:
        yield required(f"{path}.requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, str, str]] = set()
    for index, mapping in enumerate(status.request_mappings):
        at = f"{path}.requestMappings[{index}]"
        if mapping.container_name not in containers:
            rule = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid(f"{at}.containerName", mapping.container_name, rule)
        elif mapping.resource_name not in containers[mapping.container_name].requests:
            entries = "spec.initContainers.resources.requests or spec.containers.resources.requests"
            yield invalid(
                f"{at}.resourceName",
                mapping.resource_name,
                f"must match the extended resource name of an entry in {entries}",
            )
        yield from label(mapping.request_name, f"{path}.requestName")
        key = (mapping.container_name, mapping.resource_name, mapping.request_name)
        if key in seen:
            for field, name in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                yield duplicate(f"{at}.{field}", name)
        seen.add(key)
    yield from required_by(subdomain, status.resource_claim_name, f"{path}.resourceClaimName")


def _node_resources(
    status: NodeAllocatableResourceClaimStatus, path: str, referenced: Collection[str | None]
) -> Errors:
    if not status.resource_claim_name:
        return
    if status.resource_claim_name not in referenced:
        yield invalid(f"{path}.resourceClaimName", status.resource_claim_name, "no mapping found in pod reference")
    for index, mapped in enumerate(status.mapping):
        yield from _node_resource(mapped.name, f"{path}.mapping[{index}]")
        yield from not_negative(mapped.quantity, f"{path}.mapping[{index}].quantity")
    for index, overhead in enumerate(status.overhead):
        at = f"{path}.overhead[{index}]"
        yield from _node_resource(overhead.name, at)
        if overhead.per_pod is None and overhead.per_container is None:
            yield invalid(at, "", "at least one of perPod or perContainer must be set")
        yield from not_negative(overhead.per_pod, f"{at}.perPod")
        yield from not_negative(overhead.per_container, f"{at}.perContainer")


def _node_resource(name: str, path: str) -> Errors:
    if not is_node_allocatable(name):
        yield invalid(f"{path}.name", TypedText(name), "must be a node allocatable resource name")
