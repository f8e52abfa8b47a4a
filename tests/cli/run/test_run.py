"""``virt-dra run`` as a user meets it: what is printed, what is written, exit codes, and that no input gives a
traceback."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.sampling import sample
from virt_dra.api.reading.documents import read_documents
from virt_dra.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples"
GPU = str(EXAMPLES / "gpu-pci")
CONTENTION = str(EXAMPLES / "contention")
NEWEST = "KubeVirt 1.9"


def _run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, ["run", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def _without_random_names(text: str) -> str:
    return re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", "-*", text)


def test_the_tree_shows_every_hand_over() -> None:
    result = _run(GPU, "-v")
    assert result.exit_code == 0
    assert _without_random_names(result.stdout).splitlines() == [
        f"{GPU} ({NEWEST})",
        f"VirtualMachineInstance gpu-test1/vmi-fedora: ready  ({GPU}/gpu.yaml:55 (document 4))",
        "├── lint: warnings",
        "│   └── warning: spec.domain.devices.gpus[0].requestName: every "
        'device that request "gpu" may get, such as pgpu-0 '
        "(driver gpu.example.com, pool node-1), has an address under another "
        "key than KubeVirt 1.9 reads, which is mdevUUID or "
        "resource.kubernetes.io/pciBusID; let the metadata shim of virt-dra supply it, "
        "or have the driver publish it under that key [address-key]",
        "├── admission: allowed",
        "├── launcher pod: virt-launcher-vmi-fedora-*",
        "├── claims",
        "│   └── gpu-resource-claim: virt-launcher-vmi-fedora-*-gpu-resource-claim-* (from template single-gpu)",
        "├── placement: node node-1",
        "│   └── gpus/example-pgpu: gpu.example.com/node-1/pgpu-0 (claim gpu-resource-claim, request gpu)",
        "├── deviceStatus",
        "│   └── gpus/example-pgpu: PCI 0000:01:00.0",
        "└── domain XML: made; --out DIR writes it",
        "    └── gpus/example-pgpu (address from status): "
        '<hostdev type="pci" managed="no"><source><address type="pci" domain="0x0000" '
        'bus="0x01" slot="0x00" function="0x0"/></source>'
        '<alias name="ua-dra-gpu-example-pgpu"/></hostdev>',
        "1 of 1 VM ready",
        "",
    ]


NO_DEVICE_LEFT = "none of 2 nodes can take it. Nearest: 2 nodes, request gpu: 2 devices: in use"


def test_a_row_for_each_vm_and_the_steps_of_those_that_are_not_ready() -> None:
    result = _run(CONTENTION)
    assert _without_random_names(result.stdout).splitlines() == [
        f"{CONTENTION} ({NEWEST})",
        "VM               READY   NODE     DEVICES            REMARKS",
        "default/first    yes     node-1   gpu 0000:01:00.0",
        "default/second   yes     node-2   gpu 0000:01:00.0",
        f"default/third    no      -        -                  placement: {NO_DEVICE_LEFT}",
        f"VirtualMachineInstance default/third: not ready  ({CONTENTION}/last-device.yaml:79 (document 7))",
        "├── admission: allowed",
        "├── launcher pod: virt-launcher-third-*",
        "├── claims",
        "│   └── gpu: virt-launcher-third-*-gpu-* (from template one-gpu)",
        "└── placement: FAILED Unschedulable",
        f"    ├── {NO_DEVICE_LEFT}",
        "    ├── in detail",
        "    │   ├── node node-1: in use (1 device reachable)",
        "    │   │   └── claim default/virt-launcher-third-*-gpu-*, request gpu: 0 of 1 device at best",
        "    │   │       └── gpu.example.com/node-1/gpu-0: DeviceInUse: in use",
        "    │   └── node node-2: in use (1 device reachable)",
        "    │       └── claim default/virt-launcher-third-*-gpu-*, request gpu: 0 of 1 device at best",
        "    │           └── gpu.example.com/node-2/gpu-0: DeviceInUse: in use",
        "    └── what to do: stop a VM that uses such a device, or add a node with a free one",
        "2 of 3 VMs ready",
        "",
    ]


def test_names_and_what_is_wrong_alone() -> None:
    assert _run(CONTENTION, "-o", "name").stdout.splitlines() == [
        f"virtualmachineinstance/default/{name}" for name in ("first", "second", "third")
    ]
    assert _run(CONTENTION, "-o", "name", "-q").stdout == "virtualmachineinstance/default/third\n"
    assert [line.split()[0] for line in _run(CONTENTION, "-q").stdout.splitlines()[1:3]] == ["VM", "default/third"]
    assert _run(GPU, "-q").stdout == ""


def test_the_wide_table_has_pods_claims_findings_and_places() -> None:
    lines = _without_random_names(_run(GPU, "-o", "wide").output).splitlines()
    headings = ["VM", "READY", "NODE", "DEVICES", "REMARKS", "KIND", "POD", "CLAIMS", "ALLOCATED", "FINDINGS", "SOURCE"]
    assert lines[1].split() == headings
    assert re.split(r" {2,}", lines[2]) == [
        *(
            "gpu-test1/vmi-fedora",
            "yes",
            "node-1",
            "example-pgpu 0000:01:00.0",
            "1 finding of the lint",
            "VirtualMachineInstance",
        ),
        *(
            "virt-launcher-vmi-fedora-*",
            "virt-launcher-vmi-fedora-*-gpu-resource-claim-*",
            "gpu.example.com/node-1/pgpu-0",
            "address-key",
        ),
        f"{GPU}/gpu.yaml:55 (document 4)",
    ]


def test_a_long_list_has_the_steps_of_a_few() -> None:
    vm = yaml.safe_load_all((EXAMPLES / "contention" / "last-device.yaml").read_text())
    documents = list(vm)
    third = documents[-1]
    more = [{**third, "metadata": {**third["metadata"], "name": f"more-{number}"}} for number in range(10)]
    result = _run("-", stdin=yaml.safe_dump_all([*documents, *more]))
    assert result.stdout.count(": not ready  (") == 5
    assert result.stdout.splitlines()[-3:] == [
        "and 6 more VMs that aren't ready; -v shows every step of all",
        "2 of 13 VMs ready",
        "",
    ]


@pytest.mark.slow
def test_the_same_input_with_the_same_seed_has_the_same_names() -> None:
    command = [sys.executable, "-c", "from virt_dra.cli.main import main; main()", "run", CONTENTION, "-o", "json"]

    def ran(*options: str) -> tuple[Any, set[str]]:
        process = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
        report = json.loads(process.stdout)
        return report, {claim["claim"] for vm in report["vms"] for claim in vm["claims"]}

    (first, claims), (again, _), (other, others) = ran(), ran(), ran("--seed", "1")
    assert first == again
    assert len(claims) == 3
    assert claims.isdisjoint(others)
    assert [vm["node"] for vm in first["vms"]] == [vm["node"] for vm in other["vms"]]


def test_what_was_saved_and_run_again_gets_no_uid_a_second_time(tmp_path: Path) -> None:
    _run(CONTENTION, "--out", str(tmp_path))
    third = CONTENTION + "/last-device.yaml"
    _run(str(tmp_path / "objects"), third, "--out", str(tmp_path / "again"))
    uids = [
        yaml.safe_load(path.read_text())["metadata"].get("uid")
        for path in (tmp_path / "again" / "objects").rglob("*.yaml")
    ]
    assert len(uids) == len(set(uids))


def test_a_vm_that_is_not_ready_makes_exit_code_one_and_shows_why() -> None:
    result = _run(CONTENTION)
    assert result.exit_code == 1
    assert "placement: FAILED Unschedulable" in result.output
    assert NO_DEVICE_LEFT in result.output
    assert "2 of 3 VMs ready" in result.output


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_say_the_same_as_data(output: str, load: Any) -> None:
    result = _run(CONTENTION, "-o", output)
    report = load(result.stdout)
    assert result.exit_code == 1
    assert (report["ready"], report["kubevirt"], report["refused"]) == (False, "1.9", [])
    assert [(vm["name"], vm["ready"], vm["node"]) for vm in report["vms"]] == [
        ("first", True, "node-1"),
        ("second", True, "node-2"),
        ("third", False, None),
    ]
    assert [device["pciAddress"] for vm in report["vms"] for device in vm["devices"]] == [
        "0000:01:00.0",
        "0000:01:00.0",
        None,
    ]
    assert report["vms"][2]["failure"]["step"] == "placement"
    assert report["vms"][2]["failure"]["message"] == NO_DEVICE_LEFT


def test_out_gets_every_object_and_the_xml_and_can_be_run_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = _run(GPU, "--out", str(out), "-o", "json")
    (vm,) = json.loads(result.stdout)["vms"]
    assert vm["xmlPath"] == str(out / "domains" / "gpu-test1_vmi-fedora.xml")
    assert etree.parse(vm["xmlPath"]).getroot().tag == "domain"
    kinds = sorted(yaml.safe_load(path.read_text())["kind"] for path in (out / "objects").rglob("*.yaml"))
    assert kinds == [
        *("DeviceClass", "Namespace", "Node", "Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice",
            "VirtualMachineInstance"),
    ]  # fmt: skip
    claim = yaml.safe_load(next((out / "objects").glob("resourceclaims.*/*.yaml")).read_text())
    assert [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]] == ["pgpu-0"]
    again = _run(str(out / "objects"), "-o", "json")
    (vm,) = json.loads(again.stdout)["vms"]
    assert (vm["takenOver"], vm["devices"][0]["pciAddress"]) == (True, "0000:01:00.0"), (
        "what was saved runs, with the first GPU"
    )


def test_separate_arguments_are_separate_clusters(tmp_path: Path) -> None:
    result = _run("--separate", GPU, CONTENTION, "--out", str(tmp_path), "-o", "json")
    clusters = json.loads(result.stdout)["clusters"]
    assert [(cluster["input"], cluster["ready"]) for cluster in clusters] == [(GPU, True), (CONTENTION, False)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["contention", "gpu-pci"]


def test_several_files_make_one_cluster(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / "first-available" / "prioritized.yaml").read_text()))
    vm, furniture = tmp_path / "vm.yaml", tmp_path / "cluster.json"
    vm.write_text(yaml.safe_dump(documents[-1]))
    furniture.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents[:-1]}))
    assert _run(str(vm), str(furniture)).exit_code == 0


def test_standard_input_is_read() -> None:
    result = _run("-", "-v", stdin=(EXAMPLES / "gpu-pci" / "gpu.yaml").read_bytes())
    assert result.exit_code == 0
    assert "(standard input:55 (document 4))" in result.output


def test_node_restricts_the_choice() -> None:
    result = _run(CONTENTION, "--node", "node-2", "-o", "json")
    assert [(vm["name"], vm["node"]) for vm in json.loads(result.stdout)["vms"]] == [
        ("first", "node-2"),
        ("second", None),
        ("third", None),
    ]


def test_gates_and_version_override_the_kubevirt_object() -> None:
    denied = _run(GPU, "--kubevirt-gates", "GPUsWithDRA=false", "-o", "json")
    assert json.loads(denied.stdout)["vms"][0]["failure"]["step"] == "admission"
    older = _run(GPU, "--kubevirt-version", "1.8.3", "-o", "json")
    assert json.loads(older.stdout)["vms"][0]["failure"]["step"] == "admission", "opt-in before 1.9"
    upstream = str(EXAMPLES / "driver-intel")
    assert (
        _run(upstream, "--kubevirt-version", "1.8.3", "--kubevirt-gates", "DynamicResourceAllocation=true").exit_code
        == 0
    )


@pytest.mark.parametrize("options", [(), ("--kubevirt-version", "1.9")])
def test_a_kubevirt_does_not_know_the_designs_form(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Its API server drops the field, and what is left has no source of a device (K-1.9)."""
    text = (EXAMPLES / "gpu-pci" / "gpu.yaml").read_text(encoding="utf-8")
    names = "        claimName: gpu-resource-claim\n        requestName: gpu\n"
    design = text.replace(names, "        claim: {name: gpu-resource-claim, request: gpu}\n")
    assert design != text
    file = tmp_path / "design.yaml"
    file.write_text(design, encoding="utf-8")
    result = _run(str(file), *options, "-o", "json")
    (vm,) = json.loads(result.stdout)["vms"]
    told = [(finding["id"], finding["field"]) for finding in vm["findings"] if finding["severity"] == "denial"]
    assert (result.exit_code, told) == (1, [
        ("kubevirt-refuses", "spec.domain.devices.gpus"), ("unknown-field", "spec.domain.devices.gpus[0].claim"),
    ])  # fmt: skip
    without_source = (
        "vmi.spec.domain.devices.gpus contains GPUs without deviceName or claimRequest; "
        "each GPU must specify either a deviceName or a claimRequest"
    )
    assert (vm["failure"]["step"], vm["failure"]["message"]) == ("admission", without_source)


