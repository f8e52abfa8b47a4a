"""What somebody says of an asker: whether it gets a node, which nodes would take it, and why the others don't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.framework.messages import STATE_NOT_FOUND

FitVerdict = Literal["fits", "does not fit"]
FITS: Final = "fits"
"""Some node takes it."""
DOES_NOT_FIT: Final = "does not fit"
"""No node takes it, or what it asks for can't be decided or answered, whatever the node."""

_DEALLOCATED: Final = " deallocation of ResourceClaim completed,"
"""What the scheduler did after the attempt."""
DEVICES: Final = "DevicesDoNotFit"
"""The reason of every node that the filter for devices refuses."""


@dataclass(frozen=True)
class FitAnswer:
    """Parts of which a surface says nothing are None.

    ``nodes``: all that take the asker; ``chosen``: the one that it gets. ``reasons``: node -> the code of its refusal.
    ``line``: kube-scheduler's "0/3 nodes are available: …", without what preemption would do.
    """

    verdict: FitVerdict
    nodes: frozenset[str] | None = None
    chosen: str | None = None
    reasons: Mapping[str, str] | None = None
    line: str | None = None
    preemption: str | None = None
    """What preemption would do, in kube-scheduler's words."""
    unknown: frozenset[str] | None = None
    """What wasn't known and not checked, in the words of :mod:`virt_dra.model.unknown`."""
    undecided: bool = False
    """An error ended the attempt: kube-scheduler's texts of errors aren't compared, ours have other words (AC-9)."""

    def differences(self, reference: FitAnswer) -> tuple[str, ...]:
        """The parts in which it contradicts the reference, which says everything that is known."""
        undecided = self.undecided or reference.undecided
        parts = {
            "verdict": self.verdict != reference.verdict,
            "nodes": self.nodes is not None and self.nodes != reference.nodes,
            "chosen": self.chosen is not None and self.chosen not in (reference.nodes or ()),
            "reasons": self.reasons is not None and dict(self.reasons) != dict(reference.reasons or {}),
            "unknown": self.unknown is not None and self.unknown != (reference.unknown or frozenset()),
            "line": _differ(self.line, reference.line) and not undecided,
            "preemption": _differ(self.preemption, reference.preemption) and not undecided,
        }
        return tuple(part for part, contradicts in parts.items() if contradicts)

    @property
    def as_text(self) -> str:
        parts: list[str] = [self.verdict]
        if self.chosen is not None:
            parts.append(f"on {self.chosen}")
        if self.nodes:
            parts.append(f"of {', '.join(sorted(self.nodes))}")
        if self.reasons:
            parts.append(", ".join(f"{node}: {reason}" for node, reason in sorted(self.reasons.items())))
        if self.line is not None:
            parts.append(f'"{self.line}"')
        if self.unknown:
            parts.append(f"not known: {'; '.join(sorted(self.unknown))}")
        return "; ".join(parts)


def texts_of(facts: Iterable[UnknownFact]) -> frozenset[str]:
    return frozenset(fact.text for fact in facts)


def said_of_nodes(reason: str, message: str) -> FitAnswer:
    """The answer in a condition PodScheduled that is False."""
    line, _, remedy = message.replace(_DEALLOCATED, "").partition(" preemption: ")
    if line.endswith(f". {STATE_NOT_FOUND}"):
        line, remedy = line.removesuffix(f" {STATE_NOT_FOUND}"), STATE_NOT_FOUND
    return FitAnswer(DOES_NOT_FIT, frozenset(), line=line, preemption=remedy, undecided=reason == "SchedulerError")


def _differ(text: str | None, other: str | None) -> bool:
    return None not in (text, other) and text != other
