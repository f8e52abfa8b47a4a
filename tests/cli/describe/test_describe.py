"""``virt-dra describe``: sections, documents, findings and events; names that aren't there and names that are
hostile."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.conftest import Golden
from virt_dra.cli.describe.sections import section_lines
from virt_dra.cli.main import cli

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "inventory")
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NAMED = {
    "vm": ("desktop", "waiting", "archive", "batch", "farm"),
    "device": ("node-1/gpu-0", "gpu-9", "half", "uplink"),
    "claim": ("desktop-gpu-5xw7l", "waiting-gpu-2mv9s", "batch-net", "farm-gpus"),
    "pool": ("gpu.example.com/node-2", "node-1-card"),
    "driver": ("gpu.example.com", "nic.example.com"),
}


def describe(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["describe", *arguments], input=stdin)


@pytest.mark.parametrize("kind", NAMED)
def test_sections_say_everything_that_is_known(kind: str, golden: Golden) -> None:
    result = describe(kind, *NAMED[kind], "-f", EXAMPLE, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    documents: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    assert len({tuple(document) for document in documents}) == 1, "the same members in every document"
    golden(f"{kind}.txt", "\n\n".join("\n".join(section_lines(document, NOW)) for document in documents) + "\n")


@pytest.mark.parametrize("kind", NAMED)
def test_every_name_that_get_prints_is_found_once(kind: str) -> None:
    names = CliRunner().invoke(cli, ["get", kind, "-f", EXAMPLE, "-o", "name"]).stdout.split()
    result = describe(*names, "-f", EXAMPLE, "-o", "yaml")
    assert result.exit_code == 0
    assert len(yaml.safe_load(result.stdout)["items"]) == len(names)


def test_text_is_what_the_document_says() -> None:
    document = json.loads(describe("pool", "node-2", "-f", EXAMPLE, "-o", "json").stdout)["items"][0]
    assert (
        describe("pool", "node-2", "-f", EXAMPLE).stdout == "\n".join(section_lines(document, datetime.now(UTC))) + "\n"
    )


def test_the_lint_says_one_line_each_of_the_row_and_of_nobody_else() -> None:
    manifests = [
        str(ROOT / "examples" / "cluster" / name) for name in ("vm.yaml", "wrong-request.yaml", "claim-template.yaml")
    ]
    files = [argument for manifest in manifests for argument in ("-f", manifest)]
    listed = [
        json.loads(describe("vm", name, *files, "-o", "json").stdout)["items"][0]["lint"]
        for name in ("desktop", "wrong")
    ]
    assert listed[0] == []
    (finding,) = listed[1]
    assert finding.startswith(
        "VirtualMachine default/wrong: denial: spec.template.spec.domain.devices.gpus[0].requestName: "
    )
    assert finding.endswith("[request-missing]")


def test_a_dump_is_read_from_standard_input_once() -> None:
    text = (ROOT / "examples" / "inventory" / "cluster.yaml").read_text(encoding="utf-8")
    (document,) = json.loads(describe("vm", "waiting", "-f", "-", "-o", "json", stdin=text).stdout)["items"]
    assert [event["reason"] for event in document["events"]] == ["DevicesNotAllocatable"]


def test_an_object_that_cannot_be_read_is_named_whatever_is_asked_for() -> None:
    broken = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": 1},
    }
    text = (ROOT / "examples" / "inventory" / "cluster.yaml").read_text(encoding="utf-8")
    result = describe("driver", "gpu.example.com", "-f", "-", stdin=f"{text}---\n{json.dumps(broken)}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith('ResourceSlice "s": spec.driver: must be a string, not an integer\n')


def test_a_name_that_is_not_there_is_said_and_the_others_are_shown() -> None:
    result = describe("device", "gpu-2", "gpu-77", "-f", EXAMPLE, "-o", "json")
    assert (result.exit_code, len(json.loads(result.stdout)["items"])) == (1, 1)
    assert result.stderr == 'error: device "gpu-77" isn\'t there; did you mean gpu-9?\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["nodes", "x", "-f", EXAMPLE],
            'error: there is no kind "nodes"; kinds: vms, devices, claims, pools, drivers\n',
        ),
        (["vm", "x", "-f", "nowhere.yaml"], "error: nowhere.yaml: no such file or folder\n"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str) -> None:
    result = describe(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_a_name_is_required() -> None:
    result = describe("vm", "-f", EXAMPLE)
    assert result.exit_code == 2
    assert "Missing argument 'NAME...'" in result.stderr


def test_hostile_texts_do_not_reach_the_terminal() -> None:
    evil = "a\x1b[31m\nKind: forged\u202e"
    pool = {"name": evil, "generation": 1, "resourceSliceCount": 1}
    device = {
        "name": evil,
        "attributes": {evil: {"string": evil}},
        "capacity": {evil: {"value": "1"}},
        "taints": [{"key": evil, "effect": evil}],
    }
    slice_ = {"driver": "d", "allNodes": True, "pool": pool, "devices": [device]}
    labels = {evil: evil}
    claim = {
        "metadata": {"name": "c", "namespace": "n", "labels": labels},
        "spec": {"devices": {"requests": [{"name": evil}]}},
    }
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "n"},
        "message": evil,
        "reason": evil,
    }
    dump = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": evil}, "spec": slice_},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim},
        {**event, "involvedObject": {"kind": "ResourceClaim", "name": "c", "namespace": "n"}},
    ]
    text = "\n---\n".join(map(json.dumps, dump))
    for kind, name in (("device", evil), ("pool", evil), ("driver", "d"), ("claim", "c")):
        result = describe(kind, name, "-f", "-", stdin=text)
        assert result.exit_code == 0
        assert "\\x1b[31m" in result.stdout
        assert all(line.isprintable() for line in result.stdout.split("\n"))
        assert not any(line.startswith("Kind: forged") for line in result.stdout.split("\n"))
