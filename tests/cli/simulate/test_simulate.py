"""``virt-dra simulate`` as a user meets it: tables, documents, pages, what-ifs, bad input, interrupts."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result
from pytest_mock import MockerFixture

from devtools.experiments.traces import write_trace
from tests.cli.pages import page_data, refused_by_policy
from tests.json_schema import faults, schema_named
from tests.simulator.experiment.test_description import built
from virt_dra.api.wire import Json
from virt_dra.cli.documents.heads import HEAD
from virt_dra.cli.main import cli
from virt_dra.cli.simulate.comparison import Comparison, compared
from virt_dra.cli.simulate.page import page
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.sweep import Run, RunResult

EXAMPLES = Path(__file__).parents[3] / "examples" / "simulation"
FLEET, CLUSTER, VM = (str(EXAMPLES / name) for name in ("fleet.yaml", "cluster.yaml", "vm.yaml"))


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["simulate", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _document(*arguments: str) -> Json:
    result = _run(*arguments, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    document: Json = json.loads(result.stdout)
    assert faults(document, schema_named("simulate")) == []
    return document


def test_a_row_for_each_policy() -> None:
    result = _run(FLEET, "--policy", "pack", "--policy", "spread,pack", "--until", "6h")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "40 nodes, 320 devices, 129 arrivals, seed 1"
    assert lines[1].split() == (
        [
            "POLICY",
            "STARTED",
            "WAITING",
            "WAIT",
            "p50",
            "p95",
            "p99",
            "USED",
            "mean",
            "end",
            "UNUSED",
            "devices",
            "FRAGMENTED",
            "LARGEST",
            "VM",
            "EVICTED",
            "GANGS",
            "WAITING",
        ]
    )
    assert [line.split()[0] for line in lines[2:4]] == ["pack", "spread"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    first, again, other = (
        _run(FLEET, "--seed", seed, "--policy", "pack,random", "-o", "json").stdout for seed in ("7", "7", "8")
    )
    assert first == again != other


@pytest.mark.slow
def test_the_policies_of_the_description_and_its_events() -> None:
    document = _document(FLEET)
    assert [policy["policy"] for policy in document["policies"]] == [
        "first-fit",
        "pack",
        "spread",
        "least-fragmentation",
    ]
    assert all(
        policy["evictions"] > 0 and policy["gangs"] == 6 and policy["complete"] for policy in document["policies"]
    )
    assert document["policies"][1]["fragmentation"]["end"] < document["policies"][2]["fragmentation"]["end"]


def test_csv_has_a_row_for_each_moment() -> None:
    rows = list(csv.DictReader(io.StringIO(_run(FLEET, "--policy", "pack", "--until", "3h", "-o", "csv").stdout)))
    assert [float(row["at"]) for row in rows] == sorted({float(row["at"]) for row in rows})
    assert rows[-1]["at"] == "10800.000"
    assert all(abs(float(row["unallocated"]) - 320 * (1 - float(row["used"]))) < 0.01 for row in rows)


class _Loaded(HTMLParser):
    """What a page would load or run, and its tables' rows."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.rows += tag == "tr"
        if tag in ("link", "iframe"):
            self.loads.append(tag)
        self.loads += [f"{name}={value}" for name, value in attrs if name.startswith("on") or name == "src"]


@pytest.mark.slow
def test_the_page_loads_nothing() -> None:
    result = _run(FLEET, "--policy", "pack,spread", "--until", "3h", "-o", "html")
    assert result.exit_code == 0
    page = _Loaded()
    page.feed(result.stdout)
    assert (page.loads, page.rows) == ([], 3)
    assert refused_by_policy(result.stdout) == []
    assert result.stdout == _run(FLEET, "--policy", "pack,spread", "--until", "3h", "-o", "html").stdout