@pytest.mark.parametrize(("version", "assumed"), [("v0.0.0-20260801120000-abcdef123456", True), ("v1.9.0", False)])
def test_a_version_that_names_no_release_is_named_with_what_is_assumed(
    tmp_path: Path, version: str, assumed: bool
) -> None:
    kubevirt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
    }
    file = tmp_path / "kubevirt.yaml"
    file.write_text(yaml.safe_dump({**kubevirt, "status": {"observedKubeVirtVersion": version}}), encoding="utf-8")
    text, document = _run(GPU, str(file)), json.loads(_run(GPU, str(file), "-o", "json").stdout)
    assert (f'is "{version}", which names no release: the rules of 1.9' in text.output) == assumed
    assert ("--kubevirt-version" in text.output) == assumed
    assert document["kubevirtAssumed"] is assumed
    named = _run(GPU, str(file), "--kubevirt-version", "main")
    assert ("(KubeVirt main)" in named.output, "names no release" in named.output) == (True, False)


def test_a_gate_that_is_disabled_has_to_leave_that_list(tmp_path: Path) -> None:
    kubevirt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
    }
    lists = {"developerConfiguration": {"disabledFeatureGates": ["GPUsWithDRA"]}}
    file = tmp_path / "kubevirt.yaml"
    file.write_text(yaml.safe_dump({**kubevirt, "spec": {"configuration": lists}}), encoding="utf-8")
    result = _run(GPU, str(file))
    assert result.exit_code == 1
    assert "take GPUsWithDRA out of spec.configuration.developerConfiguration.disabledFeatureGates" in result.output
    assert "add GPUsWithDRA" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--kubevirt-gates", "GPUsWithDRA=perhaps", GPU],
            "'GPUsWithDRA=perhaps': write GATE=true or GATE=false with a gate of GPUsWithDRA, ",
        ),
        (["--kubevirt-gates", "NoSuchGate", GPU], "'NoSuchGate': write GATE=true or GATE=false"),
        (["--kubevirt-gates", "HostDevices=", GPU], "'HostDevices=': write GATE=true or GATE=false"),
        (["--node", "A B", GPU], "'A B' can't be the name of a node: a lowercase RFC 1123 subdomain"),
        (["--namespace", "", GPU], "'' can't be the name of a namespace: a lowercase RFC 1123 label"),
        (["--out", "", GPU], "no folder named; write . for the current one"),
        (
            ["--kubevirt-version", "newest", GPU],
            "'newest' is no KubeVirt version; write for example 1.9, 1.8.3 or main",
        ),
        (["/does/not/exist"], "error: /does/not/exist: no such file or folder"),
        ([], "name the FILEs of VMs and of a cluster, or read a cluster with --live"),
    ],
)
def test_bad_usage_is_exit_code_two_with_advice(arguments: list[str], message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_output_folder_that_can_not_be_written_is_exit_code_two_with_advice(tmp_path: Path, output: str) -> None:
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"
    result = _run(GPU, "--out", str(out), "-o", output)
    error = (
        f"cannot write below {out}: {out}/objects: Not a directory; name "
        "another folder with --out, or make this one writable"
    )
    assert result.exit_code == 2
    assert (json.loads(result.stdout)["error"] if output == "json" else result.stderr.strip()) in (
        error,
        f"error: {error}",
    )


def test_input_without_a_vm_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n")
    result = _run(str(path))
    assert (result.exit_code, result.output) == (
        2,
        f"error: {path}: no VirtualMachine or VirtualMachineInstance found; name the file that has one\n",
    )


def test_every_fault_of_the_shape_is_told_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "vm.yaml"
    path.write_text(
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: a}\n"
        "spec: {resourceClaims: x, domain: {devices: {gpus: [{name: 1}]}}}\n"
    )
    result = _run(str(path), "-o", "json")
    assert result.exit_code == 2
    assert [problem["message"] for problem in json.loads(result.stdout)["problems"]] == [
        'VirtualMachineInstance "a": spec.domain.devices.gpus[0].name: must be a string, not an integer',
        'VirtualMachineInstance "a": spec.resourceClaims: must be a list, not a string',
    ]


