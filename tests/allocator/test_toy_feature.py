"""A feature that supplies only `add`, `remove` and `explain` works: pruning and reuse save nothing for it, and answers
stay right."""

from __future__ import annotations

from devtools.allocator import build
from virt_dra.allocator import DEFAULT, Allocated, Allocator, Effort, Unsatisfiable
from virt_dra.allocator.features import FeatureTable
from virt_dra.allocator.model import Check, PoolDevice, Rejection, Request
from virt_dra.api.resource_v1 import ResourceClaim


class NoNeighbours(Check):
    """No two devices with consecutive numbers in one claim."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def add(self, request: Request, device: PoolDevice) -> bool:
        number = int(device.id.device[1:])
        if number - 1 in self._numbers or number + 1 in self._numbers:
            return False
        self._numbers.append(number)
        return True

    def remove(self, request: Request, device: PoolDevice) -> None:
        self._numbers.pop()

    def explain(self, request: Request, device: PoolDevice) -> Rejection:
        return Rejection("Neighbour", "device next to another", device.id, f"next to one of {self._numbers}")


class WithToy(FeatureTable):
    def checks(self, claim: ResourceClaim) -> tuple[Check, ...]:
        return (*super().checks(claim), NoNeighbours())


def test_it_decides_and_explains_with_and_without_pruning() -> None:
    given = {"slices": [{"node": node, "pool": node, "devices": [f"d{i}" for i in range(7)]} for node in ("n1", "n2")]}
    snapshot = build.snapshot(given)
    for effort in (Effort(), Effort(patience=0, look_ahead=0), Effort(patience=None)):
        for count in (4, 5):
            claim = build.claim({"requests": [{"count": 2}, {"name": "r1", "count": count - 2}]})
            allocator = Allocator(snapshot, [claim], DEFAULT, effort=effort, table=WithToy)
            for node in ("n1", "n2", "n1"):
                outcome = allocator.allocate(build.node(node))
                if count == 4:
                    assert isinstance(outcome, Allocated)
                    assert [result.device for result in outcome.results[0].devices.results] == ["d0", "d2", "d4", "d6"]
                else:
                    assert isinstance(outcome, Unsatisfiable)
                    assert outcome.explanation is not None
                    assert outcome.explanation.summary == "device next to another"
            assert allocator.pod_class is not None
            assert not allocator.pod_class.outcomes  # nothing is reused


def test_features_of_another_table_share_no_outcomes() -> None:
    snapshot = build.snapshot({"slices": [{"node": "n1", "devices": ["d0", "d1"]}]})
    claim = build.claim({"requests": [{"count": 2}]})
    assert isinstance(Allocator(snapshot, [claim], DEFAULT).allocate(build.node("n1")), Allocated)
    assert isinstance(Allocator(snapshot, [claim], DEFAULT, table=WithToy).allocate(build.node("n1")), Unsatisfiable)