@pytest.mark.parametrize(("name", "begin"), [("plot.svg", b"<?xml"), ("plot.png", b"\x89PNG")])
def test_plots_are_written(name: str, begin: bytes, tmp_path: Path) -> None:
    assert _run(FLEET, "--policy", "pack", "--until", "2h", "--plot", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(begin)


@pytest.mark.slow
def test_a_trace_is_compared_over_its_load(tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path, 1, count=200, scale=0.01)
    trace = ("--trace-nodes", str(nodes), "--trace-pods", str(tasks))
    result = _run(*trace, "--inflate", "50%", "--policy", "pack,random")
    assert result.exit_code == 0
    assert "By load: unused GPUs / fragmented part of all GPUs" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines()[-7:-2]] == ["10%", "20%", "30%", "40%", "50%"]
    document = _document(*trace, "--inflate", "until-full", "--policy", "pack")
    assert document["unit"] == "GPUs"
    assert document["policies"][0]["samples"][-1]["asked"] == pytest.approx(1.3, abs=0.05)
    as_it_was = _document(*trace, "--policy", "pack")
    assert as_it_was["policies"][0]["vms"] == 200


@pytest.mark.slow
@pytest.mark.parametrize("inputs", ["dump", "inflated"])
def test_nothing_is_said_in_seconds_where_there_are_no_times(inputs: str, tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path, 1, count=200, scale=0.01)
    trace = ("--trace-nodes", str(nodes), "--trace-pods", str(tasks), "--inflate", "50%")
    arguments = ((CLUSTER,) if inputs == "dump" else trace) + ("--policy", "pack")
    unit = "devices" if inputs == "dump" else "GPUs"
    assert _run(*arguments).stdout.splitlines()[1].split() == [
        *("POLICY", "STARTED", "WAITING", "USED", "mean", "end", "UNUSED", unit, "FRAGMENTED", "LARGEST", "VM"),
        "EVICTED",
    ]
    (policy,) = _document(*arguments)["policies"]
    assert policy.keys().isdisjoint(("pendingSeconds", "ended"))
    assert all("at" not in sample for sample in policy["samples"])
    assert {row["at"] for row in csv.DictReader(io.StringIO(_run(*arguments, "-o", "csv").stdout))} == {""}
    assert "wait p50" not in _run(*arguments, "-o", "html").stdout
    refused = _run(*arguments, "--until", "3h")
    assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (
        2,
        "Error: --until needs times; here VMs arrive one after the other, at none",
    )


@pytest.mark.slow
def test_broken_claims_are_said_with_every_output(tmp_path: Path) -> None:
    devices = "{requests: [{name: gpu, exactly: {deviceClassName: gpux}}]}"
    (tmp_path / "x.yaml").write_text(
        "kind: Simulation\ncluster: {nodes: [{devices: [{driver: gpu.example.com, count: 1}]}]}\n"
        f"vms: [{{name: one, cpu: 1000, devices: {devices}, arrivals: {{count: 2}}}}]\n",
        encoding="utf-8",
    )
    fault = (
        "pack: 2 VMs with broken claims, the first: one: claim simulated/claim-0, request gpu: could not retrieve "
        'device class gpux: deviceclass.resource.k8s.io "gpux" not found'
    )
    for output in ("text", "json", "csv", "html"):
        assert _run(str(tmp_path / "x.yaml"), "--policy", "pack", "-o", output).stderr == f"{fault}\n"
    page = _run(str(tmp_path / "x.yaml"), "--policy", "pack", "-o", "html").stdout
    assert html.escape(fault) in page
    several = _run(str(tmp_path / "x.yaml"), "--policy", "pack,spread", "--seeds", "1..3")
    assert several.stderr == f"{fault.replace('pack', 'pack, spread')}\n"
    sized = ("--policy", "pack", "--size", "node=1..3", "--target", "waiting < 1")
    assert _run(str(tmp_path / "x.yaml"), *sized).stderr == f"{fault}\n"
    report = json.loads(_run(str(tmp_path / "x.yaml"), *sized, "-o", "json").stdout)
    assert faults(report, schema_named("simulate")) == []
    runs = report["answers"][0]["runs"]
    assert [(run["errors"], run["firstError"]) for run in runs] == [
        (2, fault.removeprefix("pack: 2 VMs with broken claims, the first: "))
    ]