def test_an_object_that_an_api_server_refuses_is_named_with_its_faults(tmp_path: Path) -> None:
    text = (EXAMPLES / "gpu-pci" / "gpu.yaml").read_text().replace("resourceSliceCount: 1", "resourceSliceCount: 0")
    path = tmp_path / "gpu.yaml"
    path.write_text(text)
    result = _run(str(path), "-o", "json")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["refused"] == [
        {
            "source": f"{path}:24 (document 3)",
            "message": "ResourceSlice node-1-gpu.example.com: spec.pool.resourceSliceCount: "
            "Invalid value: 0: must be greater than zero",
        }
    ]


@given(st.binary(max_size=300))
@settings(max_examples=sample(60), deadline=None)
def test_random_bytes_never_give_a_traceback(text: bytes) -> None:
    assert _run("-", stdin=text).exit_code == 2


JUNK: list[Any] = [
    *(None, 0, -1, True, 1.5, 10**30, [], [None], [{}], {}, {"a": 1}),
    *("", "x", "a/b", "A B", "\x00", "é", "n" * 70, "..", "0000:01:00.0"),
]


def _places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, child in inner for place in _places(child, (*path, key))]


@pytest.mark.slow
@given(st.data())
@settings(max_examples=sample(150), deadline=None)
def test_no_spoiled_manifest_gives_a_traceback(data: st.DataObject) -> None:
    """Real manifests with one or two members replaced or removed."""
    example = data.draw(st.sampled_from(sorted(EXAMPLES.glob("[!f]*/*.yaml"))))
    items: Any = [document.raw for document in read_documents(example.read_bytes(), example.name)]
    for _ in range(data.draw(st.integers(1, 2))):
        *path, last = data.draw(st.sampled_from([place for place in _places(items) if len(place) > 1]))
        holder = items
        for key in path:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))
        else:
            del holder[last]
    result = _run("-", "-o", "json", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert result.exit_code in (0, 1, 2)
    json.loads(result.stdout)


@pytest.mark.slow
def test_the_console_script_answers_help_with_examples_and_commands() -> None:
    command = [sys.executable, "-c", "from virt_dra.cli.main import main; main()"]
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    for word in ("run", "admit", "render", "device-status", "domain-xml", "Examples:"):
        assert word in result.stdout
    for subcommand in ("run", "admit", "render", "device-status", "domain-xml"):
        shown = subprocess.run([*command, subcommand, "--help"], capture_output=True, text=True, check=True)
        assert "Examples:" in shown.stdout, subcommand
