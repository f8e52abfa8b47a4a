"""The queue of waiting VMs starts what a plain walk over all of them would start."""

from __future__ import annotations

from random import Random

import pytest

from tests.sampling import sample
from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.model import Arrival
from virt_dra.simulator.experiment.waiting import WaitingVms


@pytest.mark.parametrize("seed", range(sample(20)))
def test_vms_start_by_priority_then_age(seed: int) -> None:
    random = Random(seed)
    sizes = {
        VmShape(f"of-{size}", Pod.from_wire({"spec": {"containers": [{"name": "c"}]}}), ()): size for size in (1, 2, 5)
    }
    queue, plain, free = WaitingVms(), list[Arrival](), 0

    def start(arrival: Arrival, since: float) -> bool:
        nonlocal free
        assert since == arrival.at
        wanted = sizes[arrival.shape] * arrival.members
        if wanted > free:
            return False
        free -= wanted
        started.append(arrival.name)
        return True

    for step in range(60):
        if random.random() < 0.6:
            members, priority = random.choice((1, 1, 3)), random.randrange(3)
            arrival = Arrival(step, random.choice(list(sizes)), f"vm-{step}", None, priority, members)
            queue.add(arrival, arrival.at)
            plain.append(arrival)
            continue
        freed, started = free + random.randrange(9), list[str]()
        free = freed
        queue.start_what_fits(start)
        by_queue, started = started, []
        free = freed
        plain = [
            waiting
            for waiting in sorted(plain, key=lambda waiting: -waiting.priority)
            if not start(waiting, waiting.at)
        ]
        plain.sort(key=lambda waiting: waiting.at)
        assert started == by_queue
        assert queue.vms == sum(waiting.members for waiting in plain)
        assert sorted(waiting.name for waiting, _ in queue) == sorted(waiting.name for waiting in plain)
