"""``virt-dra allocate --workload``: which pods go where, in both modes, the digest of it, and what bad input is
told."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.jsonl.answers import members_of
from virt_dra.cli.main import cli

Json = dict[str, Any]


def _workload(nodes: int, devices: int, **more: Any) -> Json:
    """``nodes`` nodes n0, n1, … of ``devices`` devices d0, d1, …; a pod wants one."""
    return {
        "nodes": [{"metadata": {"name": f"n{i}"}} for i in range(nodes)],
        "classes": [{"metadata": {"name": "c"}}],
        "slices": [
            {
                "metadata": {"name": f"s{i}"},
                "spec": {
                    "driver": "d.example.com",
                    "nodeName": f"n{i}",
                    "pool": {"name": f"n{i}", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"d{k}"} for k in range(devices)],
                },
            }
            for i in range(nodes)
        ],
        **({} if "pod_variants" in more else {"claims_per_pod": [_claim(1)]}),
        **more,
    }


def _claim(count: int, class_name: str = "c") -> Json:
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _run(tmp_path: Path, workload: object, *arguments: str) -> Result:
    path = tmp_path / "workload.json"
    path.write_text(workload if isinstance(workload, str) else json.dumps(workload))
    result = CliRunner().invoke(cli, ["allocate", "--workload", str(path), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _figures(tmp_path: Path, workload: Json, *arguments: str) -> Json:
    result = _run(tmp_path, workload, *arguments)
    assert result.exit_code == 0, result.output
    figures: Json = members_of(result.stdout, "WorkloadFigures")
    times = [figures.pop(name) for name in ("pods_per_s", "total_s", "pod_p50_us", "pod_p99_us")]
    assert all(time > 0 for time in times) or figures["scheduled"] == 0
    return figures


def _digest(*placed: str | None) -> str:
    """Of pods given as ``n0/d0`` (or ``n0/d0,d1``), None for one that fits nowhere."""
    lines = []
    for name in placed:
        node, _, devices = (name or "").partition("/")
        lines.append(
            [node, [["r", "d.example.com", node, device] for device in devices.split(",")]] if name else ["", None]
        )
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_digest_is_that_of_the_format() -> None:
    lines = '["n0",[["r","d.example.com","n0","d0"]]]\n["",null]\n'
    assert _digest("n0/d0", None) == hashlib.sha256(lines.encode()).hexdigest()[:16]


def test_one_candidate_starts_at_the_node_chosen_last(tmp_path: Path) -> None:
    variants = [[_claim(2)], [_claim(1)]]
    workload = _workload(3, 2, pod_variants=variants, pod_sequence=[1, 0, 1], pods=6)
    placed = ("n0/d0", "n1/d0,d1", "n2/d0", "n2/d1", None, "n0/d1")
    assert _figures(tmp_path, workload) == {"scheduled": 5, "unschedulable": 1, "errors": 0, "digest": _digest(*placed)}


def test_all_candidates_of_a_small_cluster_start_where_they_began(tmp_path: Path) -> None:
    workload = _workload(3, 2, pods=7)
    placed = ("n0/d0", "n0/d1", "n1/d0", "n1/d1", "n2/d0", "n2/d1", None)
    assert _figures(tmp_path, workload, "--candidates", "auto")["digest"] == _digest(*placed)


def test_many_nodes_give_few_candidates_and_the_next_pod_starts_behind_them(tmp_path: Path) -> None:
    """210 nodes: the number is the larger of 100 and 49 %, 102."""
    workload = _workload(210, 1, pods=4)
    # The second walk takes nodes 102 to 203, the third 204 to 209 and on from 0, where node 0 is full.
    placed = ("n0/d0", "n102/d0", "n204/d0", "n97/d0")
    assert _figures(tmp_path, workload, "--candidates", "auto")["digest"] == _digest(*placed)


def test_init_pods_come_first_and_are_not_measured(tmp_path: Path) -> None:
    workload = _workload(2, 2, init_pods=2, pods=2)
    assert _figures(tmp_path, workload) == {
        "scheduled": 2,
        "unschedulable": 0,
        "errors": 0,
        "digest": _digest("n1/d0", "n1/d1"),
    }


def test_the_oldest_measured_pod_goes_before_the_next_comes(tmp_path: Path) -> None:
    workload = _workload(1, 3, init_pods=1, pods=5, max_alive=2)
    assert _figures(tmp_path, workload)["digest"] == _digest("n0/d1", "n0/d2", "n0/d1", "n0/d2", "n0/d1")


def test_what_is_allocated_at_the_beginning_is_in_use(tmp_path: Path) -> None:
    result = {"request": "r", "driver": "d.example.com", "pool": "n0", "device": "d0"}
    used = {"metadata": {"name": "u", "namespace": "ns"}, "status": {"allocation": {"devices": {"results": [result]}}}}
    assert _figures(tmp_path, _workload(2, 1, allocated=[used], pods=2))["digest"] == _digest("n1/d0", None)


def test_a_pod_with_broken_claims_is_an_error_and_the_next_is_placed(tmp_path: Path) -> None:
    workload = _workload(1, 1, pod_variants=[[_claim(1, "none")], [_claim(1)]], pods=2)
    assert _figures(tmp_path, workload) == {
        "scheduled": 1,
        "unschedulable": 0,
        "errors": 1,
        "first_error": "claim ns/pod-0-t, request r: could not retrieve device class none: "
        'deviceclass.resource.k8s.io "none" not found',
        "digest": _digest(None, "n0/d0"),
    }


def test_features_count(tmp_path: Path) -> None:
    tainted = _workload(1, 1, pods=1, features={"AdminAccess": True})
    tainted["slices"][0]["spec"]["devices"][0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    assert _figures(tmp_path, tainted)["scheduled"] == 1
    assert _figures(tmp_path, {**tainted, "features": {"DeviceTaints": True}})["scheduled"] == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"nodes": []}, "nodes: required, a list of Nodes with at least one"),
        (
            {"claims_per_pod": None},
            "give either claims_per_pod (a list of claims) or pod_variants (a list of such lists)",
        ),
        (
            {"pod_variants": [[]]},
            "give either claims_per_pod (a list of claims) or pod_variants (a list of such lists)",
        ),
        ({"claims_per_pod": None, "pod_variants": []}, "pod_variants: must have at least one variant"),
        ({"claims_per_pod": None, "pod_variants": [1]}, "pod_variants[0]: must be a list of claims"),
        ({"claims_per_pod": None, "pod_variants": [[1]]}, "pod_variants[0][0]: must be an object (ResourceClaim)"),
        ({"pod_sequence": [1]}, "pod_sequence[0]: must be the index of a variant, 0 to 0"),
        ({"pod_sequence": [True]}, "pod_sequence[0]: must be the index of a variant, 0 to 0"),
        ({"pods": -1}, "pods: must not be negative"),
        ({"pods": "5"}, "pods: must be an integer, not a string"),
        ({"slices": [{"spec": 1}]}, "slices[0].spec: "),
    ],
)
def test_bad_workloads_are_refused_with_the_place(tmp_path: Path, changes: Json, error: str) -> None:
    result = _run(tmp_path, {**_workload(1, 1), **changes})
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path}/workload.json: {error}"), result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": ' + "[" * 100_000, '{"pods": NaN}'])
def test_what_is_no_workload_is_refused(tmp_path: Path, text: str) -> None:
    result = _run(tmp_path, text)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path}/workload.json: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["allocate", "--workload", str(tmp_path / "none")])
    assert (result.exit_code, result.stderr) == (2, f"error: {tmp_path}/none: No such file or directory\n")
