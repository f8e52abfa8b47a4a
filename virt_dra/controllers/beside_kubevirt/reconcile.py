"""One reconcile of one VMI beside KubeVirt: publish its devices, fill in its pods, say what it waits for (docs/decisions/0012)."""

from __future__ import annotations
from virt_dra.controllers.reconciled import NOTHING

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from virt_dra.api.meta import Condition
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.beside_kubevirt import metadata_shim, retries
from virt_dra.controllers.beside_kubevirt import publication as device_publication
from virt_dra.controllers.beside_kubevirt.retries import Retry
from virt_dra.controllers.devices.inputs import DeviceInputs, gather, look_again
from virt_dra.controllers.devices.metadata_files import FillInProblem
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.events import Event
from virt_dra.controllers.reconciled import Explain, Reconciled
from virt_dra.controllers.sources import FINISHED, Sources, owned_by
from virt_dra.controllers.writes import Write, write


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
