"""When and why a VM no longer keeps a claim's devices: each function answers one question about it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import visible
from virt_dra.api.keeping.claims import NODE_LOST_ANNOTATION, RELEASE_ANNOTATION, STOPPED_ANNOTATION, marked_time
from virt_dra.api.keeping.limits import KeepLimits
from virt_dra.api.keeping.terms import KeepTerms, duration_text
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.evicting.causes import Eviction

OWNER_GONE: Final = "KeptOwnerGone"
"""A VM was deleted, or its claim: the device isn't held for it any more."""
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
    OWNER_GONE, KEEPING_ENDED, CLAIM_NOT_USED, TEMPLATE_CHANGED, DEVICE_TAINTED, NODE_LOST, RELEASE_REQUESTED,
    LEASE_OVER, OVER_LIMIT,
)  # fmt: skip

_AWAY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service")
"""Taints of nodes that run no pod for now."""
RESTART: Final = timedelta(minutes=1)
"""A VM that starts again within this time was restarted, not stopped: no limit of devices takes its own away."""
AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)
"""The moment of ends that wait for nothing."""
_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class KeepEnd:
    """The end of keeping. ``reason``: one of :data:`REASONS`; ``message``: for an Event; ``limit``: what ends it, ""
    for the VM's own lease. ``since``, ``after``: it ends so long after; None: not known, or by others. ``removes``: the
    claim itself is deleted."""

    reason: str
    message: str
    limit: str
    since: datetime | None = AT_ONCE
    after: timedelta = timedelta()
    removes: bool = False

    @property
    def at(self) -> datetime | None:
        try:
            return self.since + self.after if self.since is not None else None
        except OverflowError:  # whoever may write the claim may have written the moment
            return _LAST


@dataclass(frozen=True)
class ClaimSituation:
    """A kept claim, as the end of its keeping is decided by. ``terms``: of the VM, None if it doesn't ask to keep.
    ``runs``: the VM has a VMI that isn't finished. ``now``: None without a clock, so that every mark counts.
    ``unowned``: as :func:`unowned` says; ``leaving``: the VM is being deleted. ``recorded``: the entries that its VMI
    keeps claims for, with their templates; None without a VMI that stays. ``entry``: the claim's. ``node``: None if
    gone, or not known. ``over``: which limits the VM's devices exceed."""

    claim: ResourceClaim
    terms: KeepTerms | None
    runs: bool
    now: datetime | None
    unowned: str = ""
    leaving: bool = False
    recorded: Mapping[str, str] | None = None
    entry: str = ""
    template: ResourceClaimTemplate | None = None
    node: Node | None = field(default=None, repr=False)
    knows_nodes: bool = True
    eviction: Eviction | None = None
    limits: KeepLimits = field(default_factory=KeepLimits)
    over: str = ""

    @property
    def allocated(self) -> bool:
        return self.claim.status.allocation is not None

    def since(self, annotation: str) -> datetime | None:
        """The moment of a mark, or now, when the keeper sets it."""
        return marked_time(self.claim, annotation, self.now) or self.now

    def lasted(self, since: datetime | None) -> str:
        """`` for 3d4h``, "" without a clock."""
        return f" for {duration_text(self.now - since)}" if self.now is not None and since is not None else ""


EndCheck = Callable[[ClaimSituation], KeepEnd | None]


def unowned(claim: ResourceClaim, vm: VirtualMachine | None) -> str:
    """Why a claim is kept for nobody; "" if its VM is there. A VM of a file, which has no UID yet, counts as it."""
    if claim.metadata.deletion_timestamp:
        return "it is being deleted"
    owned = vm is not None and (claim.is_controlled_by(vm) or not vm.metadata.uid)
    return "" if owned else "no VM owns it any more"


def owner_gone(situation: ClaimSituation) -> KeepEnd | None:
    if situation.unowned:
        return KeepEnd(OWNER_GONE, situation.unowned, situation.unowned)
    text = "the VM is being deleted"
    return KeepEnd(OWNER_GONE, text, text, since=None) if situation.leaving else None


def keeping_ended(situation: ClaimSituation) -> KeepEnd | None:
    if situation.terms is not None or situation.entry:
        return None
    text = "the VM no longer asks to keep its devices"
    return KeepEnd(KEEPING_ENDED, text, text, removes=True)


def not_used(situation: ClaimSituation) -> KeepEnd | None:
    if situation.recorded is None or situation.entry:
        return None
    text = "the VM runs without the entry that it was made for"
    return KeepEnd(CLAIM_NOT_USED, text, text, removes=True)


