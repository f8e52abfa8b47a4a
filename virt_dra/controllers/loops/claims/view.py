"""The view of the cluster that a decision about claims has, and the request for a read that it may raise."""

from __future__ import annotations

from typing import Protocol

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.api.scheduling_v1 import PodGroup


class LookNeeded(Exception):
    """Raised where a decision depends on whether an object exists, which must be read from the cluster."""

    def __init__(self, kind: type[TypedObject], namespace: str, name: str) -> None:
        self.kind, self.namespace, self.name = kind, namespace, name
        super().__init__(f"{kind.KIND} {namespace}/{name}")


class ClaimView(Protocol):
    """A copy of the cluster, which may be old. ``certain_…`` know, or raise :class:`LookNeeded` (C-10.5.1, C-10.9)."""

    def pod(self, namespace: str, name: str) -> Pod | None: ...

    def claim(self, namespace: str, name: str) -> ResourceClaim | None: ...

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None: ...

    def pod_group(self, namespace: str, name: str) -> PodGroup | None: ...

    def claims_of(self, namespace: str, uid: str) -> tuple[ResourceClaim, ...]:
        """The claims whose controller is the pod or PodGroup with this UID, by name."""

    def is_deleted(self, uid: str) -> bool:
        """True if a pod or PodGroup with this UID certainly existed and is gone."""

    def certain_claim(self, namespace: str, name: str) -> ResourceClaim | None: ...

    def certain_pod(self, namespace: str, name: str) -> Pod | None: ...

    def certain_pod_group(self, namespace: str, name: str) -> PodGroup | None: ...
