"""The plan that makes KubeVirt retry early what failed for a reason that may be gone by now (K-12.8). Pure.

KubeVirt's controllers back off up to 1,000 s, but reconcile a VMI as soon as it changes: the operator changes an
annotation of those whose pod our webhook refused, and whose launcher doesn't find the metadata that we supply. It can't
see all of the reasons, so it repeats this at growing intervals: a VMI waits about a tenth longer than necessary, at
most a minute, and a namespace causes no more than five such writes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from virt_dra.api.integration.paths import RETRY_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.controllers.devices.options import CountFrom, as_stated, moment_of
from virt_dra.controllers.kubevirt_failures import retryable_failure
from virt_dra.controllers.writes import PatchAnnotations

SHORTEST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(minutes=1)
EACH: Final = timedelta(seconds=0.2)
"""Between two writes in one namespace, on average."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PART: Final = 0.1
"""The pause until the next retry, as a part of the time that a VMI has waited so far."""


@dataclass(frozen=True)
class Retry:
    """The retry of a failed VMI. ``action``: to write now. ``requeue_at``: when the next write is due."""

    action: PatchAnnotations | None = None
    requeue_at: datetime | None = None


NOTHING: Final = Retry()


def plan(vmi: VirtualMachineInstance, waiting: int, now: datetime, count_from: CountFrom = as_stated) -> Retry:
    """The retry that is due now, and when the next one is. ``waiting``: the number of VMIs of the namespace that await
    a retry, this one included."""
    failure = retryable_failure(vmi)
    written = vmi.metadata.annotations.get(RETRY_ANNOTATION)
    if failure is None:
        over = written is not None and vmi.metadata.deletion_timestamp is None
        return Retry(PatchAnnotations.on(vmi, {RETRY_ANNOTATION: None})) if over else NOTHING
    since = min(
        count_from(moment_of(failure.last_transition_time) or moment_of(vmi.metadata.creation_timestamp) or _LONG_AGO),
        now,
    )
    last = moment_of(written)
    # A time in the future isn't the operator's: VM authors may write the annotation, too.
    last = since if last is None or last > now else max(last, since)
    pause = max(min(max((now - since) * _PART, SHORTEST), LONGEST), EACH * waiting)
    due = last + pause
    if due > now:
        return Retry(requeue_at=due)
    return Retry(
        PatchAnnotations.on(vmi, {RETRY_ANNOTATION: now.astimezone(UTC).isoformat(timespec="milliseconds")}),
        now + pause,
    )
