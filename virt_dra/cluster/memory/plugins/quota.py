"""The plugin ResourceQuota: what an object counts for is charged when written, refused beyond the limit (C-15)."""

from __future__ import annotations

from collections.abc import Iterable

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject, parse_time
from virt_dra.api.policies.pod_resources import added
from virt_dra.api.policies.quota_usage import (
    QuotaContext,
    Usage,
    in_scope,
    masked,
    matching_names,
    missing_amounts,
    shown,
    usage,
)
from virt_dra.api.policies.quota_v1 import ResourceQuota
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.cluster.memory.authorization.rbac import Stored
from virt_dra.cluster.memory.plugins.write_request import WriteRequest


def charge(request: WriteRequest) -> tuple[TypedObject, ...]:
    """The quotas as they are once the object is stored; an update is charged with what it adds. Raises
    :class:`Forbidden`, which names the first quota that is exceeded, or whose use was never counted."""
    quotas = (
        [quota for quota in request.stored.every(ResourceQuota, request.namespace) if quota.status.hard]
        if request.namespace
        else []
    )
    if not quotas or (request.operation == "UPDATE" and isinstance(request.new, Pod)):
        return ()
    plural, context = str(request.resource), quota_context(request.stored, request)
    pertinent = list(_pertinent(quotas, plural, context, request))
    if not pertinent:
        return ()
    asked = usage(request.new, plural, context)
    if request.operation == "UPDATE" and request.old is not None:
        before = usage(request.old, plural, context)
        asked = {name: amount - before[name] if name in before else amount for name, amount in asked.items()}
    asked = {name: amount for name, amount in asked.items() if amount.sign() > 0}
    charged = []
    for quota in pertinent:
        wanted = masked(asked, quota.status.hard)
        if wanted:
            charged.append(quota.with_(status=quota.status.with_(used=_charged(quota, wanted, request))))
    return tuple(charged)


def quota_context(stored: Stored, request: WriteRequest) -> QuotaContext:
    """The objects on which usage depends, from the store."""

    def claims_of(uid: str) -> Iterable[ResourceClaim]:
        claims = stored.every(ResourceClaim, request.namespace)  # only asked for a pod's extended resources
        return (claim for claim in claims if any(owner.uid == uid for owner in claim.metadata.owner_references))

    return QuotaContext(
        classes={device_class.name: device_class for device_class in stored.every(DeviceClass)},
        pod_of=lambda namespace, name: stored.find(Pod, name, namespace),
        claims_of=claims_of,
        now=parse_time(request.now),
    )


def _pertinent(
    quotas: Iterable[ResourceQuota], plural: str, context: QuotaContext, request: WriteRequest
) -> Iterable[ResourceQuota]:
    for quota in quotas:
        names = matching_names(quota.status.hard, plural, context)
        if not names or not in_scope(quota, request.new):
            continue
        lacking = missing_amounts(request.new, names) if isinstance(request.new, Pod) else ""
        if lacking:
            raise request.refused(f"failed quota: {quota.name}: {lacking}")
        if any(name not in quota.status.used for name in names):
            raise request.refused(f"status unknown for quota: {quota.name}, resources: {','.join(sorted(names))}")
        yield quota


def _charged(quota: ResourceQuota, wanted: Usage, request: WriteRequest) -> Usage:
    used = added(quota.status.used, wanted)
    beyond = [name for name in wanted if used[name] > quota.status.hard[name]]
    if beyond:
        asked, before, limits = (
            shown(masked(usage, beyond)) for usage in (wanted, quota.status.used, quota.status.hard)
        )
        raise request.refused(f"exceeded quota: {quota.name}, requested: {asked}, used: {before}, limited: {limits}")
    return used
