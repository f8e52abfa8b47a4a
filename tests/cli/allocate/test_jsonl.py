"""``virt-dra allocate --jsonl``: the reference's answers, and no line that ends the run."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.jsonl.answers import members_of
from tests.sampling import sample
from virt_dra.allocator import Allocated, Allocator
from virt_dra.api.core_v1 import Node
from virt_dra.cli.main import cli

Json = dict[str, Any]
DRIVER = "nic.example.com"


def _problem(**changes: Any) -> Json:
    """Two cards that are shared by bandwidth, one GPU-like exclusive device, and a claim for 40G of a card."""
    cards = [
        {
            "name": f"nic-{i}",
            "allowMultipleAllocations": True,
            "capacity": {"bandwidth": {"value": "100G"}},
            "attributes": {"i": {"int": i}},
        }
        for i in range(2)
    ]
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [*cards, {"name": "whole"}],
    }
    exactly = {
        "deviceClassName": "nic",
        "allocationMode": "ExactCount",
        "count": 1,
        "capacity": {"requests": {"bandwidth": "40G"}},
    }
    problem = {
        "id": 1,
        "node": {"metadata": {"name": "n1"}},
        "classes": [
            {
                "metadata": {"name": "nic"},
                "spec": {"selectors": [{"cel": {"expression": "device.allowMultipleAllocations"}}]},
            }
        ],
        "slices": [{"metadata": {"name": "s1"}, "spec": spec}],
        "claims": [_claim("c", exactly)],
    }
    return {**problem, **changes}


def _claim(name: str, *requests: Json) -> Json:
    entries = [{"name": f"r{i}", "exactly": request} for i, request in enumerate(requests)]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": {"requests": entries}}}


def _ask(*problems: Json | str | bytes) -> list[Json]:
    lines = [
        p if isinstance(p, bytes) else p.encode() if isinstance(p, str) else json.dumps(p).encode() for p in problems
    ]
    result = CliRunner().invoke(cli, ["allocate", "--jsonl"], input=b"\n".join(lines) + b"\n")
    assert result.exit_code == 0, result.output
    return [members_of(line, "AllocationAnswer") for line in result.stdout.splitlines()]


def _answer(problem: Json) -> Json:
    """The only answer, without its times."""
    (answer,) = _ask(problem)
    assert isinstance(answer.pop("elapsed_us"), float)
    return answer


def _devices(answer: Json) -> list[list[str]]:
    assert answer["error"] is None, answer
    return [[device["device"] for device in result["devices"]["results"]] for result in answer["results"]]


def test_an_answer_has_the_results_with_shares_by_order() -> None:
    exactly = _problem()["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]
    claims = [_claim("a", exactly, exactly), _claim("b", exactly)]
    answer = _answer(_problem(claims=claims))
    shared = {"driver": DRIVER, "pool": "n1", "consumedCapacity": {"bandwidth": "40G"}}
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
    assert answer == {
        "id": 1,
        "results": [
            {
                "devices": {
                    "results": [
                        {**shared, "request": "r0", "device": "nic-0", "shareID": "share-1"},
                        {**shared, "request": "r1", "device": "nic-0", "shareID": "share-2"},
                    ]
                },
                "nodeSelector": selector,
            },
            {
                "devices": {"results": [{**shared, "request": "r0", "device": "nic-1", "shareID": "share-3"}]},
                "nodeSelector": selector,
            },
        ],
        "error": None,
        "node_error": False,
    }


def test_without_a_solution_results_are_null_and_without_claims_empty() -> None:
    nothing = {"id": 1, "results": None, "error": None, "node_error": False}
    assert _answer(_problem(slices=[])) == nothing
    assert _answer(_problem(claims=[])) == {**nothing, "results": []}
    assert _answer(_problem(claims=None, slices=None, classes=None)) == {**nothing, "results": []}


def test_allocated_claims_count_as_used() -> None:
    share = {
        "request": "r",
        "driver": DRIVER,
        "pool": "n1",
        "device": "nic-0",
        "shareID": "x",
        "consumedCapacity": {"bandwidth": "70G"},
    }
    used = {
        "metadata": {"name": "u", "namespace": "default"},
        "status": {"allocation": {"devices": {"results": [share]}}},
    }
    assert _devices(_answer(_problem(allocated=[used]))) == [["nic-1"]]


@pytest.mark.parametrize(
    ("state", "devices"),
    [
        (
            {"capacity": [{"driver": DRIVER, "pool": "n1", "device": "nic-0", "consumed": {"bandwidth": "60G"}}]},
            [["nic-0"]],
        ),
        (
            {
                "capacity": [
                    {"driver": DRIVER, "pool": "n1", "device": "nic-0", "consumed": {"bandwidth": 61_000_000_000}}
                ]
            },
            [["nic-1"]],
        ),
        ({"devices": [{"driver": DRIVER, "pool": "n1", "device": "nic-0"}]}, [["nic-1"]]),
        ({"shared": [{"driver": DRIVER, "pool": "n1", "device": "nic-0", "shareID": "x"}]}, [["nic-0"]]),
        ({"devices": None, "shared": [], "capacity": []}, [["nic-0"]]),
    ],
)
def test_allocated_state_adds_what_no_claim_produces(state: Json, devices: list[list[str]]) -> None:
    assert _devices(_answer(_problem(allocated_state=state))) == devices


def test_a_missing_feature_is_off_and_without_the_object_all_are_on() -> None:
    off = "claim default/c, request r0: has capacity requests, but the DRAConsumableCapacity feature is disabled"
    assert _answer(_problem(features={}))["error"] == off
    assert _answer(_problem(features={"ConsumableCapacity": None}))["error"] == off
    assert _devices(_answer(_problem(features={"ConsumableCapacity": True}))) == [["nic-0"]]
    assert _devices(_answer(_problem(features=None))) == [["nic-0"]]


def test_an_error_of_the_node_is_told_from_one_that_ends_the_attempt() -> None:
    doubled = copy.deepcopy(_problem())
    doubled["slices"][0]["spec"]["devices"].append({"name": "whole"})
    assert _answer(doubled) == {
        "id": 1,
        "results": None,
        "error": "invalid resource pools were encountered",
        "node_error": True,
    }
    fatal = _answer(_problem(classes=[]))
    assert (fatal["error"], fatal["node_error"]) == (
        'claim default/c, request r0: could not retrieve device class nic: deviceclass.resource.k8s.io "nic" not found',
        False,
    )


def test_nothing_is_defaulted() -> None:
    request = {"deviceClassName": "nic"}
    assert (
        _answer(_problem(claims=[_claim("c", request)]))["error"]
        == "claim default/c, request r0: unsupported count mode "
    )


def test_older_versions_are_converted() -> None:
    old = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [{"name": "r0", "deviceClassName": "nic", "allocationMode": "ExactCount", "count": 2}]
            }
        },
    }
    assert _devices(_answer(_problem(claims=[old]))) == [["nic-0", "nic-1"]]


def test_the_explanation_is_there_for_those_who_ask() -> None:
    state = {"devices": [{"driver": DRIVER, "pool": "n1", "device": f"nic-{i}"} for i in range(2)]}
    answer = _answer(_problem(allocated_state=state, explain=True))
    assert answer["explanation"]["summary"] == "device in use"
    assert {
        rejection["device"]: rejection["reason"] for rejection in answer["explanation"]["requests"][0]["rejections"]
    } == {
        f"{DRIVER}/n1/nic-0": "DeviceInUse",
        f"{DRIVER}/n1/nic-1": "DeviceInUse",
        f"{DRIVER}/n1/whole": "SelectorMismatch",
    }
    assert _answer(_problem(explain=True))["explanation"] is None


def test_validation_adds_what_the_allocator_does_not_refuse() -> None:
    wrong = copy.deepcopy(_problem(validate=True))
    wrong["claims"][0]["metadata"]["name"] = "Wrong"
    wrong["slices"][0]["spec"]["pool"]["generation"] = -1
    answer = _answer(wrong)
    assert answer["results"] is None
    assert answer["error"].startswith("slices[0].spec.pool.generation: ")
    assert "; claims[0].metadata.name: " in answer["error"]
    assert _devices(_answer(_problem(validate=True))) == [["nic-0"]]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"node": None}, "node: required, an object: the Node to allocate on"),
        ({"node": []}, "node: must be an object, not a list"),
        ({"slices": {}}, "slices: must be a list, not an object"),
        ({"slices": [1]}, "slices[0]: must be an object (ResourceSlice)"),
        ({"claims": [{"kind": "Pod"}]}, "claims[0].kind: must be ResourceClaim, not 'Pod'"),
        ({"claims": [{"apiVersion": "resource.k8s.io/v9"}]}, "claims[0].apiVersion: "),
        ({"features": {"Admin": True}}, "features.Admin: no such feature; there are AdminAccess, "),
        ({"features": {"AdminAccess": "yes"}}, "features.AdminAccess: must be a boolean, not a string"),
        ({"allocated_state": []}, "allocated_state: must be an object, not a list"),
        (
            {"allocated_state": {"device": []}},
            "allocated_state.device: no such list; there are devices, shared and capacity",
        ),
        ({"allocated_state": {"devices": {}}}, "allocated_state.devices: must be a list"),
        ({"allocated_state": {"devices": ["d"]}}, "allocated_state.devices[0]: must be an object"),
        ({"allocated_state": {"shared": [{"shareID": 1}]}}, "allocated_state.shared[0].shareID: must be a string"),
        (
            {"allocated_state": {"capacity": [{"consumed": [1]}]}},
            "allocated_state.capacity[0].consumed: must be an object of quantities",
        ),
        (
            {"allocated_state": {"capacity": [{"consumed": []}]}},
            "allocated_state.capacity[0].consumed: must be an object of quantities",
        ),
        ({"allocated_state": {"capacity": [{"consumed": {"m": "x"}}]}}, "allocated_state.capacity[0].consumed[m]: "),
        ({"explain": 1}, "explain: must be a boolean, not an integer"),
    ],
)
def test_a_request_that_is_wrong_is_answered_with_its_place(changes: Json, error: str) -> None:
    bad, good = _ask(_problem(**changes), _problem(id="next"))
    assert (bad["id"], bad["results"], bad["node_error"], bad["elapsed_us"]) == (1, None, False, 0.0)
    assert bad["error"].startswith(f"line 1: {error}"), bad["error"]
    assert (good["id"], good["error"]) == ("next", None)


def test_objects_of_the_wrong_shape_name_the_field() -> None:
    bad = copy.deepcopy(_problem())
    bad["slices"][0]["spec"]["devices"][1]["capacity"]["bandwidth"]["value"] = "many"
    (answer,) = _ask(bad)
    assert answer["error"].startswith("line 1: slices[0].spec.devices[1].capacity.bandwidth.value: ")


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"id": 1e999}', b'{"id": 1, "node": ' + b"[" * 100_000]
)
def test_what_is_no_request_is_answered_and_the_next_is_read(line: bytes) -> None:
    bad, good = _ask(line, _problem(id=2))
    assert bad["results"] is None
    assert bad["error"].startswith("line 1: ")
    assert (good["id"], good["error"]) == (2, None)


HOSTILE = [
    "(" * 5000 + "true" + ")" * 5000,
    "!" * 10_000 + "true",
    " + ".join(["1"] * 2500) + " > 0",
    'device.driver.matches("(a*)*b")',
    '"' + "a" * 9000 + '".matches("' + "(a+)+" * 100 + 'b")',
    "[" + ",".join(["[1,2,3,4,5,6,7,8,9,10]"] * 20) + "].all(a, a.all(b, a.all(c, a.all(d, b + c + d > 0))))",
    "device.attributes['x'].y == " + "9" * 5000,
    "device." + ".".join(["a"] * 3000),
]


@pytest.mark.parametrize("expression", HOSTILE)
def test_a_hostile_expression_costs_little_and_is_refused_or_answered(expression: str) -> None:
    hostile = copy.deepcopy(_problem())
    hostile["classes"][0]["spec"]["selectors"] = [{"cel": {"expression": expression}}]
    bad, good = _ask(hostile, _problem(id=2))
    assert bad["error"] is None or "nic" in bad["error"], bad["error"]
    assert bad["elapsed_us"] < 2e6
    assert (good["id"], good["error"]) == (2, None)


_anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(max_size=3), children, max_size=2),
    max_leaves=4,
)


@st.composite
def _damaged(draw: st.DrawFn) -> Json:
    """A problem with one of its values, anywhere, replaced by anything."""
    problem: Json = copy.deepcopy(_problem())
    place: Any = problem
    while True:
        key = draw(st.sampled_from(sorted(place))) if isinstance(place, dict) else draw(st.integers(0, len(place) - 1))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.integers(0, 4)) == 0:
            place[key] = draw(_anything)
            return problem
        place = place[key]


@pytest.mark.slow
@settings(max_examples=sample(150), deadline=None)
@given(st.lists(_damaged(), min_size=1, max_size=4))
def test_damaged_problems_are_all_answered(problems: list[Json]) -> None:
    answers = _ask(*problems, _problem(id="last"))
    assert len(answers) == len(problems) + 1
    assert all(answer.keys() == {"id", "results", "error", "node_error", "elapsed_us"} for answer in answers)
    assert _devices(answers[-1]) == [["nic-0"]]


def test_each_line_is_answered_before_the_next_is_read() -> None:
    command = [sys.executable, "-c", "from virt_dra.cli.main import main; main()", "allocate", "--jsonl"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for identity in range(3):
            process.stdin.write(json.dumps(_problem(id=identity)) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert (answer["id"], answer["error"]) == (identity, None)
        process.stdin.close()
        assert process.wait(10) == 0


def test_requests_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(_problem(id="file")) + "\n")
    result = CliRunner().invoke(cli, ["allocate", "--jsonl", str(path)])
    assert json.loads(result.stdout)["id"] == "file"
    missing = CliRunner().invoke(cli, ["allocate", "--jsonl", str(tmp_path / "none")])
    assert (missing.exit_code, missing.stderr) == (2, f"error: {tmp_path}/none: No such file or directory\n")


def test_a_fault_of_ours_is_told_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Allocator, node: Node, *, explain: bool = True) -> Allocated:
        raise KeyError(node.name)

    monkeypatch.setattr(Allocator, "allocate", fail)
    answers = _ask(_problem(), _problem(id=2))
    assert [(a["id"], a["error"]) for a in answers] == [
        (i, "internal error, please report it: KeyError in fail: 'n1'") for i in (1, 2)
    ]
