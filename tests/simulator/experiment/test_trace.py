"""Traces in the columns of the FGD paper: their experiments, their faults, and the paper's order of policies."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from devtools.experiments.traces import write_trace
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.trace import read_trace

NODES = [
    "sn,cpu_milli,memory_mib,gpu,model\n",
    "n0,32000,65536,2,T4\n",
    "n1,64000,131072,1,V100M16\n",
    "n2,8000,16384,0,\n",
]
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
TASK = "t0,4000,8192,1,460,,LS,Running,100,400,100\n"


def read(nodes: list[str], tasks: list[str], inflate: float | None = None, seed: int = 0) -> Experiment:
    return read_trace(nodes, tasks, "nodes.csv", "pods.csv", inflate=inflate, seed=seed)


def test_a_gpu_is_a_device_with_a_thousand_parts() -> None:
    trace = read(
        NODES,
        [HEAD, TASK, "t1,8000,1024,2,1000,T4|V100M16,BE,Running,50,,50\n", "t2,1000,1024,0,0,,BE,Failed,60,70,60\n"],
    )
    assert [node.name for node in trace.nodes] == ["n0", "n1", "n2"]
    assert [
        (slice_.spec.node_name, [device.name for device in slice_.spec.devices])
        for slice_ in trace.cluster.of(ResourceSlice)
    ] == [
        ("n0", ["gpu-0", "gpu-1"]),
        ("n1", ["gpu-0"]),
    ]
    assert [(arrival.at, arrival.name, arrival.lifetime, arrival.shape.name) for arrival in trace.arrivals] == [
        (0.0, "t1-1", None, "2 GPU of T4 or V100M16, 8000m cpu, 1024Mi"),
        (10.0, "t2-2", 10.0, "0 GPU, 1000m cpu, 1024Mi"),
        (50.0, "t0-0", 300.0, "460/1000 GPU, 4000m cpu, 8192Mi"),
    ]
    several = trace.arrivals[0].shape.claims[0].spec.devices.requests[0].exactly
    assert several is not None
    assert (several.count, several.selectors[0].to_wire()) == (
        2,
        {"cel": {"expression": "device.attributes['gpu.trace.example'].model in ['T4', 'V100M16']"}},
    )
    assert trace.arrivals[1].shape.claims == ()


def test_tasks_take_what_they_ask_for() -> None:
    trace = read(
        NODES,
        [
            HEAD,
            TASK,
            "t1,8000,1024,2,1000,T4,BE,Running,500,600,50\n",
            "t2,1000,1024,1,1000,A100,BE,Running,510,520,1\n",
        ],
    )
    simulation = Simulation(trace, "first-fit")
    simulation.run()
    assert [
        (round(sample.at), round(sample.used * 3, 2), sample.waiting) for sample in simulation.measures().samples
    ] == [
        (0, 0.46, 0),
        (400, 2.0, 0),
        (410, 2.0, 1),
    ]


@pytest.mark.parametrize(
    ("nodes", "tasks", "problem"),
    [
        (["sn,cpu_milli,memory_mib,gpus,model\n"], [HEAD, TASK],
         "nodes.csv:1: column 'gpu' is missing; \"gpus\" is there; the "
"columns are sn, cpu_milli, memory_mib, gpu, model"),
        ([NODES[0]], [HEAD, TASK], "nodes.csv: has no node; give at least one row behind the columns"),
        ([*NODES, "n0,1,1,1,T4\n"], [HEAD, TASK], "nodes.csv:5: sn: 'n0' is the name of another node already"),
        ([*NODES, "n4,many,1,1,T4\n"], [HEAD, TASK], "nodes.csv:5: cpu_milli: must be a number, is 'many'"),
        ([*NODES, "n4,-1,1,1,T4\n"], [HEAD, TASK], "nodes.csv:5: cpu_milli: must be a whole number from "
"0 to 9007199254740992, is '-1'"),
        ([*NODES, "n4,1,1,900,T4\n"], [HEAD, TASK], "nodes.csv:5: gpu: must be a whole number from 0 to 128, is '900'"),
        ([*NODES, "n4,NaN,1,1,T4\n"], [HEAD, TASK],
         "nodes.csv:5: cpu_milli: must be a number, is 'NaN'; leave it empty if there is none"),
        ([*NODES, "n4,inf,1,1,T4\n"], [HEAD, TASK], "nodes.csv:5: cpu_milli: must be a number of usual size, is 'inf'"),
        ([], [HEAD, TASK],
         "nodes.csv: is empty; the first line names the columns sn, cpu_milli, memory_mib, gpu, model"),
        (NODES, ["\n", HEAD, TASK], "pods.csv: begins with an empty line; the first line names the columns "
"name, cpu_milli, memory_mib, num_gpu, gpu_milli, creation_time, deletion_time"),
        (NODES, [HEAD], "pods.csv: has no task; give at least one row behind the columns"),
        (NODES, [HEAD, "t,1,1,1,0,,,,1,2,1\n"], "pods.csv:2: gpu_milli: must be 1 to 1000 for a task with a GPU"),
        (NODES, [HEAD, "t,1,1,2,500,,,,1,2,1\n"],
         "pods.csv:2: gpu_milli: must be 1000 for a task with several GPUs, which takes them whole"),
        (NODES, [HEAD, "t,1,1,1,500,,,,20,10,1\n"], "pods.csv:2: deletion_time: is before creation_time: 10 < 20"),
        (NODES, [HEAD, "t,1,1,1,500,,,,-20,10,1\n"], "pods.csv:2: creation_time: must not be negative, is '-20'"),
        (NODES, [HEAD, "t,1,1,1,500,,,,,10,1\n"], "pods.csv:2: creation_time: is required; or give "
"--inflate, which doesn't use times"),
        (NODES, [HEAD, "t,1,1,1,500,,,,1,2,1,9,9\n"], "pods.csv:2: more values than the 11 columns"),
    ],
)  # fmt: skip
def test_faults_of_a_trace(nodes: list[str], tasks: list[str], problem: str) -> None:
    with pytest.raises(BadExperiment) as refused:
        read(nodes, tasks)
    assert refused.value.problems == (problem,)


def test_a_compressed_trace_is_named_as_one(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_bytes(gzip.compress("".join(NODES).encode()))
    with path.open(encoding="utf-8-sig", newline="") as lines, pytest.raises(BadExperiment) as refused:
        read_trace(lines, [HEAD, TASK], "nodes.csv", "pods.csv")
    assert refused.value.problems == ("nodes.csv: is compressed by gzip; unpack it first: gunzip nodes.csv",)


def test_a_list_without_models_of_gpus_asks_for_any() -> None:
    """As the lists of several GPUs of the openb trace."""
    without = [",".join([*line.split(",")[:5], *line.split(",")[6:]]) for line in (HEAD, TASK)]
    assert read(NODES, without).arrivals[0].shape.name == read(NODES, [HEAD, TASK]).arrivals[0].shape.name


def test_a_gpu_without_a_model_is_none_of_those_that_are_asked_for() -> None:
    trace = read([NODES[0], "n0,32000,65536,2,\n"], [HEAD, TASK.replace("460,,", "460,T4,"), TASK])
    simulation = Simulation(trace, "first-fit")
    simulation.run()
    measures = simulation.measures()
    assert (measures.started, measures.waiting, measures.errors) == (1, 1, 0)


def test_a_trace_without_gpus_cannot_be_inflated() -> None:
    with pytest.raises(
        BadExperiment,
        match=r"^pods\.csv: no task asks for a GPU, so that tasks never ask for 1.3 times the cluster's GPUs$",
    ):
        read(NODES, [HEAD, "t,1,1,0,0,,,,1,2,1\n"], inflate=1.3)


def test_times_are_not_needed_to_inflate() -> None:
    trace = read(NODES, ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n", "a,1,1,1,500,\n"], inflate=1.0)
    assert [(arrival.at, arrival.lifetime) for arrival in trace.arrivals] == [
        (float(number), None) for number in range(6)
    ]


def _measured(folder: Path, seed: int, policy: str) -> Measures:
    nodes, tasks = write_trace(folder, seed, count=815, scale=0.1)
    with nodes.open(encoding="utf-8") as node_lines, tasks.open(encoding="utf-8") as task_lines:
        experiment = read_trace(node_lines, task_lines, "nodes", "tasks", inflate=1.3, seed=seed)
    simulation = Simulation(experiment, policy, seed=seed)
    simulation.run()
    return simulation.measures()


def _unused(of: Measures, load: float) -> float:
    return next((1 - sample.used) * of.cards for sample in of.samples if sample.asked >= load)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_order_of_policies_is_the_papers(seed: int, tmp_path: Path) -> None:
    """Filled to the brim, a tenth of the paper's cluster: gradient descent leaves least GPUs unused, then best fit,
    then chance."""
    fgd, packed, chance = (_measured(tmp_path, seed, policy) for policy in ("least-fragmentation", "pack", "random"))
    for load in (1.0, 1.1, 1.29):
        assert _unused(fgd, load) <= _unused(packed, load) < _unused(chance, load)
    assert fgd.last.fragmentation <= packed.last.fragmentation < chance.last.fragmentation


@pytest.mark.slow
def test_gradient_descent_beats_best_fit(tmp_path: Path) -> None:
    fgd, packed = (_measured(tmp_path, 1, policy) for policy in ("least-fragmentation", "pack"))
    assert _unused(fgd, 1.0) < 0.8 * _unused(packed, 1.0)