def template_changed(situation: ClaimSituation) -> KeepEnd | None:
    if not outdated(situation):
        return None
    assert situation.template is not None
    text = f"the VM starts with what ResourceClaimTemplate {visible(situation.template.name)} asks for now"
    return KeepEnd(TEMPLATE_CHANGED, text, text, removes=True)


def outdated(situation: ClaimSituation) -> bool:
    """True if the VM's template asks for something else than the claim, whose spec can't be changed."""
    template = situation.template
    return template is not None and template.spec.spec != situation.claim.spec


def device_tainted(situation: ClaimSituation) -> KeepEnd | None:
    eviction = situation.eviction
    if eviction is None or not situation.allocated:
        return None
    causes = ", ".join(
        visible("/".join(cause.device)) if cause.published else f"DeviceTaintRule {visible(cause.rule)}"
        for cause in eviction.causes
    )
    text = f"a device has a NoExecute taint: {causes}"
    return KeepEnd(DEVICE_TAINTED, text, text, eviction.at)


def node_lost(situation: ClaimSituation) -> KeepEnd | None:
    if situation.terms is None or situation.terms.node_loss is None:
        return None
    why = node_absence(situation)
    if not why:
        return None
    node, since = f"node {visible(claim_node(situation.claim))}", situation.since(NODE_LOST_ANNOTATION)
    message = f"{node} has been {why}{situation.lasted(since)}; the VM may start on another node"
    waits = f"; released {duration_text(situation.terms.node_loss)} after the keeper saw it" if since is None else ""
    return KeepEnd(NODE_LOST, message, f"{node} is {why}{waits}", since, situation.terms.node_loss)


def node_absence(situation: ClaimSituation) -> str:
    """What keeps pods from starting on the node of the claim's devices; "" if nothing, or without one node."""
    if not claim_node(situation.claim):
        return ""
    node = situation.node
    if not situation.knows_nodes:
        return "away" if marked_time(situation.claim, NODE_LOST_ANNOTATION, situation.now) is not None else ""
    if node is None:
        return "gone"
    if any(taint.key in _AWAY for taint in node.spec.taints):
        return "not ready"
    return "cordoned" if node.spec.unschedulable else ""


def release_requested(situation: ClaimSituation) -> KeepEnd | None:
    if situation.runs or not situation.allocated or RELEASE_ANNOTATION not in situation.claim.metadata.annotations:
        return None
    text = "its release was asked for"
    return KeepEnd(RELEASE_REQUESTED, text, text)


def lease_over(situation: ClaimSituation) -> KeepEnd | None:
    after = situation.terms.stopped_for if situation.terms is not None else None
    since, stopped = _stop(situation)
    return KeepEnd(LEASE_OVER, stopped, "", since, after) if since is not None and after is not None else None


def too_long(situation: ClaimSituation) -> KeepEnd | None:
    limit = situation.limits.time_limit() if situation.terms is not None else None
    since, stopped = _stop(situation)
    if limit is None or since is None:
        return None
    policy = f"KeepPolicy {visible(limit.policy)}"
    return KeepEnd(OVER_LIMIT, f"{stopped}, longer than {policy} allows", policy, since, limit.time)


def too_many(situation: ClaimSituation) -> KeepEnd | None:
    since, _ = _stop(situation)
    over = situation.over
    return KeepEnd(OVER_LIMIT, over, over, since, RESTART) if over and since is not None else None


def _stop(situation: ClaimSituation) -> tuple[datetime | None, str]:
    """Since when the VM is stopped and keeps something, None if it isn't; and a sentence about it."""
    since = situation.since(STOPPED_ANNOTATION)
    if since is None or situation.runs or not situation.allocated:
        return None, ""
    return since, f"the VM has been stopped{situation.lasted(since)}"


CHECKS: Final[tuple[EndCheck, ...]] = (
    owner_gone, keeping_ended, not_used, template_changed, device_tainted, node_lost, release_requested, lease_over,
    too_long, too_many,
)  # fmt: skip


def ends_of(situation: ClaimSituation) -> Iterator[KeepEnd]:
    """All ends, in the order in which the keeper asks about them."""
    return filter(None, (check(situation) for check in CHECKS))


def release_of(situation: ClaimSituation, now: datetime) -> tuple[KeepEnd | None, datetime | None]:
    """The first end that is due, else the earliest moment at which one will be."""
    due: list[datetime] = []
    for end in ends_of(situation):
        if end.at is not None and end.at <= now:
            return end, None
        if end.at is not None:
            due.append(end.at)
    return None, min(due, default=None)