def _bold(page: str) -> list[list[str]]:
    """By row, the policy and the cells that are marked as best."""
    rows = re.findall(r'<tr class="item"><td data-label="policy">(.*?)</td>(.*?)</tr>', page)
    return [[policy, *re.findall(r'<td class="number best"[^>]*>(.*?)</td>', cells)] for policy, cells in rows]


def test_the_best_of_the_complete_results_is_marked_where_they_differ() -> None:
    """Not what looks alike, and not the result that was interrupted, which has the fewest of everything."""
    experiment = replace(built({}), arrivals=())
    simulation = Simulation(experiment, "pack")
    simulation.run()
    measures = simulation.measures()

    def result(policy: str, **more: object) -> Measures:
        return replace(measures, policy=policy, **more)  # type: ignore[arg-type]  # of several types

    results = [
        result("a", started=5, waiting=2, evictions=9, used_mean=0.50001, pending_p50=60.0),
        result("b", started=6, waiting=1, evictions=7, used_mean=0.5, pending_p50=60.0),
        result("c", started=9, waiting=0, evictions=0, used_mean=0.9, pending_p50=0.0, complete=False),
    ]
    best = [["a"], ["b", "6", "1", "7"], ["c (interrupted)"]]
    runs = [RunResult(Run(of.policy, 0), of) for of in results]
    comparison = Comparison("x.yaml", 2, "devices", loaded=False, part="", policies=compared(runs))
    assert _bold(page(comparison)) == best
    assert _bold(page(replace(comparison, policies=comparison.policies[:1]))) == [["a"]]


def test_the_pods_of_a_dump_are_placed_anew() -> None:
    document = _document(CLUSTER, "--policy", "spread,pack")
    assert [
        (policy["vms"], policy["started"], policy["waiting"], policy["largestVM"]["end"])
        for policy in document["policies"]
    ] == [
        (5, 4, 1, 1),
        (5, 4, 1, 2),
    ]


def test_what_changes_do_one_after_the_other() -> None:
    changes = ["drain node-3", "device gpu.example.com/node-1/gpu-0 gone", "delete virt-launcher-emil", f"add {VM} x 2"]
    result = _run(CLUSTER, *[word for change in changes for word in ("--what-if", change)])
    assert result.exit_code == 2
    assert (
        result.stderr
        == "error: delete virt-launcher-emil: there is no such pod; did you mean cad/virt-launcher-emil?\n"
    )
    changes[2] = "delete cad/virt-launcher-emil"
    result = _run(CLUSTER, *[word for change in changes for word in ("--what-if", change)])
    assert result.exit_code == 0
    assert result.stdout.replace(VM, "vm.yaml") == (
        "now: 4 pods running, 1 waiting, 66.7% of the devices in use\n"
        "drain node-3:\n"
        "  2 pods evicted: cad/virt-launcher-cleo, cad/virt-launcher-dora\n"
        "  2 pods of them elsewhere: cad/virt-launcher-cleo on node-1, cad/virt-launcher-dora on node-2\n"
        "  then 1 waiting, 66.7% of the devices in use\n"
        "device gpu.example.com/node-1/gpu-0 gone:\n"
        "  1 pod evicted: cad/virt-launcher-anna\n"
        "  1 pod of them nowhere: cad/virt-launcher-anna\n"
        "  cad/virt-launcher-anna: 0/3 nodes are available: "
        "1 node(s) were unschedulable, 2 cannot allocate all claims.\n"
        "  then 2 waiting, 60.0% of the devices in use\n"
        "delete cad/virt-launcher-emil:\n"
        "  nothing changes for any pod\n"
        "  then 1 waiting, 60.0% of the devices in use\n"
        "add vm.yaml x 2:\n"
        "  2 new pods without a place: cad/desktop-1, cad/desktop-2\n"
        "  cad/desktop-1: 0/3 nodes are available: 1 node(s) were unschedulable, 2 cannot allocate all claims.\n"
        "  then 3 waiting, 60.0% of the devices in use\n"
    )


