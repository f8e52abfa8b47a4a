"""What `allocate` raises. Invalid input raises; "does not fit" is a value (`Unsatisfiable`).

The split of A-1.3: a :class:`FatalError` ends the attempt for the pod on every node, a :class:`NodeError` only on this one.
"""

from __future__ import annotations

from collections.abc import Callable

Interrupt = Callable[[], bool]
"""Whether to stop: a deadline has passed, or whoever asked is gone. There is no clock in here."""


class AllocationError(Exception):
    """Base of both kinds. ``str(error)`` is the text of A-20."""


class FatalError(AllocationError):
    """Broken input (claim, class, selector, slice): no node can help, so scheduling of the pod stops (A-1.3 d)."""


class NodeError(AllocationError):
    """This node can't be decided or can't serve the claims; other nodes may (A-1.3 c)."""


class Aborted(FatalError):
    """No decision was reached (E23). ``cause`` says why, ``progress`` how far the search came."""

    def __init__(self, cause: str, progress: str = "") -> None:
        self.cause = cause
        self.progress = progress
        super().__init__(f"filter operation aborted: {cause}{progress}")


class StepLimitExceeded(Aborted):
    """The search was cut off by its step budget, which doesn't depend on the machine."""

    def __init__(self, limit: int, progress: str = "") -> None:
        self.limit = limit
        super().__init__(f"no decision within {limit} search steps", progress)

    def after(self, progress: str) -> StepLimitExceeded:
        """The same with how far it came."""
        return StepLimitExceeded(self.limit, progress)


class DeadlineExceeded(Aborted):
    """Whoever asked doesn't want to wait any longer. ``subject``: the expression that was evaluated then, if one was."""

    def __init__(self, progress: str = "", subject: str = "") -> None:
        self.subject = subject
        super().__init__("context deadline exceeded", progress)

    def after(self, progress: str) -> DeadlineExceeded:
        """The same with how far it came."""
        return DeadlineExceeded(progress, self.subject)

    def at(self, subject: str) -> DeadlineExceeded:
        """The same with the expression that was evaluated."""
        return DeadlineExceeded(self.progress, self.subject or subject)


def ending(interrupt: Interrupt | None) -> Interrupt | None:
    """An interrupt that raises :class:`DeadlineExceeded` instead of answering yes: for expressions, in which ``||`` makes up for the error
    that an answer would cause, so that they would go on."""
    if interrupt is None:
        return None

    def ask() -> bool:
        if interrupt():
            raise DeadlineExceeded
        return False

    return ask
