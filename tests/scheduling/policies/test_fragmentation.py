"""The fragmentation of a node against the paper's formula, written down again (USENIX ATC 2023, section 3)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.sampling import sample
from tests.scheduling.policies.test_choices import placer, shape
from virt_dra.scheduling.policies.fragmentation import LeastFragmentation

Json = dict[str, Any]
CARD: Json = {"allowMultipleAllocations": True, "capacity": {"share": {"value": "1000"}}}


def _formula(free: list[int], cpu_left: int, vms: list[tuple[int, int, int, int]]) -> float:
    """Sum over VMs m of p(m) times the free parts that m can't use. ``vms``: (cards, thousandths of each, cpus,
    weight)."""
    total = sum(weight for *_, weight in vms)
    lost = 0.0
    for cards, share, cpus, weight in vms:
        enough = [amount for amount in free if amount >= share]
        runs = cards > 0 and cpus <= cpu_left and sum(amount // share for amount in enough) >= cards
        lost += weight / total * (sum(free) - (sum(enough) if runs else 0))
    return lost


@pytest.mark.parametrize("seed", range(sample(40)))
def test_as_the_paper_defines_it(seed: int) -> None:
    random = Random(seed)
    free = [random.choice((0, 100, 300, 500, 1000)) for _ in range(random.randint(1, 8))]
    cpu = random.randint(1, 16)
    vms = [
        (1, random.choice((100, 250, 500, 700, 1000)), random.randint(1, 8), random.randint(1, 5))
        for _ in range(random.randint(1, 4))
    ]
    vms += [(random.choice((2, 4)), 1000, random.randint(1, 8), 1), (0, 1, 1, random.randint(1, 3))]
    typical = [
        {
            "cpu": cpus,
            "weight": weight,
            **({"requests": [{"count": cards, "capacity": {"requests": {"share": str(share)}}}]} if cards else {}),
        }
        for cards, share, cpus, weight in vms
    ]
    case: Json = {
        "nodes": [{"name": "a", "cpu": cpu, "devices": [{**CARD, "name": f"d{i}"} for i in range(len(free))]}],
        "in_use": [{f"a/d{i}": str(1000 - amount)} for i, amount in enumerate(free) if amount < 1000],
        "typical": typical,
        "vm": {},
    }
    used = placer(case, "least-fragmentation")
    assert isinstance(used.policy, LeastFragmentation)
    workload = used.policy.workload
    measured = workload.fragmentation(used.cards(0), used.card_state(0), used.rooms[0]) / workload.weight
    assert measured == pytest.approx(_formula(free, cpu, vms))


def test_on_a_node_without_room_for_pods_everything_is_lost() -> None:
    used = placer({"nodes": [{"name": "a", "devices": ["d0", "d1"]}], "vm": {"requests": [{}]}}, "least-fragmentation")
    assert isinstance(used.policy, LeastFragmentation)
    room = used.rooms[0]
    full = room.less(0, 0, room.pods_left)
    assert used.policy.workload.fragmentation(used.cards(0), used.card_state(0), room) == 0
    assert used.policy.workload.fragmentation(used.cards(0), used.card_state(0), full) == 2000
    assert shape({"requests": [{}]}).cpu == 0
