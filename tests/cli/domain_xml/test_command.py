"""``virt-dra domain-xml`` with files: domains, documents, differences, and inputs that it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from lxml import etree

from launcher import domain_xml, schema
from tests.json_schema import faults, schema_named
from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples/testing"
CLAIMED = str(EXAMPLES / "vm.yaml")
STATUS = str(EXAMPLES / "status.yaml")
PLUGIN: dict[str, Any] = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "lab"},
    "spec": {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "v.com/x"}]}}},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a VMI whose device comes from a plugin."""
    monkeypatch.chdir(tmp_path)
    Path("vmi.json").write_text(json.dumps(PLUGIN))
    Path("env").write_text("PATH=/bin\nPCI_RESOURCE_V_COM_X=0000:41:00.0\n")
    return tmp_path


def asked(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["domain-xml", *arguments], input=stdin)


def document(*arguments: str) -> Any:
    given = json.loads(asked(*arguments, "-o", "json").stdout)
    assert faults(given, schema_named("domain-xml")) == []
    return given


def test_the_domain_is_printed_as_the_library_makes_it() -> None:
    made = asked("-f", CLAIMED, "--status", STATUS)
    vm = next(obj for obj in yaml.safe_load_all(Path(CLAIMED).read_text()) if obj["kind"] == "VirtualMachine")
    vmi = {**vm["spec"]["template"], "metadata": vm["metadata"]}
    assert (made.exit_code, made.stderr) == (0, "")
    assert made.stdout == domain_xml({**vmi, "status": {"deviceStatus": yaml.safe_load(Path(STATUS).read_text())}})


def test_vcpus_are_pinned_to_the_cpus_of_the_pod(folder: Path) -> None:
    (folder / "host.yaml").write_text("numaNodes: [{id: 0, cpus: 0-7}]\npciFunctions: {}\n")
    vmi = {**PLUGIN, "spec": {"domain": {"cpu": {"cores": 2, "dedicatedCpuPlacement": True}, "devices": {}}}}
    (folder / "pinned.json").write_text(json.dumps(vmi))
    made = asked("-f", "pinned.json", "--topology", "host.yaml", "--cpus", "3,5-6")
    assert (made.exit_code, made.stderr) == (0, "")
    pins = [(pin.get("vcpu"), pin.get("cpuset")) for pin in etree.fromstring(made.stdout).iter("vcpupin")]
    assert pins == [("0", "3"), ("1", "5")]
    for arguments, message in (
        (("--cpus", "1"), "--cpus says which CPUs of a host: name its --topology, too"),
        (("--topology", "host.yaml", "--cpus", "2-1"), "'2-1' in '2-1' is no range below 16384"),
    ):
        refused = asked("-f", "pinned.json", *arguments)
        assert refused.exit_code == 2
        assert message in refused.stderr


def test_every_source_leads_to_the_same_device(folder: Path) -> None:
    base = folder / "copy/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/gpu"
    base.mkdir(parents=True)
    attributes = {"resource.kubernetes.io/pciBusID": {"string": "0000:41:00.0"}}
    (base / "d-metadata.json").write_text(
        json.dumps({
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "requests": [{"name": "gpu", "devices": [{"attributes": attributes}]}],
        })
    )  # fmt: skip
    (folder / "variables").write_text("A=1\0PCI_RESOURCE_made-for-it_gpu=0000:41:00.0\0")
    claims = [{"name": "gpu", "resourceClaimName": "made-for-it"}]
    (folder / "pod.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "status": {"resourceClaimStatuses": claims}})
    )
    whole_vmi = {"kind": "VirtualMachineInstance", "apiVersion": "kubevirt.io/v1"}
    status = yaml.safe_load(Path(STATUS).read_text())
    (folder / "vmi-status.json").write_text(json.dumps({**whole_vmi, "status": {"deviceStatus": status}}))
    sources = {
        ("--status", STATUS): "status",
        ("--status", "vmi-status.json"): "status",
        ("--metadata", "copy"): "metadata",
        ("--metadata", str(base.parents[2])): "metadata",
        ("--env", "variables", "--pod", "pod.json"): "environment",
    }
    answers = {options: document("-f", CLAIMED, *options)["domains"][0] for options in sources}
    assert {options: answer["devices"][0]["source"] for options, answer in answers.items()} == sources
    assert len({answer["domain"] for answer in answers.values()}) == 1


