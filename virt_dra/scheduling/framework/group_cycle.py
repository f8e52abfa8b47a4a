"""The scheduling cycle of a pod group: its pods one after the other, enough of them or none (C-9.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.framework.cycle import FoundNode, NoNodes, NotFitting
from virt_dra.scheduling.framework.refusals import AttemptError

UNSCHEDULABLE_GROUP = "pod group is unschedulable"


@dataclass(frozen=True)
class MemberResult:
    """What one pod of the group got: a node, or a refusal, or an error."""

    pod: Pod
    outcome: FoundNode | NotFitting | NoNodes | None
    error: str = ""


@dataclass(frozen=True)
class GroupResult:
    """``members``: those that were tried, in their order. ``rejected`` or ``error``: why the group gets nothing now."""

    members: tuple[MemberResult, ...]
    rejected: str = ""
    error: str = ""

    @property
    def success(self) -> bool:
        return not self.rejected and not self.error


@dataclass(frozen=True)
class GroupSize:
    """``wanted``: the pods that must have a node at once. ``scheduled``: those that have one."""

    wanted: int
    scheduled: int

    def missing(self, remaining: int, placed: int) -> tuple[str, bool]:
        """The text of what is missing ("" if the group is complete), and whether it still can come."""
        scheduled = self.scheduled + placed
        if remaining + scheduled < self.wanted:
            return f"minCount ({self.wanted}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining", False
        if scheduled < self.wanted:
            return f"minCount ({self.wanted}) is not yet satisfied: {scheduled} scheduled, {remaining} remaining", True
        return "", True


def place_group(
    pods: Sequence[Pod],
    size: GroupSize,
    find: Callable[[Pod], FoundNode | NotFitting | NoNodes],
    take: Callable[[Pod, FoundNode], None],
) -> GroupResult:
    """``take`` makes what a pod gets known to the next; the caller takes it back if the group is rejected."""
    members: list[MemberResult] = []
    placed = 0
    text, possible = size.missing(len(pods), 0)
    if not possible:
        return GroupResult((), f"{UNSCHEDULABLE_GROUP}, {text}")
    for number, pod in enumerate(pods, 1):
        try:
            outcome = find(pod)
            if isinstance(outcome, FoundNode):
                take(pod, outcome)
                placed += 1
        except AttemptError as error:
            members.append(MemberResult(pod, None, str(error)))
            return GroupResult(tuple(members), error=f"failed to schedule other pod from a pod group: {error}")
        members.append(MemberResult(pod, outcome))
        text, possible = size.missing(len(pods) - number, placed)
        if not possible:
            break
    if text:
        return GroupResult(tuple(members), text)
    return GroupResult(tuple(members), "" if placed else UNSCHEDULABLE_GROUP)