def test_added_vms_fill_what_is_free() -> None:
    document = _document(
        CLUSTER, "--policy", "pack", "--what-if", f"add {VM} x3", "--what-if", "driver gpu.example.com gone"
    )
    added, gone = document["changes"]
    assert added["started"] == [{"pod": "cad/desktop-1", "node": "node-1"}, {"pod": "cad/desktop-2", "node": "node-2"}]
    assert (added["refused"], added["used"]) == (["cad/desktop-3"], 1.0)
    assert (len(gone["evicted"]), gone["moved"], gone["waiting"], gone["used"]) == (6, [], 8, 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Error: name a description or a dump (or use --trace-nodes and --trace-pods)"),
        ((FLEET, "--policy", "pakc"), "Error: Invalid value for '--policy': there is no "
"policy 'pakc'; did you mean pack?"),
        ((FLEET, "--until", "-3h"), "Error: Invalid value for '--until': must not be negative, is -3h"),
        ((FLEET, "--inflate", "1.3"), "Error: --inflate goes with --trace-nodes and --trace-pods"),
        (("--trace-nodes", "n.csv"), "Error: --trace-nodes and --trace-pods go together"),
        (("--trace-nodes", "n", "--trace-pods", "p", "--inflate", "full"),
         "Error: Invalid value for '--inflate': 'full' is neither until-full nor a load of more than 0 and at most 10, "
         "such as 1.3 or 130%"),
        (("--trace-nodes", "/none.csv", "--trace-pods", "/none.csv"), "error: /none.csv: no such file or folder"),
        (("/none.yaml",), "error: /none.yaml: no such file or folder"),
        ((VM,), f"error: {VM}: no Node; a dump is what kubectl get nodes,pods,… -A -o "
"yaml writes, a description has kind: Simulation"),
        ((FLEET, "--plot", "x.gif"), "Error: Invalid value for '--plot': 'x.gif' ends with neither .svg nor .png"),
        ((CLUSTER, "--what-if", "drain node-9"), "error: there is no node node-9; did you mean node-3?"),
        ((CLUSTER, "--what-if", "driver gpu.example.con gone"),
         "error: 'driver gpu.example.con gone': no such devices; did you mean gpu.example.com?"),
        ((CLUSTER, "--what-if", f"add {VM} x 0"), f"error: 'add {VM} x 0': adds 1 to 100000 VMs or nodes"),
        ((CLUSTER, "--what-if", f"add {CLUSTER}"),
         f"error: {CLUSTER}: has 3 Nodes; one is copied, with the ResourceSlices of its devices"),
        ((CLUSTER, "--what-if", "drain node-1", "-o", "html"), "Error: --what-if does not go with -o html"),
        ((CLUSTER, "--what-if", "drain node-1", "--until", "3h"), "Error: --what-if goes with --policy, "
"--seed and -o only"),
        ((FLEET, "--what-if", "drain gpu-1"), f"error: {FLEET}: is a description; --what-if needs a dump of a cluster"),
    ],
)  # fmt: skip
def test_bad_input_ends_with_two_and_says_what_to_do(arguments: tuple[str, ...], message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == message


def test_a_description_with_faults_names_each(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "kind: Simulation\ncluster: {nodes: [{cout: 2}]}\nvms: [{name: one, cpu: lots}]\n", encoding="utf-8"
    )
    result = _run(str(file))
    assert (result.exit_code, result.stderr) == (
        2,
        f'error: {file}: cluster.nodes[0].cout: unknown field; did you mean "count"?\n'
        f"error: {file}: vms[0].cpu: 'lots' is no amount; write such as 8, 500m or 64Gi\n",
    )


def test_an_arrivals_file_and_a_cluster_beside_the_description(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(Path(CLUSTER).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "a.csv").write_text("at,vm\n1m,one\n2m,one\n", encoding="utf-8")
    (tmp_path / "x.yaml").write_text(
        "kind: Simulation\ncluster: {files: [cluster.yaml]}\narrivals: a.csv\n"
        "vms: [{name: one, devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}]\n",
        encoding="utf-8",
    )
    document = _document(str(tmp_path / "x.yaml"), "--policy", "first-fit")
    assert (document["policies"][0]["started"], document["policies"][0]["used"]["end"]) == (2, 1.0)


def test_an_interrupt_prints_what_is_known(mocker: MockerFixture) -> None:
    @contextmanager
    def interrupted(doing: str) -> Iterator[Callable[[int, int], None]]:
        def report(done: int, total: int) -> NoReturn:
            raise KeyboardInterrupt

        yield report if doing == "spread" else lambda done, total: None

    mocker.patch("virt_dra.cli.simulate.command.progress", interrupted)
    result = _run(FLEET, "--policy", "pack,spread,random", "-o", "json")
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")
    assert [
        (policy["policy"], policy["complete"], policy["vms"]) for policy in json.loads(result.stdout)["policies"]
    ] == [
        ("pack", True, 478),
        ("spread", False, 202),
    ]
    table = _run(FLEET, "--policy", "spread")
    assert table.exit_code == 130
    assert table.stdout.splitlines()[0] == "40 nodes, 320 devices, 202 arrivals, seed 1"
    assert table.stdout.splitlines()[2].startswith("spread (interrupted) ")


@pytest.mark.slow
def test_several_seeds_are_shown_as_ranges_and_summed_up_in_a_sentence(tmp_path: Path) -> None:
    result = _run(FLEET, "--policy", "pack,spread", "--seeds", "1..3", "--until", "12h")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    document = _document(FLEET, "--policy", "pack,spread", "--seeds", "1,2,3", "--until", "12h")
    assert (document["input"], document["seeds"], document["nodes"]) == ("fleet.yaml", [1, 2, 3], 40)
    arrivals = [policy["vms"] for policy in document["policies"]]
    assert lines[0] == f"40 nodes, 320 devices, {min(arrivals)}–{max(arrivals)} arrivals, seeds 1 to 3"
    assert [(policy["policy"], policy["seed"]) for policy in document["policies"]] == [
        (policy, seed) for policy in ("pack", "spread") for seed in (1, 2, 3)
    ]
    waiting = [
        [policy["waiting"] for policy in document["policies"] if policy["policy"] == name]
        for name in ("pack", "spread")
    ]
    ranges = [str(min(of)) if min(of) == max(of) else f"{min(of)}–{max(of)}" for of in waiting]
    assert [line.split()[2] for line in lines[2:4]] == ranges
    better = sum(a < b for a, b in zip(*waiting, strict=True))
    assert document["conclusion"].endswith(
        f"of {min(arrivals)}–{max(arrivals)} VMs wait at the end than with spread, in {better} of 3 seeds."
    )
    assert lines[-1] == document["conclusion"]
    for seed in (1, 2, 3):
        alone = _document(FLEET, "--policy", "pack", "--seed", str(seed), "--until", "12h")["policies"][0]
        assert {**alone, "seed": seed, "size": None} in document["policies"]


@pytest.mark.slow
def test_a_full_cluster_is_summed_up_in_what_is_placed(tmp_path: Path) -> None:
    nodes, tasks = write_trace(tmp_path, 1, count=400, scale=0.03)
    trace = ("--trace-nodes", str(nodes), "--trace-pods", str(tasks), "--inflate", "1.2")
    document = _document(*trace, "--policy", "least-fragmentation,random", "--seeds", "1,2")
    by_policy = [[of["unallocated"] for of in document["policies"] if of["policy"] == name]
                 for name in ("least-fragmentation", "random")]  # fmt: skip
    more = (sum(by_policy[1]) - sum(by_policy[0])) / 2
    assert more >= 10
    cards = document["policies"][0]["cards"]
    assert document["conclusion"] == (
        f"Least-fragmentation places {more:.0f} more of {cards} GPUs than random, in 2 of 2 seeds."
    )


@pytest.mark.slow
def test_the_fewest_nodes_that_reach_a_target() -> None:
    arguments = (FLEET, "--policy", "pack,spread", "--until", "12h", "--seeds", "1,2", "--size", "gpu=36..42")
    result = _run(*arguments, "--target", "waiting < 1")
    assert (result.exit_code, result.stderr) == (0, "")
    document = _document(*arguments, "--target", "waiting < 1")
    assert (document["part"], document["target"]) == ("gpu", "waiting < 1")
    for line, answer in zip(result.stdout.splitlines(), document["answers"], strict=True):
        fewest = answer["fewest"]
        shown = f"{fewest} nodes of gpu are the fewest" if fewest else "waiting < 1 isn't reached with 42 nodes of gpu"
        assert line.startswith(f"{answer['policy']}: {shown}")
        sizes = _document(*arguments[:-2], "--policy", answer["policy"], "--size", f"gpu={fewest or 42}")
        of_policy = [policy for policy in sizes["policies"] if policy["policy"] == answer["policy"]]
        assert all(row["waiting"] < 1 for row in of_policy) is bool(fewest)


def _node_file(folder: Path) -> Path:
    """Of a node with one GPU."""
    node = folder / "node.yaml"
    node.write_text(
        "{apiVersion: v1, kind: Node, metadata: {name: new}, status: {allocatable: {cpu: '32', memory: 128Gi, "
        "pods: '110'}}}\n---\n"
        "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: new}, spec: {driver: gpu.example.com, "
        "nodeName: new, pool: {name: new, generation: 1, resourceSliceCount: 1}, "
        "devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]}}\n",
        encoding="utf-8",
    )
    return node


def test_added_nodes_take_what_waits(tmp_path: Path) -> None:
    node = _node_file(tmp_path)
    document = _document(
        CLUSTER, "--what-if", "drain node-3", "--what-if", f"add {VM} x 2", "--what-if", f"add {node} x 3"
    )
    drained, added, grown = document["changes"]
    assert (len(drained["evicted"]), added["refused"], added["waiting"]) == (2, ["cad/desktop-1", "cad/desktop-2"], 3)
    assert (grown["started"], grown["waiting"]) == (
        [{"pod": "cad/desktop-1", "node": "new-1"}, {"pod": "cad/desktop-2", "node": "new-2"}],
        1,
    )
    assert grown["used"] == pytest.approx(6 / 9)


@pytest.mark.slow
def test_every_size_has_a_row(tmp_path: Path) -> None:
    sized = (FLEET, "--policy", "pack,spread", "--until", "9h", "--size", "gpu=20,40,22")
    lines = _run(*sized).stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:8]] == [
        ["gpu", "POLICY"],
        *([str(size), policy] for size in (20, 22, 40) for policy in ("pack", "spread")),
    ]
    document = _document(*sized)
    waiting = {(of["policy"], of["size"]): of["waiting"] for of in document["policies"]}
    arrivals = document["policies"][0]["vms"]
    assert lines[0] == f"160–320 devices, {arrivals} arrivals, seed 1"
    cells = [f"{waiting[policy, 20]} and {waiting[policy, 40]}" for policy in ("pack", "spread")]
    assert lines[-1] == document["conclusion"]
    assert document["conclusion"] == (
        f"With 20 and 40 gpu {cells[0]} of {arrivals} VMs wait at the end with pack, {cells[1]} with spread."
    )
    node = _node_file(tmp_path)
    document = _document(CLUSTER, "--policy", "pack", "--size", f"{node}=0..2")
    assert [(of["size"], of["cards"]) for of in document["policies"]] == [(0, 6), (1, 7), (2, 8)]