def test_a_document_has_each_device_with_its_address_and_its_element(folder: Path) -> None:
    (answer,) = document("-f", "vmi.json", "--env", "env")["domains"]
    assert etree.fromstring(answer.pop("domain")).findtext("name") == "default_lab"
    assert answer == {
        "kind": "VirtualMachineInstance",
        "namespace": "default",
        "name": "lab",
        "devices": [
            {
                "device": "gpus/g",
                "field": "spec.domain.devices.gpus[0]",
                "source": "environment",
                "address": "0000:41:00.0",
                "guest": None,
                "element": '<hostdev type="pci" managed="no"><source><address domain="0x0000" bus="0x41" slot="0x00" '
                'function="0x0"/></source><alias name="ua-gpu-g"/></hostdev>',
            }
        ],
        "placement": {},
        "error": None,
        "warnings": [],
    }


def test_a_vm_of_several_that_fails_does_not_stop_the_others(folder: Path) -> None:
    failing = {**PLUGIN, "metadata": {"name": "other", "namespace": "ns"}}
    failing["spec"] = {"domain": {"devices": {"gpus": [{"name": "g", "deviceName": "v.com/y"}]}}}
    text = "\n".join(map(json.dumps, (failing, PLUGIN)))
    made = asked("-f", "-", "--env", "env", stdin=text)
    assert (made.exit_code, etree.fromstring(made.stdout).findtext("name")) == (1, "default_lab")
    assert made.stderr.startswith(
        "error: standard input:1: VirtualMachineInstance ns/other: failed to create GPU host-devices: the number of"
    )
    alone = asked("-f", "-", "--env", "env", "--vmi", "lab", stdin=text)
    assert (alone.exit_code, alone.stdout, alone.stderr) == (0, made.stdout, "")
    assert asked("-f", "-", "-n", "ns", "--vmi", "other", stdin=text).exit_code == 1


def test_a_vm_with_an_instancetype_has_its_sizes_and_without_it_a_warning(folder: Path) -> None:
    vm = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "sized", "namespace": "ns"},
        "spec": {"instancetype": {"kind": "VirtualMachineInstancetype", "name": "big"}, "template": {"spec": {}}},
    }
    big = {
        "apiVersion": "instancetype.kubevirt.io/v1beta1",
        "kind": "VirtualMachineInstancetype",
        "metadata": {"name": "big", "namespace": "ns"},
        "spec": {"cpu": {"guest": 6}, "memory": {"guest": "3Gi"}},
    }
    Path("vm.json").write_text("\n".join(map(json.dumps, (vm, big))))
    (answer,) = document("-f", "vm.json")["domains"]
    domain = etree.fromstring(answer["domain"])
    assert (domain.findtext("vcpu"), domain.findtext("memory"), answer["warnings"]) == ("6", str(3 * 2**30), [])
    Path("vm.json").write_text(json.dumps(vm))
    (answer,) = document("-f", "vm.json")["domains"]
    assert answer["warnings"] == ["spec.instancetype.name: VirtualMachineInstancetype ns/big isn't in the files"]


def test_the_release_is_the_options_else_the_kubevirt_objects(folder: Path) -> None:
    display = {**PLUGIN, "spec": {"domain": {"devices": {"gpus": [
        {"name": "g", "deviceName": "v.com/x", "virtualGPUOptions": {"display": {"enabled": True}}}]}}}}  # fmt: skip
    status = {"observedKubeVirtVersion": "v1.8.2"}
    kubevirt = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "k"}, "status": status}
    Path("vmi.json").write_text("\n".join(map(json.dumps, (display, kubevirt))))
    options = ("-f", "vmi.json", "--env", "env", "--dialect", "kubevirt")
    assert 'display="on"' not in asked(*options).stdout
    assert 'display="on"' in asked(*options, "--kubevirt-version", "1.9").stdout


TOPOLOGY = """\
numaNodes: [{id: 0, cpus: 0-3}, {id: 1, cpus: 4-7}]
pciFunctions: {"0000:41:00.0": {numaNode: 1, pcieRoot: "pci0000:40"}}
"""


def test_devices_are_placed_on_the_topology_of_a_file_or_of_a_sysfs(folder: Path) -> None:
    mirrored = {
        "cpu": {"cores": 8, "dedicatedCpuPlacement": True, "numa": {"guestMappingPassthrough": {}}},
        "memory": {"guest": "2Gi", "hugepages": {"pageSize": "2Mi"}},
    }
    spec = {"domain": {**PLUGIN["spec"]["domain"], **mirrored}}
    Path("vmi.json").write_text(json.dumps({**PLUGIN, "spec": spec}))
    Path("topology.yaml").write_text(TOPOLOGY)
    for path, text in {
        "devices/system/node/node0/cpulist": "0-3",
        "devices/system/node/node1/cpulist": "4-7",
        "bus/pci/devices/0000:41:00.0/numa_node": "1",
    }.items():
        (folder / "sys" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "sys" / path).write_text(text)
    of_file, of_sysfs = (
        document("-f", "vmi.json", "--env", "env", "--topology", topology)["domains"][0]
        for topology in ("topology.yaml", "sys")
    )
    assert of_file == of_sysfs
    assert of_file["devices"][0]["guest"] == {"address": "0000:02:00.0", "pcieRoot": 1, "numaCell": 1}
    assert of_file["placement"]["numatune/memnode[1]/@nodeset"] == "1"
    assert of_file["placement"]["devices/controller[pcie-expander-bus]/target/node 1"] == "busNr 254"


