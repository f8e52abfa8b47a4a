"""What a filter answers: nothing, a refusal of a node or pod, or an error that ends the attempt (C-5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Reason:
    """One reason why something doesn't fit. ``code``: has a page in docs/reasons. ``text``: the same for everything
    that misses in the same way; ``detail``: of one example; ``term``: of a selector that is false."""

    code: str
    text: str
    detail: str = ""
    term: str = ""


@dataclass(frozen=True)
class FilterRefusal:
    """The refusal of a node, or of the pod on every node. ``reasons``: kube-scheduler's words, which are counted in the
    pod's condition. ``resolvable``: evicting pods from the node might help (plain Unschedulable), otherwise not
    (UnschedulableAndUnresolvable). ``error``: the node couldn't be decided. kube-scheduler ends the attempt then; we do
    if no other node fits (AC-9). ``code``: the reason for programs; each has a page in docs/reasons; "" for what keeps
    a pod out of the queue. ``subject``: the claim or field of the pod that a refusal of all nodes is about."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = False
    error: bool = False
    code: str = ""
    subject: str = ""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def description(self) -> str:
        """The message, with what it is about."""
        return f"{self.subject}: {self.message}" if self.subject else self.message


class AttemptError(Exception):
    """Ends the attempt for the pod: it is tried again after a back-off, without waiting for an event. The text is for
    its condition. ``subject``: the claim that it is about, "" for the pod. ``code``: as of a refusal."""

    def __init__(self, message: str, subject: str = "", code: str = "") -> None:
        super().__init__(message)
        self.subject, self.code = subject, code
