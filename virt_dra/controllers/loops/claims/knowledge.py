"""The loop's view of the cluster: informer stores, its own latest writes, deleted pods, and objects that it had to
read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.cluster.port import NotFound, Reader
from virt_dra.cluster.watching.informer import InformerStore
from virt_dra.controllers.loops.claims.actions import ClaimOwner
from virt_dra.controllers.loops.claims.view import LookNeeded

DELETED_REMEMBERED: Final = 500
"""UIDs of deleted pods and PodGroups (C-2.7)."""
CREATED_REMEMBERED: Final = 1000
"""Claims that were created and that the informer hasn't shown yet (C-2.7)."""
CREATED_TTL: Final = 60.0
"""Seconds for which such a claim is taken to exist; then the cluster is read."""

OF_OWNER: Final = "claim controller: by owner"
OF_CLAIM: Final = "claim controller: by claim"
OF_TEMPLATE: Final = "claim controller: by template"
OF_GROUP: Final = "claim controller: by PodGroup"


class RecentUids:
    """The last UIDs that were added."""

    def __init__(self, limit: int = DELETED_REMEMBERED) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids


class CreatedClaims:
    """Claims that the loop created and that the informer hasn't shown yet, so that none is made twice (C-10.5.1)."""

    def __init__(self, elapsed: Callable[[], float], limit: int = CREATED_REMEMBERED) -> None:
        self._elapsed, self._limit = elapsed, limit
        self._claims: OrderedDict[tuple[str, str], tuple[float, ResourceClaim]] = OrderedDict()
        self._of_owner: dict[tuple[str, str], dict[str, ResourceClaim]] = {}

    def add(self, claim: ResourceClaim) -> None:
        self._claims[claim.namespace, claim.name] = (self._elapsed(), claim)
        owner = claim.metadata.controller_owner
        if owner is not None:
            self._of_owner.setdefault((claim.namespace, owner.uid), {})[claim.name] = claim
        if len(self._claims) > self._limit:
            self.discard(*next(iter(self._claims)))

    def discard(self, namespace: str, name: str) -> None:
        """Forget a claim, for the informer shows its state."""
        believed = self._claims.pop((namespace, name), None)
        owner = believed[1].metadata.controller_owner if believed is not None else None
        if owner is not None:
            claims = self._of_owner.get((namespace, owner.uid), {})
            claims.pop(name, None)
            if not claims:
                self._of_owner.pop((namespace, owner.uid), None)

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        since, claim = self._claims.get((namespace, name), (0.0, None))
        if claim is not None and self._elapsed() - since > CREATED_TTL:
            self.discard(namespace, name)
            return None
        return claim

    def of_owner(self, namespace: str, uid: str) -> tuple[ResourceClaim, ...]:
        return tuple(
            claim
            for name in tuple(self._of_owner.get((namespace, uid), ()))
            if (claim := self.get(namespace, name)) is not None
        )


@dataclass(frozen=True)
class ClaimStores:
    """The stores of the informers; ``groups`` is None where there are no PodGroups."""

    pods: InformerStore[Pod]
    claims: InformerStore[ResourceClaim]
    templates: InformerStore[ResourceClaimTemplate]
    groups: InformerStore[PodGroup] | None


class StoredView:
    """Implements :class:`.view.ClaimView` for one turn of work, for which alone it keeps what it learns."""

    def __init__(self, stores: ClaimStores, created: CreatedClaims, deleted: RecentUids) -> None:
        self._stores, self._created, self._deleted = stores, created, deleted
        self._learned: dict[tuple[type[TypedObject], str, str], TypedObject | None] = {}
        self.believed = False
        """Whether an answer depended on a claim that the informer hasn't shown yet."""

    async def look(self, reader: Reader, needed: LookNeeded) -> None:
        """Read the object that a decision depends on. Raises :class:`ApiError`."""
        try:
            obj: TypedObject | None = await reader.get(needed.kind, needed.name, needed.namespace)
        except NotFound:
            obj = None
        self._learned[needed.kind, needed.namespace, needed.name] = obj

    def learn(self, obj: TypedObject) -> None:
        """Remember an object as it was written."""
        self._learned[type(obj), obj.namespace, obj.name] = obj

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._known(Pod, namespace, name) or self._stores.pods.get(name, namespace)

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        claim = self._known(ResourceClaim, namespace, name) or self._stores.claims.get(name, namespace)
        if claim is None:
            claim = self._created.get(namespace, name)
            self.believed |= claim is not None
        return claim

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        return self._stores.templates.get(name, namespace)

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        stored = self._stores.groups.get(name, namespace) if self._stores.groups is not None else None
        return self._known(PodGroup, namespace, name) or stored

    def claims_of(self, namespace: str, uid: str) -> tuple[ResourceClaim, ...]:
        claims = {claim.name: claim for claim in self._stores.claims.by_index(OF_OWNER, (namespace, uid))}
        for claim in self._created.of_owner(namespace, uid):
            claims.setdefault(claim.name, claim)
        return tuple(claim for _, claim in sorted(claims.items()))

    def is_deleted(self, uid: str) -> bool:
        return uid in self._deleted

    def certain_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._certain(ResourceClaim, namespace, name, self.claim)

    def certain_pod(self, namespace: str, name: str) -> Pod | None:
        return self._certain(Pod, namespace, name, self.pod)

    def certain_pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return self._certain(PodGroup, namespace, name, self.pod_group)

    def _known(self, kind: type[ObjectT], namespace: str, name: str) -> ObjectT | None:
        return cast("ObjectT | None", self._learned.get((kind, namespace, name)))

    def _certain(
        self, kind: type[ObjectT], namespace: str, name: str, stored: Callable[[str, str], ObjectT | None]
    ) -> ObjectT | None:
        obj = stored(namespace, name)
        if obj is None and (kind, namespace, name) not in self._learned:
            raise LookNeeded(kind, namespace, name)
        return obj


def owner_key(claim: ResourceClaim) -> tuple[tuple[str, str], ...]:
    """The index of claims by their controller's UID."""
    owner = claim.metadata.controller_owner
    return () if owner is None else ((claim.namespace, owner.uid),)


def template_keys(owner: ClaimOwner) -> tuple[tuple[str, str], ...]:
    """The index of pods and PodGroups by the templates that they name."""
    names = (entry.resource_claim_template_name for entry in owner.spec.resource_claims)
    return tuple(dict.fromkeys((owner.namespace, name) for name in names if name))
