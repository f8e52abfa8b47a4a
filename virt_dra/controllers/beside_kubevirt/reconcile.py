"""The reconcile of a VMI beside KubeVirt: its pods' addresses, its devices, KubeVirt's retries, a new pod (0012)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from virt_dra.api.meta import Condition
from virt_dra.api.virt_dra_v1alpha1 import ALLOCATABLE
from virt_dra.cluster.port import Cluster
from virt_dra.controllers.beside_kubevirt import metadata_shim, publication, replacement, retries
from virt_dra.controllers.beside_kubevirt.current_devices import own_object
from virt_dra.controllers.beside_kubevirt.pod_creation import error_at
from virt_dra.controllers.devices.delivery import start_overdue_times
from virt_dra.controllers.devices.inputs import DeviceInputs, gather, requeue_at
from virt_dra.controllers.devices.metadata_files import FillInProblem
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions
from virt_dra.controllers.events import Event
from virt_dra.controllers.profiles import reconcile as profiles
from virt_dra.controllers.profiles.reconcile import AppliedProfiles
from virt_dra.controllers.reconciled import NOTHING, Align, Explain, Reconciled, earliest
from virt_dra.controllers.sources import Sources
from virt_dra.controllers.writes import Write, write


@dataclass(frozen=True)
class BesideKubevirtPlan:
    """The writes for one VMI. ``first`` (what the VM waits for) is written before ``then`` (what is published about
    it), ``events`` are emitted after that. ``requeue_at``: when time alone may change the plan. ``problems``: for the
    log."""

    first: tuple[Write, ...] = ()
    then: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    requeue_at: datetime | None = None


def previous_allocatable(inputs: DeviceInputs) -> Condition | None:
    """The condition Allocatable as it was last written; None if it wasn't."""
    stored = own_object(inputs)
    conditions = stored.status.conditions if stored is not None else ()
    return next((condition for condition in conditions if condition.type == ALLOCATABLE), None)


def plan(
    inputs: DeviceInputs, pending: Condition | None = None, applied: AppliedProfiles | None = None
) -> BesideKubevirtPlan:
    """The plan, apart from making KubeVirt retry or replace the pod. ``pending``: the new condition Allocatable, if
    there is one. ``applied``: what came of the VMI's line of profiles, if it has one."""
    filled = metadata_shim.plan(inputs)
    unfilled = {problem.reason: problem.message for problem in reversed(filled.current)}
    published = publication.plan(inputs, pending, unfilled, applied)
    # A pod that could not be created, or a guest that could not be started, becomes an error after a while (K-5.34).
    due = (
        (error_at(inputs.vmi, inputs.options.count_from),)
        if inputs.pod is None
        else start_overdue_times(inputs.vmi, inputs.pod, inputs.options)
    )
    requeue = earliest(requeue_at(inputs), *(time for time in due if time is not None and time > inputs.now))
    return BesideKubevirtPlan(filled.actions, published.actions, published.events, filled.problems, requeue)


async def reconcile(
    sources: Sources,
    cluster: Cluster,
    key: str,
    now: datetime,
    options: ResolutionOptions = DEFAULTS,
    explain: Explain | None = None,
    align: Align | None = None,
) -> Reconciled:
    """Gather, plan and write for the VMI ``namespace/name``. Raises :class:`ApiError` for a write to retry."""
    inputs = gather(sources, key, now, options)
    if inputs is None:
        return await _reconcile_finished(sources, cluster, key, now)
    retry = retries.plan(inputs.vmi, sources.awaiting_retry(inputs.vmi.namespace), now, options.count_from)
    applied = await profiles.reconcile(sources, cluster, inputs, align)
    planned = plan(inputs, explain(inputs, previous_allocatable(inputs)) if explain is not None else None, applied)
    replaced = replacement.plan(inputs, sources.vm(key)) or replacement.for_alignment(inputs, applied)
    later = replaced.due if replaced is not None and replaced.due > now else None
    batches = (
        planned.first,
        planned.then,
        (retry.action,) if retry.action is not None else (),
        (replaced.delete,) if replaced is not None and later is None else (),
    )
    results = [await write(cluster, writes, inputs.vmi) for writes in batches]
    done = Reconciled(
        events=(
            *(planned.events if results[1].done else ()),
            *((replaced.event,) if replaced is not None and later is None and results[-1].done else ()),
            *(event for result in results for event in result.refused),
        ),
        problems=planned.problems,
        stale=any(result.stale for result in results),
        requeue_at=earliest(planned.requeue_at, retry.requeue_at, later),
        written=sum(len(writes) for writes, result in zip(batches, results, strict=True) if result.done),
    )
    return done if applied is None else applied.reconciled.combined_with(done)


async def _reconcile_finished(sources: Sources, cluster: Cluster, key: str, now: datetime) -> Reconciled:
    """Publish that a VMI has finished, for as long as it exists."""
    vmi = sources.vmi(key)
    if vmi is None or vmi.metadata.deletion_timestamp is not None or not vmi.finished:
        return NOTHING
    actions = publication.plan_finished(vmi, sources.devices(key), now).actions
    if not actions:
        return NOTHING
    outcome = await write(cluster, actions, vmi)
    return Reconciled(outcome.refused, stale=outcome.stale, written=1 if outcome.done else 0)
