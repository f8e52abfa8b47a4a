"""Sweeps give the same results here, in processes and on a Dask cluster, in the order of their runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devtools.experiments.traces import write_trace
from virt_dra.simulator.experiment.description import read_description
from virt_dra.simulator.experiment.engine import ArrivalProgress
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.sweep import Run, Sweep, runs_of
from virt_dra.simulator.experiment.workloads import DescribedWorkload, TracedWorkload
from virt_dra.simulator.sweeping.in_processes import run_in_processes
from virt_dra.simulator.sweeping.running import run_here

Json = dict[str, Any]
GPU: Json = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}
DESCRIBED: Json = {
    "kind": "Simulation",
    "cluster": {"nodes": [{"name": "gpu", "count": 3, "devices": [{"driver": "gpu.example.com", "count": 4}]}]},
    "vms": [
        {"name": "vm", "devices": GPU, "lifetime": {"mean": "2h"}, "arrivals": {"rate": "6/h", "count": 60}},
    ],
}
RUNS = [*runs_of(["random", "pack"], [1, 2]), Run("spread", 3, 5), Run("spread", 3, 1)]


def _sweep() -> Sweep:
    return Sweep(DescribedWorkload(read_description(DESCRIBED, "x.yaml"), "x.yaml", varied="gpu"), keeps_stays=True)


@contextmanager
def _silent(run: Run) -> Iterator[ArrivalProgress]:
    yield lambda arrived, total: None


@pytest.mark.slow
def test_processes_give_what_this_one_gives() -> None:
    reports: list[tuple[int, int]] = []
    results = run_in_processes(_sweep(), RUNS, 2, lambda arrived, total: reports.append((arrived, total)))
    assert results == run_here(_sweep().experiment, RUNS, _silent)
    assert [result.run for result in results] == RUNS
    assert len({result.measures for result in results[:4]}) == 4
    assert reports[-1] == (360, 360)


@pytest.mark.slow
def test_a_fault_in_a_process_is_a_fault_here() -> None:
    sweep = Sweep(TracedWorkload(b"sn,cpu_milli\n", b"", "nodes.csv", "tasks.csv", None))
    with pytest.raises(BadExperiment) as refused:
        run_in_processes(sweep, RUNS[:2], 2, lambda arrived, total: None)
    with pytest.raises(BadExperiment) as here:
        run_here(sweep.experiment, RUNS[:2], _silent)
    assert refused.value.problems == here.value.problems


@pytest.mark.slow
def test_an_interrupt_ends_all_processes_with_what_is_known(tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path, 1, count=3000, scale=0.05)
    sweep = Sweep(TracedWorkload(nodes.read_bytes(), tasks.read_bytes(), "nodes", "tasks", 5.0))

    def interrupt(arrived: int, total: int) -> None:
        if arrived >= 400:
            raise KeyboardInterrupt

    results = run_in_processes(sweep, list(runs_of(["random", "pack", "spread"], [1, 2])), 2, interrupt)
    assert 1 <= len(results) < 6
    assert any(not result.measures.complete and result.measures.vms for result in results)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")  # distributed's own
def test_a_dask_cluster_of_two_workers_gives_what_this_process_gives() -> None:
    from distributed import LocalCluster

    from virt_dra.simulator.sweeping.on_dask import run_on_dask

    expected = run_here(_sweep().experiment, RUNS, _silent)
    reports: list[tuple[int, int]] = []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:  # type: ignore[no-untyped-call]
        address = cluster.scheduler_address
        assert run_on_dask(_sweep(), RUNS, address, lambda done, total: reports.append((done, total))) == expected
        assert run_on_dask(_sweep(), RUNS[::-1], address, lambda done, total: None) == expected[::-1]
        bad = Sweep(TracedWorkload(b"sn,cpu_milli\n", b"", "nodes.csv", "tasks.csv", None))
        with pytest.raises(BadExperiment, match=r"^nodes.csv:1: column 'memory_mib' is missing"):
            run_on_dask(bad, RUNS[:2], address, lambda done, total: None)
    assert reports == [(done, len(RUNS)) for done in range(1, len(RUNS) + 1)]