def test_nothing_is_unknown_of_nodes_that_are_added_to_a_description(tmp_path: Path) -> None:
    result = _run(FLEET, "--policy", "pack", "--until", "1h", "--size", f"{_node_file(tmp_path)}=0..2")
    assert (result.exit_code, result.stderr) == (0, "")


def test_files_of_a_description_are_read_as_a_cluster_has_them(tmp_path: Path) -> None:
    """Without the objects that an API server would refuse, which are named."""
    node = _node_file(tmp_path)
    node.write_text(node.read_text(encoding="utf-8").replace("name: gpu-0", "name: GPU_0"), encoding="utf-8")
    (tmp_path / "x.yaml").write_text(
        f"kind: Simulation\ncluster: {{files: [{node.name}], nodes: [{{name: own}}]}}\n"
        "vms: [{name: one, arrivals: {count: 2}}]\n",
        encoding="utf-8",
    )
    result = _run(str(tmp_path / "x.yaml"), "--policy", "pack")
    assert result.exit_code == 0
    assert result.stdout.startswith("2 nodes, 0 devices, 2 arrivals, seed 0\n")
    refused = [line for line in result.stderr.splitlines() if line.startswith("refused by the API server: ")]
    assert [line.partition(": spec.devices[0].name: ")[0] for line in refused] == [
        f"refused by the API server: {node}:3 (document 2): ResourceSlice new"
    ]


