"""The exceptions of `allocate`: a :class:`FatalError` ends the attempt for the pod on every node, a :class:`NodeError`
only on this one (A-1.3). "Does not fit" is a value (`Unsatisfiable`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SELECTOR_ERROR: Final = "SelectorError"
"""A selector doesn't compile, or fails on a device."""

Interrupt = Callable[[], bool]
"""Polled by long work; True ends it. The caller decides why (a deadline, a closed connection): this package has no
clock."""


class AllocationError(Exception):
    """Base of both kinds. ``str(error)`` is the text of A-20."""


class FatalError(AllocationError):
    """Broken input (claim, class, selector, slice): no node can help, so scheduling of the pod stops (A-1.3 d).
    ``code``: of docs/reasons, "" where there is no page."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class NodeError(AllocationError):
    """Raised where this node can't be decided or can't serve the claims; other nodes may (A-1.3 c)."""


class Aborted(FatalError):
    """Raised where no decision was reached (E23). ``cause`` says why, ``progress`` how far the search came."""

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
        """The same error, saying also how far the search came."""
        return StepLimitExceeded(self.limit, progress)


class DeadlineExceeded(Aborted):
    """The caller's interrupt ended the attempt. ``subject``: the expression that was being evaluated, if any."""

    def __init__(self, progress: str = "", subject: str = "") -> None:
        self.subject = subject
        super().__init__("context deadline exceeded", progress)

    def after(self, progress: str) -> DeadlineExceeded:
        """The same error, saying also how far the search came."""
        return DeadlineExceeded(progress, self.subject)
