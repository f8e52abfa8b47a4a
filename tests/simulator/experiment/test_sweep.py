"""Sweeps: targets, sizes, the fewest nodes by bisection, the warm-up, what is measured by kind and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sampling import sample
from tests.simulator.experiment.test_description import built
from tests.simulator.experiment.test_engine import ONE, TWO, simulated
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.simulator.experiment.added_nodes import copies_of_node
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.sweep import (
    FewestNodes,
    Run,
    RunResult,
    SizeRange,
    fewest_nodes,
    parse_sizes,
    parse_target,
    sentence,
)

Json = dict[str, Any]
_ANY: Measures = simulated({"until": "1m", "vms": [{"name": "one", "devices": ONE, "arrivals": {"at": ["0s"]}}]})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p95 wait < 10m", "p95 wait < 10m"),
        ("P95  wait<600", "p95 wait < 10m"),
        ("p50 wait <= 10 min", "p50 wait <= 10m"),
        ("fragmented < 5%", "fragmented < 5.0%"),
        ("used >= 0.8", "used >= 80.0%"),
        ("waiting < 1", "waiting < 1"),
        ("largest VM >= 4", "largest vm >= 4"),
    ],
)
def test_targets_as_users_write_them(text: str, shown: str) -> None:
    assert str(parse_target(text)) == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("p95 wait", "'p95 wait' is no target; write such as 'p95 wait < 10m'"),
        ("p95 wait = 3", "'p95 wait = 3' is no target; write such as 'p95 wait < 10m'"),
        ("p95 waits < 3", "there is no measure 'p95 waits'; did you mean p95 wait?"),
        ("speed < 3", "there is no measure 'speed'; the measures are p50 wait, p95 wait, p99 wait, waiting, evicted, "
         "unused, used, fragmented, largest vm"),
        ("used > much", "'much' is no number"),
        ("waiting < nan", "'nan' is no number"),
        ("used > 50", "'50': used is a part of the whole; write such as 0.8 or 80%"),
        ("unused >= 3%", "'3%': unused is a number, not a part of the whole"),
        ("p95 wait < soon", "'soon' is no duration; write seconds, or such as 90s, 1h30m or 2d"),
    ],
)  # fmt: skip
def test_faults_of_targets(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its text is compared
        parse_target(text)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("gpu=2..4", ("gpu", (2, 3, 4))), ("a=b.yaml=8,2,0..1", ("a=b.yaml", (0, 1, 2, 8))), ("gpu=7", ("gpu", (7,)))],
)
def test_sizes_as_users_write_them(text: str, sizes: tuple[str, tuple[int, ...]]) -> None:
    assert parse_sizes(text) == SizeRange(*sizes)


@pytest.mark.parametrize("text", ["gpu", "=3", "gpu=", "gpu=4..2", "gpu=-1", "gpu=1..x", "gpu=1,,2"])
def test_faults_of_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no range of sizes|ends before it begins"):
        parse_sizes(text)


@settings(max_examples=sample(200), deadline=None)
@given(
    sizes=st.lists(st.integers(0, 500), min_size=1, max_size=80, unique=True).map(sorted),
    needed=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.dictionaries(st.integers(0, 3), st.integers(0, 520),
                           min_size=4, max_size=4), min_size=1),
)  # fmt: skip
def test_bisection_finds_what_trying_every_size_finds(sizes: list[int], needed: dict[str, dict[int, int]]) -> None:
    """``needed``: by policy and seed, from which size on nobody waits."""
    seeds, tried = [0, 1, 2, 3], list[Run]()

    def result(run: Run) -> RunResult:
        assert run.size is not None
        return RunResult(run, replace(_ANY, policy=run.policy, waiting=max(needed[run.policy][run.seed] - run.size, 0)))

    def run_all(runs: Sequence[Run]) -> list[RunResult]:
        tried.extend(runs)
        return [result(run) for run in runs]

    answers = fewest_nodes(run_all, list(needed), seeds, sizes, parse_target("waiting < 1"))
    for answer, (policy, by_seed) in zip(answers, needed.items(), strict=True):
        doing = [size for size in sizes if size >= max(by_seed.values())]
        best = doing[0] if doing else None
        below = [size for size in sizes if size < max(by_seed.values())][-1:] if doing else []

        def at(size: int, policy: str = policy) -> tuple[RunResult, ...]:
            return tuple(result(Run(policy, seed, size)) for seed in seeds)

        assert answer == FewestNodes(
            policy, best, at(sizes[-1] if best is None else best), at(below[0]) if below else ()
        )
    assert len(tried) == len(set(tried)) <= len(needed) * len(seeds) * (2 + len(sizes).bit_length())


def test_the_answer_is_one_line() -> None:
    def results(size: int, *waits: float) -> tuple[RunResult, ...]:
        measures = [replace(_ANY, pending_p95=wait) for wait in waits]
        return tuple(RunResult(Run("pack", seed, size), of) for seed, of in enumerate(measures))

    target, sizes = parse_target("p95 wait < 10m"), SizeRange("gpu", (4, 5, 6))
    answer = FewestNodes("pack", 6, results(6, 60.0, 300.0), results(5, 90.0, 900.0))
    assert sentence(answer, sizes, target) == (
        "pack: 6 nodes of gpu are the fewest with p95 wait < 10m, in 2 of 2 seeds "
        "(p95 wait 1m to 5m; with 5: p95 wait 1m30s to 15m)"
    )
    never = FewestNodes("pack", None, results(6, 660.0), ())
    assert sentence(never, sizes, target) == "pack: p95 wait < 10m isn't reached with 6 nodes of gpu (p95 wait 11m)"
    single = FewestNodes("pack", 1, results(1, 60.0), ())
    assert sentence(single, SizeRange("node.yaml", (1, 2)), target) == (
        "pack: 1 node of node.yaml is the fewest with p95 wait < 10m (p95 wait 1m)"
    )


def _warmed(warm_up: float, patch: Json) -> Measures:
    simulation = Simulation(replace(built(patch), warm_up=warm_up), "first-fit")
    simulation.run()
    return simulation.measures()


def test_the_warm_up_is_left_out() -> None:
    """Four devices; VMs of two that live for ten minutes, one a minute: those from the tenth minute on wait longest."""
    patch: Json = {
        "until": "20m",
        "vms": [{"name": "two", "devices": TWO, "lifetime": "10m", "arrivals": {"every": "1m", "end": "11m"}}],
    }
    whole, warmed = _warmed(0, patch), _warmed(600, patch)
    assert (whole.vms, whole.started) == (12, 5)
    assert (warmed.vms, warmed.started) == (12, 0)  # those that start after ten minutes arrived before
    assert whole.pending_p50 == 600.0
    assert (warmed.pending_p50, warmed.pending_p99) == (540.0, 600.0)  # the last two still wait
    assert whole.used_mean == pytest.approx((2 * 1 + 4 * 19) / (4 * 20))
    assert warmed.used_mean == 1.0
    assert [(kind.vms, kind.waiting, kind.used) for kind in warmed.kinds] == [(2, 2, 1.0)]


def test_waits_and_use_by_kind_and_model() -> None:
    patch: Json = {
        "until": "20m",
        "cluster": {
            "nodes": [
                {"name": "a", "devices": [{"driver": "gpu.example.com", "count": 2, "attributes": {"model": "A100"}}]},
                {"name": "b", "devices": [{"driver": "gpu.example.com", "count": 2, "attributes": {"model": "T4"}}]},
            ]
        },
        "vms": [
            {"name": "two", "devices": TWO, "lifetime": "10m", "arrivals": {"at": ["0s", "0s", "5m"]}},
            {"name": "none", "cpu": 1, "arrivals": {"at": ["1m"]}},
        ],
    }
    measures = simulated(patch)
    assert [(of.kind, of.vms, of.started, of.waiting, of.waits, of.used) for of in measures.kinds] == [
        ("two", 3, 3, 0, (0.0, 300.0, 300.0), 0.75),
        ("none", 1, 1, 0, (0.0, 0.0, 0.0), 0.0),
    ]
    assert [(of.model, of.cards, of.waits, of.used_mean, of.used_end) for of in measures.models] == [
        ("A100", 2, (0.0, 300.0, 300.0), 1.0, 0.0),
        ("T4", 2, (0.0, 0.0, 0.0), 0.5, 0.0),
    ]


def test_where_each_vm_ran_and_when() -> None:
    patch: Json = {
        "until": "20m",
        "vms": [{"name": "gang", "devices": TWO, "gang": 2, "lifetime": "10m", "arrivals": {"at": ["1m"]}},
                {"name": "one", "devices": ONE, "arrivals": {"at": ["2m"]}}],
        "events": [{"at": "5m", "fail": ["gpu-0"], "for": "1m"}],
    }  # fmt: skip
    simulation = Simulation(replace(built(patch), keeps_stays=True), "first-fit")
    simulation.run()
    assert [
        (of.vm, of.vm_kind, of.arrived, of.started, of.ended, of.evicted, of.node, len(of.devices))
        for of in simulation.stays
    ] == [
        ("gang-0-0", "gang", 60.0, 60.0, 300.0, True, "gpu-0", 2),
        ("gang-0-1", "gang", 60.0, 60.0, 300.0, True, "gpu-1", 2),
        ("one-0", "one", 120.0, 300.0, None, False, "gpu-1", 1),
    ]


def _file(*more: TypedObject) -> list[TypedObject]:
    node = Node.from_wire({"metadata": {"name": "new", "labels": {"kubernetes.io/hostname": "new", "zone": "a"}}})
    pool = {"name": "new", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "new", "pool": pool, "devices": [{"name": "gpu"}]}
    return [node, ResourceSlice.from_wire({"metadata": {"name": "new-d"}, "spec": spec}), *more]


def test_copies_of_a_node_have_names_devices_and_labels_of_their_own() -> None:
    copies = copies_of_node(_file(), 2, {"new-1"}, "node.yaml")
    assert [copy.name for copy in copies] == ["new-2", "new-2-new-d", "new-3", "new-3-new-d"]
    assert [copy.metadata.labels for copy in copies[::2]] == [
        {"kubernetes.io/hostname": name, "zone": "a"} for name in ("new-2", "new-3")
    ]
    slices = [copy.spec for copy in copies if isinstance(copy, ResourceSlice)]
    assert [(spec.node_name, spec.pool.name) for spec in slices] == [("new-2", "new-2"), ("new-3", "new-3")]


def test_a_file_of_more_than_a_node_is_refused() -> None:
    other = Node.from_wire({"metadata": {"name": "other"}})
    with pytest.raises(BadExperiment, match="has 2 Nodes; one is copied"):
        copies_of_node(_file(other), 1, (), "node.yaml")
    foreign = ResourceSlice.from_wire(
        {"metadata": {"name": "s"}, "spec": {"driver": "d", "allNodes": True, "pool": {"name": "p"}, "devices": []}}
    )
    with pytest.raises(BadExperiment, match=r"ResourceSlice s: spec.nodeName must be new"):
        copies_of_node(_file(foreign), 1, (), "node.yaml")
