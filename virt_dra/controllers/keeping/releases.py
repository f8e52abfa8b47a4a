"""Why a VM's claim is released. Each function answers one question about a claim that no pod uses. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import visible
from virt_dra.api.keeping.claims import NODE_LOST_ANNOTATION, RELEASE_ANNOTATION, STOPPED_ANNOTATION, marked_time
from virt_dra.api.keeping.ends import KeepEnd, device_limit_end, keeping_end, lease_end, time_limit_end
from virt_dra.api.keeping.limits import KeepLimits
from virt_dra.api.keeping.terms import KeepTerms, duration_text
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.controllers.loops.taint_eviction.evictions import Eviction
from virt_dra.model.usage import claim_node

KEEPING_ENDED: Final = "KeepingEnded"
"""The VM no longer asks to keep its devices."""
CLAIM_NOT_USED: Final = "KeptClaimNotUsed"
"""The VM runs without the entry that the claim was made for."""
TEMPLATE_CHANGED: Final = "KeptClaimTemplateChanged"
"""The VM starts with another template than the one that the claim was made from."""
DEVICE_TAINTED: Final = "KeptDeviceTainted"
"""A device of the claim has a NoExecute taint that the claim doesn't tolerate (any more)."""
NODE_LOST: Final = "KeptNodeLost"
"""The node with the claim's devices is gone, not ready or cordoned for longer than the VM waits for it."""
RELEASE_REQUESTED: Final = "KeptReleaseRequested"
"""Somebody asked for the release, by the annotation ``virt-dra.io/release-requested`` of the claim."""
LEASE_OVER: Final = "KeptLeaseOver"
"""The VM has been stopped for longer than it keeps its devices."""
OVER_LIMIT: Final = "KeptOverLimit"
"""A KeepPolicy of the namespace allows stopped VMs to keep fewer devices, or for a shorter time."""
REASONS: Final = (
    KEEPING_ENDED, CLAIM_NOT_USED, TEMPLATE_CHANGED, DEVICE_TAINTED, NODE_LOST, RELEASE_REQUESTED, LEASE_OVER,
    OVER_LIMIT,
)  # fmt: skip

_AWAY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service")
"""Taints of nodes that run no pod for now."""


@dataclass(frozen=True)
class Release:
    """A claim is to be released now. ``removes``: the claim itself is of no use any more, and is deleted."""

    reason: str
    message: str
    removes: bool = False


@dataclass(frozen=True)
class ClaimSituation:
    """A claim of a VM that is there, as its release is decided by.

    ``terms``: of the VM, None if it doesn't ask to keep. ``runs``: the VM has a VMI that isn't finished. ``recorded``:
    the entries that this VMI keeps claims for, with their templates; None without a VMI, or with one that is being
    deleted. ``entry``: of those, the claim's. ``limits``: of the namespace. ``over``: which of them the VM's
    devices exceed, "" if none.
    """

    claim: ResourceClaim
    terms: KeepTerms | None
    runs: bool
    now: datetime
    recorded: Mapping[str, str] | None = None
    entry: str = ""
    template: ResourceClaimTemplate | None = None
    node: Node | None = field(default=None, repr=False)
    eviction: Eviction | None = None
    limits: KeepLimits = field(default_factory=KeepLimits)
    over: str = ""

    @property
    def allocated(self) -> bool:
        return self.claim.status.allocation is not None


ReleaseCheck = Callable[[ClaimSituation], Release | datetime | None]
"""A release, the moment at which it will be due, or None."""


def keeping_ended(situation: ClaimSituation) -> Release | None:
    end = keeping_end(situation.terms)
    return Release(KEEPING_ENDED, end.limit, removes=True) if end is not None and not situation.entry else None


def not_used(situation: ClaimSituation) -> Release | None:
    if situation.recorded is None or situation.entry:
        return None
    return Release(CLAIM_NOT_USED, "the VM runs without the entry that it was made for", removes=True)


