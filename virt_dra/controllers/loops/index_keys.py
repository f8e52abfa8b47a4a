"""Keys by which several loops find objects in the informers' stores."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.scheduling.claim_references import pod_group_name


def group_of(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Namespace and name of a pod's PodGroup; none for a pod in no group."""
    group = pod_group_name(pod)
    return () if group is None else ((pod.namespace, group),)


def pools_of(published: ResourceSlice) -> tuple[tuple[str, str | None], ...]:
    """The keys of a slice: its driver, and driver and pool."""
    return (published.spec.driver, None), published.pool_key
