"""``virt-dra get``: what it reads, prints and refuses, and how it ends."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.main import cli

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "inventory")


def get(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["get", *arguments], input=stdin)


def test_names_are_what_describe_takes() -> None:
    result = get("devices", "-f", EXAMPLE, "-o", "name", "--field", "state=free")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "gpu.example.com/node-1/gpu-2\n", "")


def test_json_and_yaml_are_the_same_list() -> None:
    documents = json.loads(get("pools", "-f", EXAMPLE, "-o", "json").stdout)
    assert yaml.safe_load(get("pools", "-f", EXAMPLE, "-o", "yaml").stdout) == documents
    assert [document["problem"] for document in documents] == [None, None, "1 of 2 slices of generation 2", None]
    assert get("vms", "-f", EXAMPLE, "-n", "nobody", "-o", "json").stdout == "[]\n"


def test_csv_has_all_columns_whatever_is_shown() -> None:
    first, *lines = get("drivers", "-f", EXAMPLE, "-o", "csv").stdout.splitlines()
    assert first == "DRIVER,NODES,POOLS,DEVICES,FREE,ALLOCATED,CLASSES,UNDECIDED"
    assert lines == [
        "card.example.com,node-1,1,2,0,1,,",
        'gpu.example.com,"node-1,node-2",2,5,1,3,"a100,gpu",',
        "nic.example.com,(all),1,1,0,1,nic,",
    ]


def test_rows_are_selected_and_sorted() -> None:
    def vms(*options: str) -> list[str]:
        return get("vms", "-f", EXAMPLE, "-o", "name", *options).stdout.split()

    assert vms() == ["team-a/desktop", "team-a/waiting", "team-b/archive", "team-b/batch", "team-b/farm"]
    assert vms("-n", "team-b") == ["team-b/archive", "team-b/batch", "team-b/farm"]
    assert vms("-l", "app in (render, batch)") == ["team-a/desktop"]
    assert vms("-l", "!app", "--sort-by", "-name") == [
        "team-a/waiting",
        "team-b/farm",
        "team-b/batch",
        "team-b/archive",
    ]
    assert vms("--field", "phase=Running", "--field", "node=node-1") == ["team-a/desktop", "team-b/batch"]


def test_a_name_that_is_not_there_is_said_with_the_nearest_and_the_others_are_shown() -> None:
    result = get("vm", "desktop", "wating", "-f", EXAMPLE, "-o", "name")
    assert (result.exit_code, result.stdout) == (1, "team-a/desktop\n")
    assert result.stderr == 'error: vm "wating" isn\'t there; did you mean waiting?\n'


def test_nothing_found_is_said() -> None:
    result = get("claims", "-f", EXAMPLE, "--field", "state=deleting")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no claims found\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["vmz", "-f", EXAMPLE],
            'error: there is no kind "vmz" (did you mean vm?); kinds: vms, devices, claims, pools, drivers\n',
        ),
        (
            ["pools", "-f", EXAMPLE, "--sort-by", "size"],
            'error: there is no field "size"; fields: driver, pool, generation, state, node, devices, free\n',
        ),
        (["vms", "-f", EXAMPLE, "-l", "a=b=c"], "error: --selector: found '=', expected: ',' or 'end of string'\n"),
        (["vms", "-f", "nowhere.yaml"], "error: nowhere.yaml: no such file or folder\n"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], message: str) -> None:
    result = get(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vms"], "say what to read: files with -f, or a cluster with --live"),
        (["vms", "-f", EXAMPLE, "--live"], "say what to read: files with -f, or a cluster with --live"),
        (["vms", "-f", EXAMPLE, "--context", "x"], "--kubeconfig and --context go with --live"),
        (["vms", "-f", EXAMPLE, "-A", "-n", "a"], "-A is all namespaces, -n one of them; give one of both"),
        (["vms", "-f", EXAMPLE, "-w"], "--watch goes with --live: files don't change"),
        (["vms", "-f", EXAMPLE, "-n", "A"], "'A' can't be the name of a namespace"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str], message: str) -> None:
    result = get(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_hostile_names_do_not_reach_the_terminal() -> None:
    name = "a\x1b[31m\u202e"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": name, "allNodes": True, "pool": pool, "devices": [{"name": name}]}
    dump = json.dumps(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    )
    for kind in ("devices", "pools", "drivers"):
        for output in ("text", "wide", "name", "csv", "json", "yaml"):
            text = get(kind, "-f", "-", "-o", output, stdin=dump).stdout
            assert "a" in text
            assert all(line.isprintable() for line in text.split("\n")), (kind, output)


@pytest.mark.slow
def test_a_selector_made_to_compute_for_ever_is_left_undecided() -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": "d", "allNodes": True, "pool": pool, "devices": [{"name": f"d-{n}"} for n in range(100)]}
    numbers = "[" + ",".join("1" * 60) + "]"
    costly = (
        f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, {numbers}.all(d, "
        "a + b + c + d > 0)))) && device.driver == 'x'"
    )
    dump = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": slice_},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "costly"},
         "spec": {"selectors": [{"cel": {"expression": costly}}]}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "honest"}, "spec": {}},
    ]  # fmt: skip
    (row,) = json.loads(get("drivers", "-f", "-", "-o", "json", stdin="\n---\n".join(map(json.dumps, dump))).stdout)
    assert (row["deviceClasses"], row["undecidedDeviceClasses"]) == (["honest"], ["costly"])
    many = [{**dump[1], "metadata": {"name": f"costly-{number}"}} for number in range(200)]
    began = time.monotonic()
    (row,) = json.loads(
        get("drivers", "-f", "-", "-o", "json", stdin="\n---\n".join(map(json.dumps, [dump[0], *many]))).stdout
    )
    assert len(row["undecidedDeviceClasses"]) == 200
    assert time.monotonic() - began < 30, "5 s of evaluating"


def test_help_lists_the_fields_of_each_kind_on_a_line_of_its_own() -> None:
    lines = [line.strip() for line in get("--help").stdout.splitlines()]
    assert "Fields:" in lines
    assert "pools    driver, pool, generation, state, node, devices, free" in lines
