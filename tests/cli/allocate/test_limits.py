"""``virt-dra allocate --timeout``: an allocation that isn't decided in time says so, with how far it came;
``--feature-gates``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.allocate import lines as allocate_lines
from virt_dra.cli.main import cli
from virt_dra.simulator.deadline import AllocationDeadline

pytestmark = pytest.mark.slow

Json = dict[str, Any]
SLOW = 'device.attributes["gpu.example.com"].i >= 0 && lists.range(1000).all(x, lists.range(100).all(y, x + y >= 0))'
"""Takes longer than the limit for one device; between two of them the clock is looked at."""
API = "resource.k8s.io/v1"


def _slice(node: str, *devices: Json) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}


def _claim(name: str, *selectors: str, **more: Any) -> Json:
    first = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **more}
    asked = [{"name": "easy", "exactly": {**first}}]
    if selectors:
        asked.append(
            {
                "name": "slow",
                "exactly": {**first, "selectors": [{"cel": {"expression": selector}} for selector in selectors]},
            }
        )
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": asked}},
    }


CLASS: Json = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "gpu"}}
NODES = [
    _slice(name, *({"name": f"gpu-{i}", "attributes": {"i": {"int": i}}} for i in range(4)))
    for name in ("node-a", "node-b")
]
PROGRESS = "timed out after 0.05 s; it was still evaluating selectors"


def _run(*arguments: str, stdin: str | list[Json]) -> Result:
    text = stdin if isinstance(stdin, str) else yaml.safe_dump_all(stdin)
    result = CliRunner().invoke(cli, ["allocate", *arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_node_that_is_not_decided_in_time_is_passed_and_told() -> None:
    result = _run("-f", "-", "--timeout", "0.05", stdin=[CLASS, *NODES, _claim("slow", SLOW), _claim("easy")])
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "CLAIM          NODE     REQUEST   DEVICE                         DETAILS",
        f"default/slow   -        -         -                              0/2 nodes are available: 2 {PROGRESS}.",
        "default/easy   node-a   easy      gpu.example.com/node-a/gpu-0",
    ]


def test_a_timeout_is_a_verdict_of_its_own_in_documents() -> None:
    result = _run("-f", "-", "--timeout", "0.05", "-v", "-o", "json", stdin=[CLASS, *NODES, _claim("slow", SLOW)])
    assert result.exit_code == 1
    (answer,) = json.loads(result.stdout)["answers"]
    told = {"verdict": "timed out", "summary": PROGRESS, "results": None, "explanation": None}
    assert answer["nodes"] == [{"node": "node-a", **told}, {"node": "node-b", **told}]
    assert answer["allocated"] is False


@pytest.mark.parametrize("arguments", [(), ("--timeout", "0"), ("--timeout", "60"), ("--timeout", "inf")])
def test_there_is_time_enough_by_default_and_for_ever_with_zero(arguments: tuple[str, ...]) -> None:
    easier = SLOW.replace("1000", "10")
    assert _run("-f", "-", *arguments, stdin=[CLASS, *NODES, _claim("slow", easier)]).exit_code == 0


@pytest.mark.parametrize("value", ["-1", "nan", "soon"])
def test_what_is_no_time_is_refused(value: str) -> None:
    result = _run("-f", "-", "--timeout", value, stdin=[CLASS])
    assert result.exit_code == 2
    assert "Invalid value for '--timeout'" in result.stderr


def test_a_problem_of_jsonl_that_takes_too_long_is_answered_and_the_next_one_too() -> None:
    problem = {"node": {"metadata": {"name": "node-a"}}, "classes": [CLASS], "slices": NODES}
    lines = [{"id": 1, **problem, "claims": [_claim("slow", SLOW)]}, {"id": 2, **problem, "claims": [_claim("easy")]}]
    result = _run("--jsonl", "--timeout", "0.05", stdin="".join(json.dumps(line) + "\n" for line in lines))
    slow, easy = map(json.loads, result.stdout.splitlines())
    assert (result.exit_code, slow["results"], slow["node_error"]) == (0, None, False)
    assert slow["error"] == ("filter operation aborted: context deadline exceeded; it was still evaluating selectors")
    assert (easy["error"], len(easy["results"])) == (None, 1)


def test_a_pod_of_a_workload_that_takes_too_long_is_an_error_that_is_told(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    variants = [[_claim("slow", SLOW)], [_claim("easy")]]
    nodes = [{"metadata": {"name": "node-a"}}]
    path.write_text(
        json.dumps({"nodes": nodes, "classes": [CLASS], "slices": NODES, "pod_variants": variants, "pods": 2})
    )
    result = _run("--workload", str(path), "--timeout", "0.05", stdin="")
    figures = json.loads(result.stdout)
    assert (result.exit_code, figures["scheduled"], figures["unschedulable"], figures["errors"]) == (0, 1, 0, 1)
    assert figures["first_error"].startswith(
        "filter operation aborted: context deadline exceeded; it was still evaluating selectors"
    )


def test_a_search_that_takes_too_long_says_which_request_it_reached() -> None:
    """The clock jumps when the search looks at it, which it does every 500 steps."""
    looked: list[float] = []

    def clock() -> float:
        looked.append(len(looked))
        return 1e9 if len(looked) > 1 else 0.0

    devices = [{"name": f"gpu-{i}"} for i in range(100)]
    claim = _claim("deep")
    exact = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    claim["spec"]["devices"] = {"requests": [{"name": f"r{i}", "exactly": exact} for i in range(32)]}
    problem = {
        "node": {"metadata": {"name": "node-a"}},
        "classes": [CLASS],
        "slices": [_slice("node-a", *devices)],
        "claims": [claim],
    }
    error = allocate_lines.answer(problem, AllocationDeadline(1, clock))["error"]
    aborted = "filter operation aborted: context deadline exceeded; it got as far as claim default/deep, request "
    told = re.fullmatch(re.escape(aborted) + r"r(\d+) \((\d+) of 32 requests\)", error)
    assert told is not None, error
    assert int(told[2]) == int(told[1]) + 1 > 16


def test_a_deadline_begins_anew_with_every_allocation() -> None:
    now = 0.0
    deadline = AllocationDeadline(2, lambda: now)
    assert not deadline()
    deadline.start()
    now = 1.9
    assert not deadline()
    now = 2.0
    assert deadline()
    deadline.start()
    assert not deadline()


# --- gates --------------------------------------------------------------------------------------------------------

LIST = {"name": "gpu-0", "attributes": {"numa": {"ints": [0, 1]}}}
TAINTED = {"name": "gpu-0", "taints": [{"key": "example.com/broken", "effect": "NoSchedule"}]}
NAMED_LIST = _claim("c", selectors=[{"cel": {"expression": 'device.attributes["gpu.example.com"].numa.includes(1)'}}])
RULE: Json = {
    "apiVersion": API,
    "kind": "DeviceTaintRule",
    "metadata": {"name": "rule"},
    "spec": {"deviceSelector": {"pool": "node-a"}, "taint": {"key": "example.com/x", "effect": "NoExecute"}},
}


@pytest.mark.parametrize(
    ("arguments", "objects", "allocated"),
    [
        ((), [_slice("node-a", TAINTED), _claim("c")], False),
        (
            ("--feature-gates", "DRADeviceTaints=false,DRADeviceTaintRules=false"),
            [_slice("node-a", TAINTED), _claim("c")],
            True,
        ),
        ((), [NODES[0], RULE, _claim("c")], False),
        (("--feature-gates", "DRADeviceTaintRules=false"), [NODES[0], RULE, _claim("c")], True),
        (
            ("--feature-gates", " DRADeviceTaintRules = 0 ", "--feature-gates", "DRAListTypeAttributes=T"),
            [NODES[0], RULE, _claim("c")],
            True,
        ),
        (("--feature-gates", "DRAListTypeAttributes=true"), [_slice("node-a", LIST), NAMED_LIST], True),
    ],
)
def test_gates_decide_what_the_allocator_minds(
    arguments: tuple[str, ...], objects: list[Json], allocated: bool
) -> None:
    result = _run("-f", "-", "-o", "json", *arguments, stdin=[CLASS, *objects])
    assert json.loads(result.stdout).get("allocated") is allocated, result.stdout


@pytest.mark.parametrize(
    ("gates", "told"),
    [
        (
            "DRADeviceTaint=false",
            "unrecognized feature gate: DRADeviceTaint; did you mean DRADeviceTaints or DRADeviceTaintRules?",
        ),
        ("admin_access=false", "unrecognized feature gate: admin_access; did you mean DRAAdminAccess?"),
        ("Foo=true", "unrecognized feature gate: Foo; known are DRAAdminAccess, DRAPrioritizedList, "),
        ("DRADeviceTaints", "missing bool value for DRADeviceTaints"),
        ("DRADeviceTaints=off", "invalid value of DRADeviceTaints=off: write true or false"),
        ("DRAAdminAccess=false", "cannot set feature gate DRAAdminAccess to false, feature is locked to true"),
        (
            "DRADeviceTaints=false",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
    ],
)
def test_gates_that_no_component_would_start_with_are_refused(gates: str, told: str) -> None:
    result = _run("-f", "-", "--feature-gates", gates, stdin=[CLASS])
    assert result.exit_code == 2
    assert f"Error: Invalid value for '--feature-gates': {told}" in result.stderr


def test_an_object_that_needs_a_gate_is_refused_with_the_gate() -> None:
    result = _run("-f", "-", stdin=[CLASS, _slice("node-a", LIST), NAMED_LIST])
    assert result.exit_code == 2
    assert result.stderr.endswith(" (--feature-gates DRAListTypeAttributes=true accepts it)\n")
    broken = _run("-f", "-", stdin=[CLASS, _slice("node-a", LIST), _claim("c", count=-1)])
    assert "--feature-gates" not in broken.stderr


@pytest.mark.parametrize(("features", "refused"), [(None, False), ({"ListTypeAttributes": True}, False), ({}, True)])
def test_jsonl_validates_as_a_cluster_with_the_features_would(features: Json | None, refused: bool) -> None:
    problem = {
        "node": {"metadata": {"name": "node-a"}},
        "classes": [CLASS],
        "slices": [_slice("node-a", LIST)],
        "claims": [NAMED_LIST],
    }
    answer = allocate_lines.answer(
        {**problem, "validate": True, **({} if features is None else {"features": features})}
    )
    assert ("undeclared reference to 'includes'" in (answer["error"] or "")) is refused
    assert (answer["results"] is None) is refused


@pytest.mark.parametrize("mode", [("--jsonl",), ("--workload", "w.json")])
def test_gates_go_with_files_only_as_the_other_modes_have_features_in_their_input(mode: tuple[str, ...]) -> None:
    result = _run(*mode, "--feature-gates", "DRADeviceTaintRules=false", stdin="")
    assert result.exit_code == 2
    assert f"--feature-gates does not go with {mode[0]}" in result.stderr
