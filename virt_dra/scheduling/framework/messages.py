"""The texts of a pod's PodScheduled condition, in kube-scheduler's words (C-5, C-19)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from virt_dra.scheduling.framework.refusals import FilterRefusal

NO_NODES = "no nodes available to schedule pods"
NEVER_PREEMPTS = "preemption: not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming pod"
STATE_NOT_FOUND = "not found"
"""PostFilter's message where a plugin refused all nodes in PreFilter before DynamicResources was asked: in PostFilter
it finds no state, and preemption isn't tried."""
NOT_HELPFUL = "Preemption is not helpful for scheduling"

EVENT_NOTE_LIMIT = 1024
"""Characters of an Event's message."""


def unsatisfied(plugins: Iterable[str]) -> str:
    """Of nodes that aren't among those to which these plugins restrict the pod."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


@dataclass(frozen=True)
class Diagnosis:
    """Why a pod fits nowhere. ``everywhere``: PreFilter's refusal of all nodes. ``elsewhere``: of nodes that weren't
    filtered."""

    total: int
    refusals: Mapping[str, FilterRefusal] = field(default_factory=dict)
    everywhere: FilterRefusal | None = None
    elsewhere: FilterRefusal | None = None
    post_filter: str = ""
    rejectors: frozenset[str] = frozenset()

    def after(self, post_filter: str) -> Diagnosis:
        """With the message of PostFilter."""
        return replace(self, post_filter=post_filter)

    @property
    def message(self) -> str:
        """``0/N nodes are available: <PreFilter, or reasons counted and sorted as text>. <PostFilter>``"""
        text = f"0/{self.total} nodes are available:"
        if self.everywhere is not None:
            text += f" {self.everywhere.message}."
        else:
            counted = Counter(reason for refusal in self.refusals.values() for reason in refusal.reasons)
            if self.elsewhere is not None and len(self.refusals) < self.total:
                for reason in self.elsewhere.reasons:
                    counted[reason] += self.total - len(self.refusals)
            histogram = ", ".join(sorted(f"{number} {reason}" for reason, number in counted.items()))
            text += f" {histogram}." if histogram else ""
        return f"{text} {self.post_filter}" if self.post_filter else text


def not_preempting(diagnosis: Diagnosis, preemption_policy: str | None) -> str:
    """DefaultPreemption's message where there is no victim."""
    if preemption_policy == "Never":
        return NEVER_PREEMPTS
    resolvable = {name for name, refusal in diagnosis.refusals.items() if refusal.resolvable}
    without = dict.fromkeys(resolvable, FilterRefusal("", (NO_VICTIMS,)))
    unhelpful = Diagnosis(diagnosis.total, without, elsewhere=FilterRefusal("", (NOT_HELPFUL,)))
    return f"preemption: {unhelpful.message}"


def event_note(message: str) -> str:
    """The message, cut as kube-scheduler does for an Event."""
    return message if len(message) <= EVENT_NOTE_LIMIT else message[: EVENT_NOTE_LIMIT - 4] + " ..."
