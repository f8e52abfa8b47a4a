"""The VMs that fit on one state of a cluster and not on another, each tried beside all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from virt_dra.allocator import DeadlineExceeded
from virt_dra.api.resource_v1 import ResourceClaimStatus
from virt_dra.model.unknown import UnknownFact
from virt_dra.model.usage import devices_held_by
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.simulator.explaining.answer import JudgeProgress, answer_without_ways
from virt_dra.simulator.explaining.state import ClusterState, Wish
from virt_dra.simulator.explaining.subject import AskedSubject
from virt_dra.simulator.explaining.waiting import subjects_in

FitWord = Literal["fits", "does not fit", "undecided"]


@dataclass(frozen=True)
class FitChange:
    """A VM for which two states give different answers. ``before``, ``after``: None where it isn't there. ``why``: it
    doesn't fit."""

    title: str
    before: FitWord | None
    after: FitWord | None
    why: str = ""

    @property
    def says(self) -> str:
        match self.before, self.after:
            case None, _:
                return f"{self.title} is new, and {self.after}"
            case _, None:
                return f"{self.title} is gone; it {'fitted' if self.before == 'fits' else 'did not fit'}"
            case "fits", _:
                return f"{self.title} stops fitting"
            case _, "fits":
                return f"{self.title} starts fitting"
        return f"{self.title}: {self.before}, then {self.after}"


@dataclass(frozen=True)
class FitState:
    """One state of a cluster. ``restart``: gives one VM its time anew; the ``interrupt`` of ``state`` ends it."""

    state: ClusterState
    restart: Callable[[], None]

    @cached_property
    def subjects(self) -> dict[str, AskedSubject]:
        return {subject.title: subject for subject in subjects_in(self.state.model)}

    @property
    def unknown(self) -> tuple[UnknownFact, ...]:
        """What couldn't be taken into account for some subject."""
        pods = (subject.wish.pod if subject.wish is not None else subject.pod for subject in self.subjects.values())
        return unknown_to(filter(None, pods), self.state.model)

    def answer(self, title: str) -> tuple[FitWord | None, str]:
        """Whether the subject of a title fits, as :meth:`fits`; None for a title that this state doesn't have."""
        return self.fits(self.subjects[title]) if title in self.subjects else (None, "")

    def fits(self, subject: AskedSubject) -> tuple[FitWord, str]:
        """Whether a subject fits; if not, why."""
        self.restart()
        state, subject = _started_anew(self.state, subject)
        if subject.wish is None:
            return "does not fit", subject.problem.text if subject.problem is not None else ""
        try:
            if state.fits_somewhere(subject.wish):
                return "fits", ""
        except DeadlineExceeded:
            return "undecided", "time ran out"
        return "does not fit", answer_without_ways(subject, state, lambda done, total: None).headline


def _started_anew(state: ClusterState, subject: AskedSubject) -> tuple[ClusterState, AskedSubject]:
    """The subject as if it were created now, on the cluster without what it holds."""
    if subject.pod is None or subject.problem is not None:
        return state, subject
    held = [holder for claim in subject.claims for _, holder in devices_held_by(claim, state.model)]
    claims = tuple(claim.with_(status=ResourceClaimStatus()) for claim in subject.claims)
    pod = subject.pod.with_(spec=subject.pod.spec.with_(node_name=None))
    return state.without(held), replace(subject, wish=Wish(pod, claims), node="", claims=())


def differences(before: FitState, after: FitState, progress: JudgeProgress) -> Iterator[FitChange]:
    """The VMs for which the answer differs, by name; and those that are in one state only. Raises FatalError."""
    titles = sorted({*before.subjects, *after.subjects})
    for number, title in enumerate(titles):
        progress(number, len(titles))
        fitted, why_before = before.answer(title)
        fits, why_after = after.answer(title)
        if fitted != fits:
            yield FitChange(title, fitted, fits, why_after or (why_before if fits is not None else ""))
