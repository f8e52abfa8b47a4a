"""The All requests whose refusal by a constraint would be the error of a failed search (AC-8): pruning may not skip
such a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.allocator.errors import Aborted, FatalError
from virt_dra.allocator.model import RESULT_LIMIT, PoolDevice, Request
from virt_dra.allocator.pruning_port import Problem

Reportable = dict[Request, frozenset[PoolDevice] | None]
"""Each such request with its devices up to the one refused: if one of them is taken already there is nothing to report.
None where that depends on other requests under the constraint."""


def reportable(problem: Problem) -> Reportable:
    """Places devices for a try; nothing may be placed yet."""
    devices_by_request: Reportable = {}
    for claim, of_claim in zip(problem.claims, problem.checks, strict=True):
        for plan in claim.requests:
            for slots in plan.alternatives:
                if slots.fixed is None or slots.count > RESULT_LIMIT:
                    continue
                covering = [check for check in of_claim if check.constrains(slots.request)]
                if not covering:
                    continue
                others = [
                    slots.request for other in claim.requests if other is not plan for slots in other.alternatives
                ]
                if any(check.constrains(other) for check in covering for other in others):
                    devices_by_request[slots.request] = None
                elif (refused := _refused_alone(problem, slots.request, slots.fixed)) is not None:
                    devices_by_request[slots.request] = frozenset(slots.fixed[: refused + 1])
    return devices_by_request


def _refused_alone(problem: Problem, request: Request, devices: Sequence[PoolDevice]) -> int | None:
    """Index of the device that a constraint refuses if nothing else is chosen; None if all fit or another check refuses
    one first."""
    placed: list[PoolDevice] = []
    try:
        for device in devices:
            refused = problem.add(request, device)
            if refused is not None:
                return len(placed) if refused.constrains(request) else None
            placed.append(device)
    except Aborted:
        raise
    except FatalError:
        return None  # the search raises it again when it reaches that device, before anything is reported
    finally:
        for device in reversed(placed):
            problem.remove(request, device)
    return None
