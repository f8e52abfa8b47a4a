"""The resource claim controller as a keyed loop (C-10): a change is work for few pods, PodGroups and claims."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
from virt_dra.api.scheduling_v1 import PodGroup
from virt_dra.cluster.port import ApiError
from virt_dra.cluster.watching.informer import Informer
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers.events import Event
from virt_dra.controllers.loops.claims.actions import (
    CREATION_FAILED,
    ChangeReservations,
    ClaimAction,
    ClaimOwner,
    CreateClaim,
    refused,
    write,
)
from virt_dra.controllers.loops.claims.creating import PodDecision, Reserve, for_group, for_pod
from virt_dra.controllers.loops.claims.keys import (
    WorkKey,
    concerns_claims,
    key_for,
    keys_of_group,
    keys_of_pod,
    names_of,
)
from virt_dra.controllers.loops.claims.knowledge import (
    CREATED_TTL,
    OF_CLAIM,
    OF_GROUP,
    OF_OWNER,
    OF_TEMPLATE,
    ClaimStores,
    CreatedClaims,
    RecentUids,
    StoredView,
    owner_key,
    template_keys,
)
from virt_dra.controllers.loops.claims.measuring import ClaimGauges, count_creation
from virt_dra.controllers.loops.claims.releasing import for_claim
from virt_dra.controllers.loops.claims.view import LookNeeded
from virt_dra.controllers.loops.context import LoopContext
from virt_dra.controllers.loops.index_keys import group_of

COMPONENT: Final = "resource_claim"
WORKERS: Final = 8
"""Fewer than the 50 of Kubernetes: on one event loop more workers only cost."""
LONGEST_DELAY: Final = 1000.0
"""Seconds; between two tries of the same work (C-2.7)."""
MOST_TURNS: Final = 8
"""How often the decision about an owner is repeated after writes: claims made, names recorded, reservations made."""

_SERVER_ERRORS: Final = 500
"""From this HTTP status on it isn't known whether a write took effect."""

D = TypeVar("D")

log = logging.getLogger(__name__)


class ClaimWorkUnfinished(ApiError):
    """The work on an object is not finished; the queue tries it again."""


