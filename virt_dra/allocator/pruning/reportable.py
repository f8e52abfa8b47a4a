"""AC-8: a constraint that refuses a device of an All request is reported if nothing is found, so no shortcut may hide the refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.model import RESULT_LIMIT, Check, ClaimPlan, Device, Request

Reports = dict[Request, frozenset[Device] | None]
"""All requests that a constraint may refuse, each with its devices up to the one refused: if one of them is taken there is nothing to
report. None where that depends on other requests under the constraint."""


def may_report(
    claims: Sequence[ClaimPlan],
    checks: Sequence[Sequence[Check]],
    add: Callable[[Request, Device], Check | None],
    remove: Callable[[Request, Device], None],
) -> Reports:
    """``add`` and ``remove`` place devices; nothing is placed yet."""
    found: Reports = {}
    for claim, of_claim in zip(claims, checks, strict=True):
        for plan in claim.requests:
            for slots in plan.alternatives:
                if slots.fixed is None or slots.count > RESULT_LIMIT:
                    continue
                covering = [check for check in of_claim if check.constrains(slots.request)]
                if not covering:
                    continue
                others = [each.request for other in claim.requests if other is not plan for each in other.alternatives]
                if any(check.constrains(other) for check in covering for other in others):
                    found[slots.request] = None
                elif (refused := _refused_alone(slots.request, slots.fixed, add, remove)) is not None:
                    found[slots.request] = frozenset(slots.fixed[: refused + 1])
    return found


def _refused_alone(
    request: Request, devices: Sequence[Device], add: Callable[[Request, Device], Check | None], remove: Callable[[Request, Device], None]
) -> int | None:
    """Which of the devices a constraint refuses if nothing else is chosen; None if all fit or something else refuses one first."""
    placed: list[Device] = []
    try:
        for device in devices:
            refused = add(request, device)
            if refused is not None:
                return len(placed) if refused.constrains(request) else None
            placed.append(device)
    except Aborted:
        raise
    except FatalError:
        return None  # raised again, before anything is reported, when it is that device's turn
    finally:
        for device in reversed(placed):
            remove(request, device)
    return None
