"""The reference's defects that the rules correct (allocation.md, section 28.2), put back: into our code, the problem or the answer.

With all of them back our answer must be the reference's; a difference is then blamed on those that can't be left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from unittest.mock import patch

from tests.upstream.allocator.node_view import as_the_node_sees_it
from tests.upstream.allocator.ours import ours
from tests.upstream.allocator.problems import Json
from virt_dra.allocator.errors import FatalError
from virt_dra.allocator.features.in_use import InUse
from virt_dra.allocator.features.per_device_nodes import PerDeviceNodes
from virt_dra.allocator.model import Device, Request, Upcoming
from virt_dra.allocator.search import Enter, Search, Step


class AdminBlocks(InUse):
    """AC-7: a device of an admin request is in use for every normal request of the attempt."""

    def admits(self, request: Request, device: Device) -> bool:
        return super().admits(request, device) and (request.admin_access or not any(device is held for _, held in self._of_claim))

    def state(self, upcoming: Upcoming) -> Hashable:
        return frozenset(self._of_claim) or None


class ConstraintEndsAll(Search):
    """AC-8: a constraint that refuses a device of an All request is an error for every node."""

    def _place_fixed(self, at: Enter, request: Request, device: Device) -> Step:
        step = super()._place_fixed(at, request, device)
        if self.refused_constraint is not None:
            raise FatalError(
                f"claim {request.claim.key}, request {request.name}: cannot add device {device.id} because a claim constraint would not "
                "be satisfied"
            )
        return step


class SelectableButUnstorable(PerDeviceNodes):
    """AC-21a: a device whose node selector has two terms is chosen, and then no result can be written."""

    def admits(self, request: Request, device: Device) -> bool:
        return not device.slice.per_device_node_selection or self._pools.selects_device(device.published, self._node)


def match_wins(problem: Json) -> Json:
    """AC-5: of both kinds in one constraint only matchAttribute counts."""
    rewritten = deepcopy(problem)
    for claim in rewritten["claims"]:
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            if "matchAttribute" in constraint:
                constraint.pop("distinctAttribute", None)
    return rewritten


_NULL = "panic: runtime error: invalid memory address or nil pointer dereference"
_KILLS = re.compile(r"claim \S+, request \S+: unknown request type")


def null_dereference(answer: Json) -> Json:
    """AC-12: a request of no known kind kills the reference."""
    return answer | {"error": _NULL} if _KILLS.fullmatch(answer["error"] or "") else answer


_UPDATED = re.compile(r"claim \S+, request \S+: asks for all devices, but resource pool \S+ is currently (being updated|invalid)")


def for_every_node(answer: Json) -> Json:
    """AC-9: All with an incomplete or invalid pool is fatal."""
    return answer | {"node_error": False} if _UPDATED.fullmatch(answer["error"] or "") else answer


@dataclass(frozen=True)
class Defect:
    """``patches``: names in our code and what takes their place. ``problem`` and ``answer`` rewrite what goes in and comes out."""

    patches: Mapping[str, object] = field(default_factory=dict)
    problem: Callable[[Json], Json] | None = None
    answer: Callable[[Json], Json] | None = None


DEFECTS: Mapping[str, Defect] = {
    "AC-4/15/16": Defect(problem=as_the_node_sees_it),
    "AC-5": Defect(problem=match_wins),
    "AC-7": Defect({"virt_dra.allocator.features.InUse": AdminBlocks}),
    "AC-8": Defect({"virt_dra.allocator.attempt.Search": ConstraintEndsAll}),
    "AC-9": Defect(answer=for_every_node),
    "AC-12": Defect(answer=null_dereference),
    "AC-14": Defect({"virt_dra.allocator.result.CONFIG_LIMIT": 10_000}),
    "AC-21a": Defect({"virt_dra.allocator.features.PerDeviceNodes": SelectableButUnstorable}),
}


def with_defects(problem: Json, names: Iterable[str]) -> Json:
    """Our answer with these defects put back."""
    chosen = [DEFECTS[name] for name in names]
    for defect in chosen:
        if defect.problem is not None:
            problem = defect.problem(problem)
    with ExitStack() as stack:
        for name, replacement in (patched for defect in chosen for patched in defect.patches.items()):
            stack.enter_context(patch(name, replacement))
        answer = ours(problem)
    for defect in chosen:
        if defect.answer is not None:
            answer = defect.answer(answer)
    return answer


def blamed(problem: Json, explains: Callable[[Json], bool]) -> tuple[str, ...] | None:
    """The defects without which our answer isn't the reference's; None if it isn't even with all of them."""
    names = list(DEFECTS)
    if not explains(with_defects(problem, names)):
        return None
    for name in tuple(names):
        fewer = [other for other in names if other != name]
        if explains(with_defects(problem, fewer)):
            names = fewer
    return tuple(names)
