"""The FGD paper's baselines against a plain evaluation, written from its simulator's plugins (integers as there)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, floor
from pathlib import Path
from random import Random

import pytest

from devtools.experiments.traces import write_trace
from virt_dra.scheduling.policies.catalog import RATED
from virt_dra.scheduling.policies.placer import PolicyPlacer
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.placed_cluster import PlacedCluster
from virt_dra.simulator.experiment.trace import Task, read_tasks, read_trace


@dataclass
class _Node:
    """What the paper's simulator keeps of a node. Thousandths of CPUs and GPUs, MiB."""

    cpu: int
    memory: int
    gpus: list[int]
    model: str
    kinds: dict[str, int] = field(default_factory=dict)

    def picks(self, task: Task) -> list[int] | None:
        """The GPUs that it gets, the fullest first; None if it doesn't fit."""
        if task.cpu_milli > self.cpu or task.memory_mib > self.memory:
            return None
        if task.num_gpu and task.models and self.model not in task.models:
            return None
        fitting = [gpu for gpu in sorted(range(len(self.gpus)), key=self.gpus.__getitem__)
                   if self.gpus[gpu] >= task.gpu_milli]  # fmt: skip
        return fitting[: task.num_gpu] if len(fitting) >= task.num_gpu else None

    def take(self, task: Task, gpus: list[int]) -> None:
        self.cpu -= task.cpu_milli
        self.memory -= task.memory_mib
        for gpu in gpus:
            self.gpus[gpu] -= task.gpu_milli
        if task.num_gpu:
            self.kinds[_kind(task)] = self.kinds.get(_kind(task), 0) + 1


def _kind(task: Task) -> str:
    return "share-gpu" if task.num_gpu == 1 and task.gpu_milli < 1000 else f"{task.num_gpu}-gpu"


def _dot_product(node: _Node, task: Task, gpus: list[int]) -> float:
    left = (node.cpu / 128000, sum(node.gpus) / 8000)
    asked = (task.cpu_milli / 128000, task.num_gpu * task.gpu_milli / 8000)
    return 100 * (1 - sum(a * b for a, b in zip(left, asked, strict=True)) / 2)


def _clustering(node: _Node, task: Task, gpus: list[int]) -> float:
    if not task.num_gpu:
        return 0
    used = 25 * (8000 - sum(node.gpus)) / 8000
    if node.kinds.get(_kind(task)):
        return used + (75 if len(node.kinds) == 1 else 50)
    return used + (0 if node.kinds else 25)


def _best_fit(node: _Node, task: Task, gpus: list[int]) -> float:
    free, asked = (node.cpu, sum(node.gpus)), (task.cpu_milli, task.num_gpu * task.gpu_milli)
    return 100 * (1.0 - sum((free[i] - asked[i]) / (128000, 8000)[i] * 0.5 for i in range(2)))


def _gpu_packing(node: _Node, task: Task, gpus: list[int]) -> float:
    if not task.num_gpu:
        return 0
    untouched = node.gpus.count(1000)
    if untouched == len(node.gpus):
        return max(100 // 3 - untouched, untouched)
    to_use = sum(node.gpus[gpu] == 1000 for gpu in gpus)
    if to_use:
        return max(100 // 2 - to_use, 100 // 3)
    return max(100 - sum(node.gpus[gpu] * 100 // 1000 for gpu in gpus) // 10, 100 // 2)


_RATINGS = {"dot-product": _dot_product, "clustering": _clustering, "best-fit": _best_fit, "gpu-packing": _gpu_packing}


def _world(folder: Path, seed: int) -> tuple[Experiment, list[_Node], dict[str, Task]]:
    """Tasks that ask for models too, more than the nodes have room for."""
    nodes, tasks = write_trace(folder, seed, count=600, scale=0.02, constrained=0.3)
    node_lines, task_lines = nodes.read_text().splitlines(), tasks.read_text().splitlines()
    experiment = read_trace(node_lines, task_lines, "nodes", "tasks", inflate=1.2, seed=seed)
    rows = [line.split(",") for line in node_lines[1:]]
    plain = [_Node(int(cpu), int(memory), [1000] * int(gpus), model) for _, cpu, memory, gpus, model in rows]
    return experiment, plain, {task.name: task for task in read_tasks(task_lines, "tasks", timed=False)}


def _placer(experiment: Experiment, policy: str, *, whole_per_cent: bool) -> PolicyPlacer:
    shapes = {arrival.shape: 1 for arrival in experiment.arrivals}
    draw = Random(1).random
    return PlacedCluster(
        experiment.cluster, experiment.nodes, shapes, policy, draw, experiment.features, whole_per_cent=whole_per_cent
    ).placer


@pytest.mark.slow
@pytest.mark.parametrize("whole_per_cent", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", _RATINGS)
def test_a_baseline_takes_a_node_that_a_plain_evaluation_rates_highest(
    policy: str, seed: int, whole_per_cent: bool, tmp_path: Path
) -> None:
    experiment, nodes, tasks = _world(tmp_path, seed)
    placer = _placer(experiment, policy, whole_per_cent=whole_per_cent)
    drawn, refused = 0, 0
    for arrival in experiment.arrivals:
        task = tasks[arrival.name.rpartition("-")[0]]
        ratings = {}
        for number, node in enumerate(nodes):
            picks = node.picks(task)
            if picks is not None:
                ratings[number] = _RATINGS[policy](node, task, picks)
        placed = placer.place(arrival.shape, arrival.name)
        if placed is None:
            assert not ratings
            refused += 1
            continue
        if whole_per_cent:  # a rating that is whole but for the last bits counts as either
            best = max(floor(rating - 1e-9) for rating in ratings.values())
            assert floor(ratings[placed.node] + 1e-9) >= best
            drawn += sum(floor(rating + 1e-9) >= best for rating in ratings.values()) > 1
        else:
            assert ratings[placed.node] >= max(ratings.values()) - 1e-9
        chosen = nodes[placed.node]
        chosen.take(task, chosen.picks(task) or [])
        assert sorted(placer.card_state(placed.node).free) == sorted(chosen.gpus)
    assert refused
    assert drawn > 20 if whole_per_cent else not drawn


def test_gradient_descent_in_whole_per_cent_is_the_sigmoid_of_the_growth(tmp_path: Path) -> None:
    """100 / (1 + e^growth), of GPUs, cut to a whole number: for each node, of its best offer."""
    experiment, nodes, _ = _world(tmp_path, 3)
    placer = _placer(experiment, "least-fragmentation", whole_per_cent=True)
    exact = _placer(experiment, "least-fragmentation", whole_per_cent=False)
    weight = len({arrival.shape for arrival in experiment.arrivals})
    for arrival in list(experiment.arrivals)[:60]:
        numbers = range(len(nodes))
        growths = [
            None if score is None else score[0] / weight / 1000 for score in exact.scores(arrival.shape, numbers)
        ]
        rounded = [None if score is None else -score[0] for score in placer.scores(arrival.shape, numbers)]
        assert rounded == [None if growth is None else floor(100 / (1 + exp(growth))) for growth in growths]
        placed = placer.place(arrival.shape, arrival.name)
        if placed is not None:
            exact.take(placed)


def test_scoring_in_whole_per_cent_is_of_the_policies_that_rate() -> None:
    assert ("least-fragmentation", "random", *_RATINGS) == RATED