def test_differences_are_shown_with_their_paths_and_end_with_1(folder: Path) -> None:
    other = asked("-f", "vmi.json", "--env", "env").stdout.replace('bus="0x41"', 'bus="66"').replace('"no"', '"yes"')
    Path("other.xml").write_text(other)
    compared = asked("-f", "vmi.json", "--env", "env", "--diff", "other.xml")
    assert (compared.exit_code, compared.stdout.splitlines(), compared.stderr) == (
        1,
        [
            "devices/hostdev[ua-gpu-g]/source: ours 0000:41:00.0, the other 0000:42:00.0",
            "devices/hostdev[ua-gpu-g]/@managed: only in the other: yes",
        ],
        "",
    )
    (answer,) = document("-f", "vmi.json", "--env", "env", "--diff", "other.xml")["domains"]
    assert answer["differences"] == [
        {"path": "devices/hostdev[ua-gpu-g]/source", "ours": "0000:41:00.0", "other": "0000:42:00.0"},
        {"path": "devices/hostdev[ua-gpu-g]/@managed", "ours": None, "other": "yes"},
    ]
    Path("other.xml").write_text(asked("-f", "vmi.json", "--env", "env").stdout.replace(">1<", ">2<"))
    same = asked("-f", "vmi.json", "--env", "env", "--diff", "other.xml")
    assert (same.exit_code, same.stdout) == (0, "no difference from other.xml in host devices and placement\n")


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_the_schema_allows_the_domain_in_its_dialect_and_refuses_kubevirts(folder: Path) -> None:
    assert asked("-f", "vmi.json", "--env", "env", "--validate").exit_code == 0
    refused = asked("-f", "vmi.json", "--env", "env", "--validate", "--dialect", "kubevirt")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        "error: vmi.json:1: VirtualMachineInstance default/lab: libvirt's schema refuses the domain: line "
    )


def test_without_libvirts_schema_validation_says_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "PLACES", (folder / "domain.rng",))
    ended = asked("-f", "vmi.json", "--env", "env", "--validate")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (
        2,
        "",
        f"error: {folder}/domain.rng: libvirt's schema isn't installed; get it with: apt-get install libvirt0 "
        "(Fedora: dnf install libvirt-libs)\n",
    )


REFUSED = yaml.safe_load((Path(__file__).parent / "cases/refused.yaml").read_text())


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_an_input_that_can_not_be_used_is_named(case: dict[str, Any], folder: Path) -> None:
    Path("given").write_text(case.get("given", ""))
    arguments = case["options"].split()
    files = () if "-f" in arguments else ("-f", "vmi.json")
    ended = asked(*files, *arguments)
    assert (ended.exit_code, ended.stdout, ended.stderr) == (2, "", f"error: {case['want']}\n")
    as_json = asked(*files, *arguments, "-o", "json")
    said = output_document("Error", {"error": case["want"], "problems": [case["want"]]})
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (2, said)


def test_options_that_are_about_one_vm_do_not_go_with_several(folder: Path) -> None:
    Path("two.json").write_text("\n".join(json.dumps({**PLUGIN, "metadata": {"name": name}}) for name in "ab"))
    for option, file in (("--status", STATUS), ("--pod", STATUS), ("--diff", STATUS)):
        ended = asked("-f", "two.json", option, file)
        said = f"error: {option} is about one VM, and the files have 2: choose it with --vmi\n"
        assert (ended.exit_code, ended.stderr) == (2, said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dialect", "html"), "Invalid value for '--dialect': 'html' is neither libvirt nor kubevirt"),
        ((), "name the VMs: virt-dra domain-xml -f vm.yaml (a file of requests goes with --jsonl)"),
        (
            ("--jsonl", "vmi.json", "--vmi", "a"),
            "--jsonl goes with a file of requests only; each request contains what the options say",
        ),
    ],
)
def test_bad_usage_is_explained(arguments: tuple[str, ...], said: str) -> None:
    ended = asked(*arguments)
    assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (2, f"Error: {said}")
