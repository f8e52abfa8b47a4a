"""What `allocate` raises. Invalid input raises; "does not fit" is a value (`Unsatisfiable`).

The split of A-1.3: a :class:`FatalError` ends the attempt for the pod on every node, a :class:`NodeError` only on this one.
"""

from __future__ import annotations


class AllocationError(Exception):
    """Base of both kinds. ``str(error)`` is the text of A-20."""


class FatalError(AllocationError):
    """Broken input (claim, class, selector, slice): no node can help, so scheduling of the pod stops (A-1.3 d)."""


class NodeError(AllocationError):
    """This node can't be decided or can't serve the claims; other nodes may (A-1.3 c)."""


class StepLimitExceeded(FatalError):
    """The search was cut off by its step budget (a deterministic stand-in for the reference's deadline, E23)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"filter operation aborted: no decision within {limit} search steps")
