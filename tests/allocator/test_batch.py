"""Pods over nodes: the walk against asking a fresh allocator on every node, and which nodes count as alike."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import (
    DEFAULT,
    Allocated,
    Allocator,
    BatchAllocator,
    FatalError,
    NodeError,
    Placed,
    Snapshot,
    allocate,
    wanted_nodes,
)
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [(1, 1), (99, 99), (100, 100), (150, 100), (300, 144), (500, 230), (1000, 420), (5000, 500), (10000, 500)],
)
def test_as_many_nodes_are_looked_for_as_by_kube_scheduler(nodes: int, wanted: int) -> None:
    assert wanted_nodes(nodes) == wanted


class _Plain:
    """The same by the letter: every node in turn, a new snapshot's memory for each question."""

    def __init__(self, given: Json, nodes: Sequence[Node], wanted: int, *, all_nodes: bool) -> None:
        self._given = given
        self._nodes = nodes
        self._wanted = wanted
        self._all = all_nodes
        self._start = 0
        self.held: list[tuple[AllocationResult, ...]] = []

    def place(self, claims: Sequence[ResourceClaim]) -> tuple[str, tuple[AllocationResult, ...]] | None:
        found: list[tuple[int, tuple[AllocationResult, ...]]] = []
        examined = 0
        for step in range(len(self._nodes)):
            index = (self._start + step) % len(self._nodes)
            examined += 1
            snapshot = build.snapshot(self._given).with_allocation(
                *(allocation for held in self.held for allocation in held)
            )
            try:
                answer = allocate(snapshot, claims, self._nodes[index], explain=False)
            except NodeError:
                continue
            if isinstance(answer, Allocated):
                found.append((index, answer.results))
                if len(found) == self._wanted:
                    break
        if self._all:
            self._start = (self._start + examined) % len(self._nodes)
        if not found:
            return None
        index, results = found[0]
        if not self._all:
            self._start = index
        self.held.append(results)
        return self._nodes[index].name, results


def _cluster(random: Random, nodes: int) -> Json:
    """Nodes with devices of their own, some alike, and two pools that several of them see."""
    slices: list[Json] = []
    for number in range(nodes):
        rows = random.choice(((0, 0, 1, 1), (0, 1, 0, 1), (0, 1)))
        devices = [
            {
                "name": f"n{number}d{i}",
                "attributes": {"row": row, "uuid": f"{number}-{i}", "model": random.choice("AAB")},
            }
            for i, row in enumerate(rows)
        ]
        slices.append({"name": f"s{number}", "pool": f"pool-{number}", "node": f"n{number}", "devices": devices})
    everywhere = [{"name": f"e{i}", "attributes": {"row": i % 2, "model": "A"}} for i in range(2)]
    slices.append({"name": "shared", "pool": "a-shared", "allNodes": True, "devices": everywhere})
    for part in range(2):
        of_zone = [{"name": f"z{part}{i}", "attributes": {"row": 0, "model": "B"}} for i in range(2)]
        slices.append({"name": f"zone-{part}", "pool": "b-zone", "count": 2, "zone": f"z{part}", "devices": of_zone})
    if random.random() < 0.3:
        slices.append({"name": "broken", "pool": "c-broken", "node": "n1", "count": 2, "devices": ["x"]})
    return {"slices": slices}


def _pod(random: Random, number: int) -> list[ResourceClaim]:
    kinds: list[Json] = [
        {"requests": [{"count": 1}]},
        {"requests": [{"count": 2}], "constraints": [{"match": "gpu.example.com/row"}]},
        {"requests": [{"count": 2, "when": ['device.attributes["gpu.example.com"].model == "B"']}]},
        {"requests": [{"first": [{"count": 3}, {"count": 1}]}], "constraints": [{"distinct": "gpu.example.com/uuid"}]},
        {"requests": [{"all": True, "when": ['device.attributes["gpu.example.com"].model == "B"']}]},
    ]
    return [build.claim({**random.choice(kinds), "name": f"pod-{number}-{i}"}) for i in range(random.choice((1, 1, 2)))]