def test_placements_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'p' * 300}.csv"
    result = _run(FLEET, "--policy", "pack", "--until", "1h", "--placements", str(path))
    assert (result.exit_code, result.stderr) == (2, f"error: {path}: File name too long\n")


def test_placements_are_written(tmp_path: Path) -> None:
    for name in ("p.csv", "p.jsonl"):
        assert (
            _run(FLEET, "--policy", "pack,spread", "--until", "2h", "--placements", str(tmp_path / name)).exit_code == 0
        )
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "p.csv").read_text(encoding="utf-8"))))
    assert [(row["policy"], row["vm"], row["node"], row["devices"].split()) for row in rows] == [
        (line["policy"], line["vm"], line["node"], line["devices"]) for line in lines
    ]
    assert [*rows[0]] == [name for name in lines[0] if name not in HEAD]
    assert {line["policy"] for line in lines} == {"pack", "spread"}
    ended = [line for line in lines if line["ended"] is not None]
    assert ended
    assert all(line["arrived"] <= line["started"] <= line["ended"] for line in ended)
    held: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in lines:
        for device in line["devices"]:
            held.setdefault((line["policy"], device), []).append((line["started"], line["ended"] or 7200.0))
    for stays in held.values():
        stays.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(stays))


def test_a_page_needs_no_matplotlib_and_has_the_data_of_its_charts(mocker: MockerFixture) -> None:
    mocker.patch.dict("sys.modules", {"matplotlib": None, "numpy": None, "virt_dra.cli.simulate.plots": None})
    result = _run(FLEET, "--policy", "pack,spread", "--until", "3h", "-o", "html")
    assert result.exit_code == 0
    data = page_data(result.stdout, "charts-data")
    assert data["across"] == "hours"
    assert [[line["label"] for line in plot["lines"]] for plot in data["plots"]] == [["pack", "spread"]] * 4
    unused = data["plots"][0]
    assert (unused["x"][0], unused["x"][-1], unused["fromZero"]) == (0, 3, True)
    document = _document(FLEET, "--policy", "pack,spread", "--until", "3h")
    assert [line["mean"][-1] for line in unused["lines"]] == [
        pytest.approx(policy["unallocated"], abs=0.01) for policy in document["policies"]
    ]


