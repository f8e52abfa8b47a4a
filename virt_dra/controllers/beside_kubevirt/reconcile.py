"""One reconcile of one VMI beside KubeVirt: publish its devices, fill in its pods, say what it waits for (docs/decisions/0012)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from virt_dra.api.meta import Condition
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.beside_kubevirt import metadata_shim, retries
from virt_dra.controllers.beside_kubevirt import publication as device_publication
from virt_dra.controllers.beside_kubevirt.devices_object import owned_by
from virt_dra.controllers.beside_kubevirt.metadata_shim import FillInProblem
from virt_dra.controllers.beside_kubevirt.pod_creation import error_at
from virt_dra.controllers.beside_kubevirt.publication import DeviceInputs, gather
from virt_dra.controllers.beside_kubevirt.retries import Retry
from virt_dra.controllers.devices.resolution import DEFAULTS, ResolutionOptions, missed_at, overdue_at
from virt_dra.controllers.events import Event
from virt_dra.controllers.sources import FINISHED, Sources, claim_keys
from virt_dra.controllers.writes import Write, write

Explain = Callable[[DeviceInputs, Condition | None], Condition | None]
"""Inputs of a VMI whose pod waits for a node, and the condition so far -> the condition Allocatable, or None to leave it as it is."""


@dataclass(frozen=True)
class BesideKubevirtPlan:
    """``first`` is written before ``then``, and ``last`` after both: what a VM waits for comes before what is reported of it. ``events``
    are emitted once the first two are done.

    ``look_again``: when time alone may change the plan. ``problems`` are for the log: a pod's record that can't be followed.
    """

    first: tuple[Write, ...] = ()
    then: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    look_again: datetime | None = None
    last: tuple[Write, ...] = ()

    def and_(self, retry: Retry) -> Self:
        """With a retry of KubeVirt's: what it needs has been written by then."""
        moments = [moment for moment in (self.look_again, retry.look_again) if moment is not None]
        return replace(self, last=(retry.action,) if retry.action is not None else (), look_again=min(moments, default=None))


@dataclass(frozen=True)
class Reconciled:
    """``again``: what was planned was old; plan anew once the sources have what changed. ``events``: to tell, refusals included."""

    events: tuple[Event, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    again: bool = False
    look_again: datetime | None = None
    written: int = 0

    def and_(self, other: Self) -> Self:
        """Both, done one after the other."""
        moments = [moment for moment in (self.look_again, other.look_again) if moment is not None]
        return replace(
            self,
            events=(*self.events, *other.events),
            problems=(*self.problems, *other.problems),
            again=self.again or other.again,
            look_again=min(moments, default=None),
            written=self.written + other.written,
        )


NOTHING = Reconciled()


def told_so_far(inputs: DeviceInputs) -> Condition | None:
    """The condition Allocatable as it stands."""
    stored = inputs.stored
    if stored is None or not owned_by(stored, inputs.vmi):
        return None
    return next((condition for condition in stored.status.conditions if condition.type == ALLOCATABLE), None)


def plan(inputs: DeviceInputs, pending: Condition | None = None) -> BesideKubevirtPlan:
    """``pending``: the condition Allocatable, if it was found out now (:mod:`pending`)."""
    filled = metadata_shim.plan(inputs)
    unfilled = {problem.reason: problem.message for problem in reversed(filled.current)}
    published = device_publication.plan(inputs, pending, unfilled)
    return BesideKubevirtPlan(filled.actions, published.actions, published.events, filled.problems, look_again(inputs))


def look_again(inputs: DeviceInputs) -> datetime | None:
    """When the grace period for the first unpublished device ends (K-5.9), for a claim that the informer lacks (K-5.4), or for a pod that
    could not be created at the first attempt (K-5.34)."""
    moments = [overdue_at(claim, inputs.options) for claim in inputs.claims.values() if _unpublished(inputs, claim.key)]
    moments += [error_at(inputs.vmi, inputs.options.began)] if inputs.pod is None else []
    moments += [missed_at(pod, inputs.options) for pod in inputs.pods if any(key not in inputs.claims for key in claim_keys(pod))]
    return min((moment for moment in moments if moment is not None and moment > inputs.now), default=None)


def _unpublished(inputs: DeviceInputs, key: str) -> bool:
    allocation = inputs.claims[key].status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        pool = inputs.published.pool(result.driver, result.pool)
        if pool is None or not pool.devices(result.device):
            return True
    return False


async def reconcile(
    sources: Sources, cluster: Cluster, key: str, now: datetime, options: ResolutionOptions = DEFAULTS, explain: Explain | None = None
) -> Reconciled:
    """Gather, plan, apply for the VMI ``namespace/name``. Raises :class:`ApiError` for what may work later without any change."""
    inputs = gather(sources, key, now, options)
    if inputs is None:
        return await _finish(sources, cluster, key, now)
    retry = retries.plan(inputs.vmi, sources.awaiting_retry(inputs.vmi.namespace), now, options.began)
    planned = plan(inputs, explain(inputs, told_so_far(inputs)) if explain is not None else None).and_(retry)
    outcome = await write(cluster, planned.first, inputs.vmi)
    told = await write(cluster, planned.then, inputs.vmi)
    last = await write(cluster, planned.last, inputs.vmi)
    events = (*(planned.events if told.done else ()), *outcome.refused, *told.refused, *last.refused)
    written = sum(len(actions) for actions, done in ((planned.first, outcome), (planned.then, told), (planned.last, last)) if done.done)
    return Reconciled(events, planned.problems, outcome.again or told.again or last.again, planned.look_again, written)


async def _finish(sources: Sources, cluster: Cluster, key: str, now: datetime) -> Reconciled:
    """The last word about a VMI that has finished and is still there."""
    vmi = sources.vmi(key)
    if vmi is None or vmi.metadata.deletion_timestamp is not None or vmi.status.phase not in FINISHED:
        return NOTHING
    actions = device_publication.plan_finished(vmi, sources.devices(key), now).actions
    if not actions:
        return NOTHING
    outcome = await write(cluster, actions, vmi)
    return Reconciled(outcome.refused, again=outcome.again, written=1 if outcome.done else 0)