class ResourceClaimController:
    """Implements :class:`virt_dra.controllers.loops.context.ControlLoop`."""

    def __init__(self, context: LoopContext) -> None:
        self._context, self._gates, self._cluster = context, context.gates, context.cluster
        self._events = context.recorder(COMPONENT)
        self._queue: WorkQueue[WorkKey] = WorkQueue(longest_delay=LONGEST_DELAY, chance=context.chance)
        self._deleted = RecentUids()
        self._unanswered: set[WorkKey] = set()
        """Pods and PodGroups for which a claim may have been made although the cluster answered with an error."""
        self._created = CreatedClaims(lambda: asyncio.get_running_loop().time())
        self._gauges = ClaimGauges(context.metrics)
        informers = context.informers
        self._pods, claims, templates = (
            informers.of(Pod),
            informers.of(ResourceClaim),
            informers.of(ResourceClaimTemplate),
        )
        self._groups: Informer[PodGroup] | None = informers.of(PodGroup) if self._gates.generic_workload else None
        self._stores = ClaimStores(
            self._pods.store, claims.store, templates.store, self._groups.store if self._groups else None
        )
        claims.store.add_index(OF_OWNER, owner_key)
        self._pods.store.add_index(OF_CLAIM, _claim_keys)
        self._pods.store.add_index(OF_TEMPLATE, template_keys)
        self._pods.store.add_index(OF_GROUP, group_of)
        if self._groups is not None:
            self._groups.store.add_index(OF_CLAIM, _claim_keys)
            self._groups.store.add_index(OF_TEMPLATE, template_keys)
            self._groups.on_change(self._group_changed)
        self._pods.on_change(self._pod_changed)
        claims.on_change(self._claim_changed)
        templates.on_change(self._template_changed)

    async def run(self) -> None:
        await self._queue.run(self._work, workers=WORKERS)

    # --- what enqueues what (C-10.1) ------------------------------------------------------------------------------

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._look_at_pod(new)
        elif old is not None and concerns_claims(old):
            self._deleted.add(old.metadata.uid)
            self._add(keys_of_pod(self._view(), old, self._gates, deleted=True))

    def _look_at_pod(self, pod: Pod) -> None:
        self._add(keys_of_pod(self._view(), pod, self._gates, deleted=False))

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        group = new or old
        if group is None:
            return
        if self._gates.workload_resource_claims:
            if new is None and group.spec.resource_claims:
                self._deleted.add(group.metadata.uid)
            self._add(keys_of_group(self._view(), group, deleted=new is None))
        for pod in self._pods.store.by_index(OF_GROUP, (group.namespace, group.name)):
            self._look_at_pod(pod)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._gauges.changed(old, new)
        claim = new or old
        if claim is None:
            return
        self._created.discard(claim.namespace, claim.name)
        if new is not None:
            self._queue.add(key_for("claim", new))
        named = (claim.namespace, claim.name)
        for pod in self._pods.store.by_index(OF_CLAIM, named):
            self._look_at_pod(pod)
        if self._groups is not None and self._gates.workload_resource_claims:
            for group in self._groups.store.by_index(OF_CLAIM, named):
                self._group_changed(group, group)

    def _template_changed(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if new is None:
            return
        named = (new.namespace, new.name)
        for pod in self._pods.store.by_index(OF_TEMPLATE, named):
            self._look_at_pod(pod)
        if self._groups is not None and self._gates.workload_resource_claims:
            for group in self._groups.store.by_index(OF_TEMPLATE, named):
                self._group_changed(group, group)

    def _add(self, keys: Iterable[WorkKey]) -> None:
        for key in keys:
            self._queue.add(key)

    def _view(self) -> StoredView:
        return StoredView(self._stores, self._created, self._deleted)

    # --- work -----------------------------------------------------------------------------------------------------

    async def _work(self, key: WorkKey) -> float | None:
        """Reconcile an object; the seconds after which to do so again. Raises :class:`ApiError` for a retry."""
        if key.kind == "claim":
            await self._release(key)
            return None
        if key in self._unanswered:
            await self._look_for_claims_of(key)
        view = self._view()
        for _ in range(MOST_TURNS):
            owner = self._owner(view, key)
            if owner is None:
                return None
            actions, problems = _parted(await self._decided(view, partial(self._for_owner, view, owner)))
            for action in actions:
                await self._write(view, action)
            for problem in problems:
                self._report(problem)
            if problems and any(problem.retry for problem in problems):
                raise ClaimWorkUnfinished(problems[0].message)
            if problems or not actions:
                break
        # The informer will show the claim that we made, unless it was deleted before: then nothing else would wake us.
        return CREATED_TTL + 1 if view.believed else None

    async def _look_for_claims_of(self, key: WorkKey) -> None:
        """Find a claim that was created by a request whose answer was lost; the watch may show it too late."""
        owner = self._owner(self._view(), key)
        for claim in (await self._cluster.list(ResourceClaim, key.namespace)).items if owner is not None else ():
            made_for, stored = claim.metadata.controller_owner, self._stores.claims.get(claim.name, claim.namespace)
            if owner is not None and made_for is not None and made_for.uid == owner.metadata.uid and stored is None:
                self._created.add(claim)
        self._unanswered.discard(key)

    async def _release(self, key: WorkKey) -> None:
        claim = self._stores.claims.get(key.name, key.namespace)
        if claim is None:
            return
        view = self._view()
        actions = await self._decided(view, lambda: for_claim(view, claim, self._gates))
        if any(isinstance(action, ChangeReservations) and action.deallocate for action in actions):
            # A pod on a node still uses its devices when its reservation was removed.
            joining = await self._decided(view, lambda: self._lacking_reservation(view, claim))
            actions = await self._decided(view, lambda: for_claim(view, claim, self._gates, joining))
        for action in actions:
            await self._write(view, action)

    def _lacking_reservation(
        self, view: StoredView, claim: ResourceClaim
    ) -> tuple[ResourceClaimConsumerReference, ...]:
        """The consumers for which pods with a node need the claim reserved (C-10.7)."""
        pods = self._pods.store.by_index(OF_CLAIM, (claim.namespace, claim.name))
        decided = (decision for pod in pods if pod.spec.node_name for decision in for_pod(view, pod, self._gates))
        return tuple(
            decision.consumer
            for decision in decided
            if isinstance(decision, Reserve) and decision.claim.name == claim.name
        )

    def _owner(self, view: StoredView, key: WorkKey) -> ClaimOwner | None:
        return view.pod(key.namespace, key.name) if key.kind == "pod" else view.pod_group(key.namespace, key.name)

    def _for_owner(self, view: StoredView, owner: ClaimOwner) -> list[PodDecision]:
        return for_pod(view, owner, self._gates) if isinstance(owner, Pod) else for_group(view, owner, self._gates)

    async def _decided(self, view: StoredView, decide: Callable[[], D]) -> D:
        """The decision, after whatever it needs to know was read."""
        while True:
            try:
                return decide()
            except LookNeeded as needed:
                await view.look(self._cluster, needed)

    async def _write(self, view: StoredView, action: ClaimAction) -> None:
        try:
            written = await write(self._cluster, action)
        except ApiError as error:
            if isinstance(action, CreateClaim):
                count_creation(self._context.metrics, action.claim, "failure")
                if error.status >= _SERVER_ERRORS:
                    self._unanswered.add(key_for("pod" if isinstance(action.owner, Pod) else "podgroup", action.owner))
            self._report(refused(action, error))
            raise
        if isinstance(action, CreateClaim) and isinstance(written, ResourceClaim):
            count_creation(self._context.metrics, action.claim, "success")
            if self._stores.claims.get(written.name, written.namespace) is None:
                self._created.add(written)
                view.believed = True
        if written is not None:
            view.learn(written)

    def _report(self, event: Event) -> None:
        """Emits Events about what keeps an owner from its claims; the rest is only logged."""
        if event.reason != CREATION_FAILED:
            log.info("%s %s/%s: %s: %s", event.kind, event.namespace, event.name, event.reason, event.message)
            return
        self._events.record(event.regarding, event.type, event.reason, event.message)


def _parted(decided: Iterable[PodDecision]) -> tuple[list[ClaimAction], list[Event]]:
    """The writes, and the problems."""
    actions: list[ClaimAction] = []
    problems: list[Event] = []
    for decision in decided:
        if isinstance(decision, Event):
            problems.append(decision)
        elif isinstance(decision, Reserve):
            actions.append(
                ChangeReservations(
                    decision.claim, (*decision.claim.status.reserved_for, decision.consumer), deallocate=False
                )
            )
        else:
            actions.append(decision)
    return actions, problems


def _claim_keys(owner: ClaimOwner) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys((owner.namespace, name) for name in names_of(owner)))