@pytest.mark.slow
def test_the_page_says_what_was_simulated_and_what_came_out() -> None:
    page = _run(FLEET, "--policy", "pack,spread", "--seeds", "1,2", "--until", "3h", "-o", "html").stdout
    conclusion = _document(FLEET, "--policy", "pack,spread", "--seeds", "1,2", "--until", "3h")["conclusion"]
    assert "<h1>fleet.yaml: 40 nodes, 320 devices, seeds 1, 2</h1>" in page
    assert f'<p class="conclusion">{conclusion}</p>' in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "1..x"), "Invalid value for '--seeds': "
         "'1..x' is no seed; write whole numbers such as 7, 1,2,5 or 1..5"),
        (("--seeds", "5..1"), "Invalid value for '--seeds': "
         "'5..1': must be 1 to 1000 seeds of at most 2^63, the smallest first"),
        (("--target", "used > 1"), "--target needs --size, which says what is varied"),
        *((("--size", "gpu=1..2", "--target", "used>1", option, value),
           "--target goes with -o text, json or yaml, and neither --plot nor --placements")
          for option, value in (("-o", "csv"), ("--plot", "x.svg"), ("--placements", "x.csv"))),
        (("--size", "gpu=0..900"), "--size: more than 200 sizes are searched, with --target, not shown"),
        (("--by", "colour"), "Invalid value for '--by': 'colour' is neither kind nor model"),
        (("--whole-per-cent", "--policy", "pack"), "--whole-per-cent goes with the policies "
         "least-fragmentation, random, dot-product, clustering, best-fit, gpu-packing; pack doesn't rate"),
        (("--placements", "x.txt"), "Invalid value for '--placements': 'x.txt' ends with neither .csv nor .jsonl"),
        (("--placements", "/none/x.csv"), "Invalid value for '--placements': there is no folder /none"),
        (("--plot", "/none/x.svg"), "Invalid value for '--plot': there is no folder /none"),
        (("--dask", "host"), "Invalid value for '--dask': 'host' is no address of a Dask scheduler; write such as "
         "tcp://host:8786"),
    ],
)  # fmt: skip
def test_options_of_sweeps_are_checked_first(arguments: tuple[str, ...], message: str) -> None:
    result = _run(FLEET, *arguments)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {message}")