@pytest.mark.parametrize("all_nodes", [False, True])
@pytest.mark.parametrize("seed", range(sample(6)))
def test_the_walk_chooses_what_asking_every_node_anew_would_choose(
    seed: int, all_nodes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    given = _cluster(random, nodes=5)
    nodes = [build.node({"name": f"n{i}", "labels": {"zone": f"z{i % 3}"}}) for i in range(5)]
    wanted = 3 if all_nodes else 1
    monkeypatch.setattr("virt_dra.allocator.reuse.batch.wanted_nodes", lambda count: wanted)
    walk = BatchAllocator(build.snapshot(given), nodes, all_nodes=all_nodes)
    plain = _Plain(given, nodes, wanted, all_nodes=all_nodes)
    alive: list[Placed] = []
    for number in range(14):
        claims = _pod(random, number)
        placed, expected = walk.place(claims), plain.place(claims)
        assert (placed and (placed.node.name, placed.results)) == expected, (
            number,
            [claim.to_wire() for claim in claims],
        )
        if placed is not None:
            alive.append(placed)
        if alive and random.random() < 0.4:
            gone = alive.pop(random.randrange(len(alive)))
            walk.release(gone.results)
            plain.held.remove(gone.results)


def test_broken_claims_are_an_error_under_their_own_names_each_time() -> None:
    walk = BatchAllocator(build.snapshot({"slices": [{"node": "n1", "devices": ["d0"]}]}), [build.node("n1")])
    for name in ("one", "two"):
        with pytest.raises(FatalError, match=rf"^claim ns/{name}, request r0: could not retrieve device class none: "):
            walk.place([build.claim({"name": name, "requests": [{"class": "none"}]})])
    for name in ("one", "two"):
        with pytest.raises(
            FatalError, match=rf"^claim ns/{name}: selector #0 on device gpu.example.com/pool/d0: CEL runtime error: "
        ):
            walk.place([build.claim({"name": name, "requests": [{"when": ['device.attributes["a"].b == 1']}]})])


def _outcomes(slices: list[Json], claim: Json) -> int:
    """How many outcomes are kept after two nodes were asked for the claim: 1 if they count as alike."""
    snapshot: Snapshot = build.snapshot({"slices": slices})
    allocator = Allocator(snapshot, [build.claim(claim)], DEFAULT)
    for name in ("n1", "n2"):
        allocator.allocate(build.node(name), explain=False)
    assert allocator.pod_class is not None
    return len(allocator.pod_class.outcomes)


def _two(first: list[Json], second: list[Json]) -> list[Json]:
    return [
        {"pool": "p1", "name": "s1", "node": "n1", "devices": first},
        {"pool": "p2", "name": "s2", "node": "n2", "devices": second},
    ]


def _devices(*attributes: Json, prefix: str = "d") -> list[Json]:
    return [{"name": f"{prefix}{i}", "attributes": attribute} for i, attribute in enumerate(attributes)]


MATCH = {"requests": [{"count": 2}], "constraints": [{"match": "gpu.example.com/row"}]}


@pytest.mark.parametrize(
    ("claim", "first", "second", "kept"),
    [
        pytest.param({"requests": [{}]}, [{"uuid": "a"}], [{"uuid": "b"}], 1, id="what nobody looks at doesn't tell "
"nodes apart"),
        pytest.param(MATCH, [{"row": "a"}, {"row": "b"}], [{"row": "x"}, {"row": "y"}], 1,
            id="of constrained values the "
"pattern"),
        pytest.param(MATCH, [{"row": "a"}, {"row": "a"}], [{"row": "x"}, {"row": "y"}], 2,
            id="another pattern is another "
"shape"),
        pytest.param(MATCH, [{"row": 1}, {"row": 1}], [{"row": 1}, {"row": True}], 2, id="1 and true are two values"),
        pytest.param(
            {"requests": [{"when": ['device.attributes["gpu.example.com"].model == "A"']}]},
            [{"model": "A"}], [{"model": "B"}], 2, id="what selectors say counts",
        ),
    ],
)  # fmt: skip
def test_nodes_are_alike_as_far_as_the_claims_can_tell(
    claim: Json, first: list[Json], second: list[Json], kept: int
) -> None:
    assert _outcomes(_two(_devices(*first), _devices(*second, prefix="other")), claim) == kept


def test_two_parts_of_one_pool_are_never_alike() -> None:
    parts = [
        {"pool": "p", "name": f"s{i}", "node": f"n{i}", "count": 2, "devices": [{"name": f"d{i}"}]} for i in (1, 2)
    ]
    assert _outcomes(parts, {"requests": [{}]}) == 2
