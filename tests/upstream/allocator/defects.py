"""The reference's defects that the rules correct, put back into our allocator: a difference is excused only if it is gone with them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from unittest.mock import patch

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


_WHERE: dict[str, tuple[str, type]] = {
    "AC-7": ("virt_dra.allocator.features.InUse", AdminBlocks),
    "AC-8": ("virt_dra.allocator.Search", ConstraintEndsAll),
    "AC-21a": ("virt_dra.allocator.features.PerDeviceNodes", SelectableButUnstorable),
}

COMBINATIONS = tuple(chosen for number in range(1, len(_WHERE) + 1) for chosen in combinations(_WHERE, number))


@contextmanager
def put_back(defects: Sequence[str]) -> Iterator[None]:
    with ExitStack() as stack:
        for defect in defects:
            stack.enter_context(patch(*_WHERE[defect]))
        yield
