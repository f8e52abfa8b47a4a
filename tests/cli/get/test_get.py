"""``virt-dra get``: what it reads, prints and refuses, and how it ends."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from virt_dra.cli.main import cli

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "inventory")


def get(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["get", *arguments], input=stdin)


def _items(*arguments: str, stdin: str = "") -> Any:
    return json.loads(get(*arguments, "-o", "json", stdin=stdin).stdout)["items"]


def test_names_are_what_describe_takes() -> None:
    result = get("devices", "-f", EXAMPLE, "-o", "name", "--field-selector", "state=free")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "device/gpu.example.com/node-1/gpu-2\n", "")


def test_json_and_yaml_are_the_same_list() -> None:
    documents = json.loads(get("pools", "-f", EXAMPLE, "-o", "json").stdout)
    assert yaml.safe_load(get("pools", "-f", EXAMPLE, "-o", "yaml").stdout) == documents
    assert (documents["apiVersion"], documents["kind"]) == ("output.virt-dra.io/v1", "InventoryList")
    assert [row.get("problem") for row in documents["items"]] == [None, None, "1 of 2 slices of generation 2", None]
    assert json.loads(get("vms", "-f", EXAMPLE, "-n", "nobody", "-o", "json").stdout)["items"] == []


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
        titles = "custom-columns=NAME:.metadata.namespace,NAME:.metadata.name"
        lines = get("vms", "-f", EXAMPLE, "-o", titles, "--no-headers", *options).stdout.splitlines()
        return ["/".join(line.split()) for line in lines]

    assert vms() == ["team-a/desktop", "team-a/waiting", "team-b/archive", "team-b/batch", "team-b/farm"]
    assert vms("-n", "team-b") == ["team-b/archive", "team-b/batch", "team-b/farm"]
    assert vms("-l", "app in (render, batch)") == ["team-a/desktop"]
    assert vms("-l", "!app", "--sort-by", "-name") == [
        "team-a/waiting",
        "team-b/farm",
        "team-b/batch",
        "team-b/archive",
    ]
    assert vms("--field-selector", "phase=Running", "--field-selector", "node=node-1") == [
        "team-a/desktop",
        "team-b/batch",
    ]


def test_a_name_that_is_not_there_is_said_with_the_nearest_and_the_others_are_shown() -> None:
    result = get("vm", "desktop", "wating", "-f", EXAMPLE, "-o", "name")
    assert (result.exit_code, result.stdout) == (1, "virtualmachine.kubevirt.io/desktop\n")
    assert result.stderr == 'error: vm "wating" isn\'t there; did you mean waiting?\n'


def test_nothing_found_is_said() -> None:
    result = get("claims", "-f", EXAMPLE, "--field-selector", "state=deleting")
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
    (row,) = _items("drivers", "-f", "-", stdin="\n---\n".join(map(json.dumps, dump)))
    assert (row["deviceClasses"], row["undecidedDeviceClasses"]) == (["honest"], ["costly"])
    many = [{**dump[1], "metadata": {"name": f"costly-{number}"}} for number in range(200)]
    began = time.monotonic()
    (row,) = _items("drivers", "-f", "-", stdin="\n---\n".join(map(json.dumps, [dump[0], *many])))
    assert len(row["undecidedDeviceClasses"]) == 200
    assert time.monotonic() - began < 30, "5 s of evaluating"


def test_help_lists_the_fields_of_each_kind_on_a_line_of_its_own() -> None:
    lines = [line.strip() for line in get("--help").stdout.splitlines()]
    assert "Fields:" in lines
    assert "pools    driver, pool, generation, state, node, devices, free" in lines


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["vms", "-o", "jsonpath={.items[*].metadata.name}"], "desktop waiting archive batch farm"),
        (["vm", "desktop", "-o", "jsonpath={.metadata.name}"], "desktop"),
        (["vm/desktop", "-o", "jsonpath={.devices[0].address}{'\\n'}"], "0000:41:00.0\n"),
        (["vm/desktop", "-o", "jsonpath-as-json={.node}"], '[\n    "node-1"\n]\n'),
        (
            ["devices", "-o", 'jsonpath={range .items[?(@.node=="node-2")]}{.driver}/{.device}{end}'],
            "gpu.example.com/gpu-0",
        ),
        (
            ["vm/desktop", "device/node-1/gpu-0", "-o", "name"],
            "virtualmachine.kubevirt.io/desktop\ndevice/gpu.example.com/node-1/gpu-0\n",
        ),
        (
            ["claims,drivers", "-o", "name", "--field-selector", "metadata.name!=gpu.example.com", "-n", "team-b"],
            "resourceclaim.resource.k8s.io/batch-net\nresourceclaim.resource.k8s.io/farm-gpus\n"
            "resourceclaim.resource.k8s.io/the-card\ndriver/card.example.com\ndriver/nic.example.com\n",
        ),
        (
            ["pools", "-o", "custom-columns=N:.metadata.name,FREE:free,X:{.no}", "--sort-by", "-{.free}"],
            "N             FREE   X\nnode-1        1      <none>\nnode-1-card   0      <none>\n"
            "node-2        0      <none>\nnics          0      <none>\n",
        ),
        (["pools", "--no-headers", "-o", "csv", "--field", "pool=nics"],
         "nic.example.com,nics,7,1/1,complete,(all),1,0,\n"),
        (["resourceclaims.resource.k8s.io", "-o", "name", "-n", "team-a", "--sort-by", ".metadata.name"],
         "resourceclaim.resource.k8s.io/desktop-gpu-5xw7l\nresourceclaim.resource.k8s.io/waiting-gpu-2mv9s\n"),
    ],
)  # fmt: skip
def test_it_prints_as_kubectl(arguments: list[str], printed: str) -> None:
    assert get(*arguments, "-f", EXAMPLE).stdout == printed


def test_several_kinds_are_tables_with_a_line_between() -> None:
    lines = get("pools,drivers", "-f", EXAMPLE).stdout.splitlines()
    assert [line.split()[0] for line in lines if line][0:6:5] == ["DRIVER", "DRIVER"]
    assert lines[5] == ""
    bare = get("pools,drivers", "-f", EXAMPLE, "--no-headers").stdout.splitlines()
    assert [line.split() for line in bare if line] == [
        line.split() for line in lines if line and not line.startswith("DRIVER")
    ]


def test_a_template_is_read_from_a_file(tmp_path: Path) -> None:
    columns, path = tmp_path / "columns", tmp_path / "path"
    columns.write_text("NAME  NODE\n.metadata.name {.node}\n")
    path.write_text("{.node}")
    assert get("vm/desktop", "-f", EXAMPLE, "-o", f"custom-columns-file={columns}").stdout == (
        "NAME      NODE\ndesktop   node-1\n"
    )
    assert get("vm/desktop", "-f", EXAMPLE, "-o", f"jsonpath-file={path}").stdout == "node-1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vms", "-o", "jsonpath={.items["], "error parsing jsonpath {.items[, unterminated array"),
        (["vms", "-o", "jsonpath="], "jsonpath: template format specified but no template given"),
        (["vms", "-o", "jsonpath-file=/nowhere"], "/nowhere: No such file or directory"),
        (["vms", "-o", "custom-columns=NAME"], "unexpected custom-columns spec: NAME, expected <header>"),
        (["vms", "-o", "jsonpath={.items[9]}"], "error: array index out of bounds: index 9, length 5"),
        (["vms", "-o", "table"], "'table' is not one of"),
        (["vms", "--sort-by", ".none"], "error: couldn't find any field with path {.none} in the list of objects"),
        (["vm/a", "b"], "'b': after KIND/NAME every argument is KIND/NAME"),
        (["vms,vmz"], 'error: there is no kind "vmz" (did you mean vm?)'),
        (["vms,devices", "-o", "csv"], "--watch and -o csv show one kind"),
    ],
)
def test_what_cannot_be_printed_is_refused(arguments: list[str], message: str) -> None:
    result = get(*arguments, "-f", EXAMPLE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_shorter_name_of_the_field_selector_is_taken() -> None:
    assert get("vms", "-f", EXAMPLE, "--field", "node=node-1").stdout == (
        get("vms", "-f", EXAMPLE, "--field-selector", "node=node-1").stdout
    )