def template_changed(situation: ClaimSituation) -> Release | None:
    if not outdated(situation):
        return None
    assert situation.template is not None
    name = visible(situation.template.name)
    return Release(TEMPLATE_CHANGED, f"the VM starts with what ResourceClaimTemplate {name} asks for now", removes=True)


def outdated(situation: ClaimSituation) -> bool:
    """True if the VM's template asks for something else than the claim, whose spec can't be changed."""
    template = situation.template
    return template is not None and template.spec.spec != situation.claim.spec


def device_tainted(situation: ClaimSituation) -> Release | datetime | None:
    eviction = situation.eviction
    if eviction is None or not situation.allocated:
        return None
    if eviction.at > situation.now:
        return eviction.at
    causes = ", ".join(
        visible("/".join(cause.device)) if cause.published else f"DeviceTaintRule {visible(cause.rule)}"
        for cause in eviction.causes
    )
    return Release(DEVICE_TAINTED, f"a device has a NoExecute taint: {causes}")


def node_lost(situation: ClaimSituation) -> Release | datetime | None:
    if situation.terms is None or situation.terms.node_loss is None:
        return None
    why = node_absence(situation)
    if not why:
        return None
    since = marked_time(situation.claim, NODE_LOST_ANNOTATION, situation.now) or situation.now
    due = since + situation.terms.node_loss
    if due > situation.now:
        return due
    return Release(NODE_LOST, f"{why} for {duration_text(situation.now - since)}; the VM may start on another node")


def node_absence(situation: ClaimSituation) -> str:
    """Why no pod can start on the node of the claim's devices; "" if one can, or if they aren't on one node."""
    name = claim_node(situation.claim)
    if not name:
        return ""
    node = situation.node
    if node is None:
        return f"node {visible(name)} has been gone"
    if any(taint.key in _AWAY for taint in node.spec.taints):
        return f"node {visible(name)} has not been ready"
    return f"node {visible(name)} has been cordoned" if node.spec.unschedulable else ""


def release_requested(situation: ClaimSituation) -> Release | None:
    if situation.runs or not situation.allocated or RELEASE_ANNOTATION not in situation.claim.metadata.annotations:
        return None
    return Release(RELEASE_REQUESTED, "its release was asked for")


def lease_over(situation: ClaimSituation) -> Release | datetime | None:
    stopped, due = _stopped_until(situation, lease_end(situation.terms))
    return Release(LEASE_OVER, stopped) if stopped else due


def too_long(situation: ClaimSituation) -> Release | datetime | None:
    end = time_limit_end(situation.limits) if situation.terms is not None else None
    stopped, due = _stopped_until(situation, end)
    return Release(OVER_LIMIT, f"{stopped}, longer than {end.limit} allows") if stopped and end is not None else due


def too_many(situation: ClaimSituation) -> Release | datetime | None:
    stopped, due = _stopped_until(situation, device_limit_end(situation.over))
    return Release(OVER_LIMIT, situation.over) if stopped else due


def _stopped_until(situation: ClaimSituation, end: KeepEnd | None) -> tuple[str, datetime | None]:
    """A sentence if the VM has been stopped for as long as it keeps its devices; else "", and when it will have been
    (None if it isn't stopped, or has nothing, or keeps without an end)."""
    if end is None or situation.runs or not situation.allocated:
        return "", None
    since = marked_time(situation.claim, STOPPED_ANNOTATION, situation.now) or situation.now
    due = since + end.after
    if due > situation.now:
        return "", due
    return f"the VM has been stopped for {duration_text(situation.now - since)}", None


CHECKS: Final[tuple[ReleaseCheck, ...]] = (
    keeping_ended, not_used, template_changed, device_tainted, node_lost, release_requested, lease_over,
    too_long, too_many,
)  # fmt: skip


def release_of(situation: ClaimSituation) -> tuple[Release | None, datetime | None]:
    """The first release that is due, else the earliest moment at which one will be."""
    due: list[datetime] = []
    for check in CHECKS:
        answer = check(situation)
        if isinstance(answer, Release):
            return answer, None
        if answer is not None:
            due.append(answer)
    return None, min(due, default=None)
