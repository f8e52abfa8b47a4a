"""When a VM's kept device may be released, as ``docs/spec/keep.md`` and the guide say: a model of a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

OWN: Final = ("KeptOwnerGone", "KeepingEnded", "KeptClaimNotUsed", "KeptReleaseRequested", "KeptLeaseOver")
"""Reasons that are read of VM, VMI and claim, which the keeper reads, or writes by version, at the release."""
SEEN: Final = ("KeptClaimTemplateChanged", "KeptDeviceTainted", "KeptNodeLost")
"""Reasons that are read of other objects, of which the keeper knows what its watches have told."""

ROUNDING: Final = timedelta(seconds=1)
"""What the keeper notes has whole seconds."""


@dataclass(frozen=True)
class Truth:
    """What is true of a kept claim at a moment. ``lease``, ``node_loss``: None for ever; ``keeps``: whether the VM asks
    to; ``in_record``: the VMI uses it; ``starts``: there is a VMI that isn't being deleted."""

    owner_there: bool
    keeps: bool
    lease: timedelta | None
    node_loss: timedelta | None
    runs: bool
    starts: bool
    in_record: bool
    asked: bool
    template_differs: bool
    tainted: bool
    stopped_since: datetime | None
    lost_since: datetime | None


def reasons(truth: Truth, now: datetime) -> Iterator[str]:
    """Why the claim may be released now, as far as no pod uses it."""
    if not truth.owner_there:
        yield "KeptOwnerGone"
    if not truth.keeps and not truth.in_record:
        yield "KeepingEnded"
    if truth.starts and not truth.in_record:
        yield "KeptClaimNotUsed"
    if truth.starts and truth.in_record and truth.template_differs:
        yield "KeptClaimTemplateChanged"
    if truth.tainted:
        yield "KeptDeviceTainted"
    if truth.keeps and _over(truth.lost_since, truth.node_loss, now):
        yield "KeptNodeLost"
    if not truth.runs and truth.asked:
        yield "KeptReleaseRequested"
    if not truth.runs and truth.keeps and _over(truth.stopped_since, truth.lease, now):
        yield "KeptLeaseOver"


def _over(since: datetime | None, length: timedelta | None, now: datetime) -> bool:
    return since is not None and length is not None and now - since + ROUNDING >= length