def test_a_size_of_what_is_not_there_and_a_warm_up_that_is_too_long() -> None:
    assert _run(FLEET, "--size", "gpus=1..2").stderr.splitlines()[-1] == (
        f"error: {FLEET}: cluster.nodes: there is no part gpus; did you mean gpu?"
    )
    assert _run(FLEET, "--until", "1h", "--warm-up", "2h").stderr == "error: it ends before the warm-up of 2h does\n"


def test_a_dask_scheduler_that_is_not_there(mocker: MockerFixture) -> None:
    mocker.patch("virt_dra.simulator.sweeping.on_dask._CONNECTING", 0.5)
    result = _run(FLEET, "--dask", "tcp://127.0.0.1:9")
    assert result.exit_code == 2
    assert "error: tcp://127.0.0.1:9: no Dask scheduler answers: " in result.stderr


def test_the_pods_of_a_dump_are_the_beginning_of_a_workload(tmp_path: Path) -> None:
    """Four pods have four of six GPUs for an hour; a fifth waits for more GPUs than a node has; VMs of one GPU come."""
    (tmp_path / "cluster.yaml").write_text(Path(CLUSTER).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "x.yaml").write_text(
        "kind: Simulation\nuntil: 2h\ncluster: {files: [cluster.yaml], pods: {lifetime: 1h}}\n"
        "vms: [{name: one, arrivals: {count: 5}, "
        "devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}]\n"
        "events: [{at: 30m, drain: [node-3], for: 2h}]\n",
        encoding="utf-8",
    )
    file = tmp_path / "stays.jsonl"
    policy = _document(str(tmp_path / "x.yaml"), "--policy", "first-fit", "--placements", str(file))["policies"][0]
    stays = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [fault for stay in stays for fault in faults(stay, schema_named("placements-line"))] == []
    before = [(stay["vm"], stay["node"]) for stay in stays if stay["vm"].startswith("cad/") and stay["started"] == 0]
    assert sorted(before) == [
        ("cad/virt-launcher-anna", "node-1"),
        ("cad/virt-launcher-ben", "node-2"),
        ("cad/virt-launcher-cleo", "node-3"),
        ("cad/virt-launcher-dora", "node-3"),
    ]
    assert [stay["started"] for stay in stays if stay["vmKind"] == "one"][:2] == [0.0, 0.0]
    assert {stay["ended"] for stay in stays if stay["node"] == "node-3"} == {1800.0}
    assert [stay["ended"] for stay in stays if stay["vm"] == "cad/virt-launcher-anna"] == [3600.0]
    assert policy["evictions"] == 2
