"""``virt-dra domain-xml --jsonl``: from request to answer."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.cli.jsonl.answers import members_of
from tests.sampling import sample
from virt_dra.cli.jsonl import domain_xml
from virt_dra.cli.jsonl.lines import answer_lines
from virt_dra.cli.main import cli

UUID = "8a05ad83-3472-497d-8631-8142f31460e8"
CLAIM = {"name": "gpu-resource-claim", "resourceClaimTemplateName": "single-gpu"}
GPU = {"name": "example-pgpu", "claimName": "gpu-resource-claim", "requestName": "gpu"}
SPEC = {"resourceClaims": [CLAIM], "domain": {"devices": {"gpus": [GPU]}}}
OBJECT = "virt-launcher-vmi-fedora-9bjwb-gpu-resource-claim-m4k28"
STATUS = {
    "gpuStatuses": [
        {
            "name": "example-pgpu",
            "deviceResourceClaimStatus": {
                "name": "pgpu-0",
                "resourceClaimName": OBJECT,
                "attributes": {"pciAddress": "0000:01:00.0"},
            },
        }
    ]
}
VMI = {"metadata": {"namespace": "gpu-test1", "name": "vmi-fedora"}, "spec": SPEC}
RESOLVED = {**VMI, "status": {"deviceStatus": STATUS}}
XML = (
    '<hostdev type="pci" managed="no"><source><address type="pci" domain="0x0000" '
    'bus="0x01" slot="0x00" function="0x0"/></source>'
    '<alias name="ua-dra-gpu-example-pgpu"/></hostdev>'
)


def answers(*requests: object) -> list[Any]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = CliRunner().invoke(cli, ["domain-xml", "--jsonl"], input=lines)
    assert run.exit_code == 0, run.output
    return [members_of(line, "DomainAnswer") for line in run.stdout.splitlines()]


def device(source: str) -> list[dict[str, str]]:
    return [{"device": "gpus/example-pgpu", "source": source, "xml": XML}]


def test_the_designs_scenario_by_status_and_by_variable() -> None:
    by_status, by_variable, by_pod = answers(
        {"id": 1, "vmi": RESOLVED},
        {"id": "two", "vmi": VMI, "env": {f"PCI_RESOURCE_{OBJECT}_gpu": "0000:01:00.0"}, "kubevirt": "1.9"},
        {
            "id": None,
            "vmi": VMI,
            "env": {"PCI_RESOURCE_odd_gpu": "0000:01:00.0"},
            "pod": {"status": {"resourceClaimStatuses": [{"name": "gpu-resource-claim", "resourceClaimName": "odd"}]}},
        },
    )

    domain = by_status.pop("domain")
    assert by_status == {"id": 1, "hostdevs": device("status"), "error": None}
    root = etree.fromstring(domain)
    assert (root.findtext("name"), len(root.findall("devices/hostdev"))) == ("gpu-test1_vmi-fedora", 1)
    assert by_variable == {"id": "two", "hostdevs": device("environment"), "domain": domain, "error": None}
    assert by_pod == {"id": None, "hostdevs": device("environment"), "domain": domain, "error": None}


def refused(identity: object, error: str) -> dict[str, object]:
    return {"id": identity, "hostdevs": [], "domain": None, "error": error}


def test_metadata_files_are_read_as_objects_and_as_text() -> None:
    attributes_root = "/var/run/kubernetes.io/dra-device-attributes"
    path = f"{attributes_root}/resourceclaimtemplates/gpu-resource-claim/gpu/gpu.example.com-metadata.json"
    attributes = {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}
    content = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "requests": [{"name": "gpu", "devices": [{"attributes": attributes}]}],
    }

    as_object, as_text, relative = answers(
        {"id": 1, "vmi": VMI, "files": {path: content}},
        {"id": 2, "vmi": VMI, "rawFiles": {path: json.dumps(content)}},
        {"id": 3, "vmi": VMI, "files": {"gpu-metadata.json": content}},
    )

    assert as_object["hostdevs"] == as_text["hostdevs"] == device("metadata")
    assert relative == refused(
        3, 'line 3: files: "gpu-metadata.json" must be the absolute path of a file in the compute container'
    )


def test_a_conversion_that_fails_is_an_answer_and_the_next_line_is_read() -> None:
    malformed = json.loads(json.dumps(RESOLVED).replace("0000:01:00.0", "10000:01:00.0"))
    first, second, third = answers(
        {"id": 1, "vmi": malformed}, {"id": 2, "vmi": RESOLVED, "kubevirt": "1.7"}, {"id": 3, "vmi": {}}
    )

    assert first == refused(
        1,
        "failed to create DRA GPU host-devices: failed to create PCI device for "
        "example-pgpu: failed to parse pci address 10000:01:00.0",
    )
    assert second["hostdevs"] == device("status")
    assert (third["hostdevs"], third["error"]) == ([], None)


def test_warnings_are_given_only_where_there_are_any() -> None:
    (answer,) = answers({"id": 1, "vmi": RESOLVED, "env": {f"PCI_RESOURCE_{OBJECT}_gpu": "0000:02:00.0"}})

    assert answer["hostdevs"] == device("status")
    assert answer["warnings"] == [
        "gpus/example-pgpu: status.deviceStatus says 0000:01:00.0, variable "
        f"PCI_RESOURCE_{OBJECT}_gpu says 0000:02:00.0; the first is used"
    ]


def test_a_virtual_machine_is_read_as_the_vmi_it_would_start() -> None:
    machine = {"kind": "VirtualMachine", "metadata": VMI["metadata"], "spec": {"template": {"spec": SPEC}}}
    (answer,) = answers({"id": 1, "vmi": machine, "env": {f"PCI_RESOURCE_{OBJECT}_gpu": "0000:01:00.0"}})

    assert answer["hostdevs"] == device("environment")
    assert etree.fromstring(answer["domain"]).findtext("name") == "gpu-test1_vmi-fedora"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({}, "line 1: vmi: is required; give the VirtualMachineInstance as an object"),
        ({"vmi": []}, "line 1: vmi: must be an object, not a list"),
        (
            {"vmi": {"spec": {"domain": {"devices": {"gpus": 7}}}}},
            "line 1: vmi.spec.domain.devices.gpus: must be a list, not an integer",
        ),
        ({"vmi": {}, "env": []}, "line 1: env: must be an object, not a list"),
        ({"vmi": {}, "env": {"A": 1}}, "line 1: env.A: must be a string, not an integer"),
        ({"vmi": {}, "rawFiles": {"/a": {}}}, "line 1: rawFiles./a: must be a string, not an object"),
        ({"vmi": {}, "files": "x"}, "line 1: files: must be an object, not a string"),
        ({"vmi": {}, "pod": {"spec": []}}, "line 1: pod.spec: must be an object, not a list"),
        (
            {"vmi": {}, "kubevirt": "x"},
            "line 1: kubevirt: 'x' is no KubeVirt version; write for example 1.9, 1.8.3 or main",
        ),
        ({"vmi": {}, "gates": {"GPUsWithDRA": 1}}, "line 1: gates.GPUsWithDRA: must be a boolean, not an integer"),
    ],
)
def test_a_request_that_cannot_be_understood_says_which_member(request_: dict[str, Any], error: str) -> None:
    assert answers({"id": 7, **request_}) == [refused(7, error)]


def test_the_help_shows_the_format_and_examples() -> None:
    run = CliRunner().invoke(cli, ["domain-xml", "--help"])

    assert run.exit_code == 0
    assert '"hostdevs": [{"device": "gpus/NAME", "source": "status"|"metadata"|"environment", "xml"}]' in run.output


_texts = st.sampled_from(
    ["", "a", "0000:01:00.0", UUID, "\ud800", "\x00", "<&>", "x/y", "virt-launcher-v-abcde-a-abcde"]
) | st.text(max_size=6)
_device = st.fixed_dictionaries(
    {"name": _texts},
    optional={
        "deviceName": _texts,
        "claimName": _texts,
        "requestName": _texts,
        "virtualGPUOptions": st.just({"display": {}}),
    },
)
_status = st.fixed_dictionaries(
    {"name": _texts},
    optional={
        "deviceResourceClaimStatus": st.fixed_dictionaries(
            {}, optional={"attributes": st.just({"pciAddress": "0000:01:00.0"})}
        )
    },
)
_requests = st.fixed_dictionaries(
    {
        "vmi": st.fixed_dictionaries(
            {
                "metadata": st.fixed_dictionaries({}, optional={"name": _texts, "namespace": _texts, "uid": _texts}),
                "spec": st.fixed_dictionaries(
                    {
                        "domain": st.fixed_dictionaries(
                            {
                                "cpu": st.fixed_dictionaries(
                                    {}, optional={"cores": st.integers(-1, 2**70), "model": _texts}
                                ),
                                "machine": st.fixed_dictionaries({"type": _texts}),
                                "devices": st.fixed_dictionaries(
                                    {},
                                    optional={
                                        "gpus": st.lists(_device, max_size=2),
                                        "hostDevices": st.lists(_device, max_size=2),
                                        "disks": st.lists(
                                            st.fixed_dictionaries({"name": _texts, "disk": st.just({"bus": 7})}),
                                            max_size=1,
                                        ),
                                        "interfaces": st.lists(
                                            st.fixed_dictionaries(
                                                {"name": _texts, "sriov": st.just({}), "bootOrder": st.integers(-1, 2)}
                                            ),
                                            max_size=1,
                                        ),
                                    },
                                ),
                            }
                        )
                    },
                    optional={
                        "networks": st.lists(
                            st.fixed_dictionaries({"name": _texts, "resourceClaim": st.just({})}), max_size=1
                        )
                    },
                ),
                "status": st.fixed_dictionaries(
                    {"deviceStatus": st.fixed_dictionaries({"gpuStatuses": st.lists(_status, max_size=2)})}
                ),
            }
        ),
        "env": st.dictionaries(
            st.sampled_from(["PCI_RESOURCE_A", "MDEV_PCI_RESOURCE_X_Y", "USB_RESOURCE_A", "PCI_RESOURCE_a_a"]), _texts
        ),
        "kubevirt": st.sampled_from(["1.9", "1.8.0", "1.7", "1.5", "main"]),
    }
)


@settings(max_examples=sample(150), deadline=None)
@given(_requests)
def test_whatever_a_request_holds_it_gets_one_well_formed_answer(request: dict[str, Any]) -> None:
    out = io.StringIO()
    answer_lines([json.dumps(request).encode()], out, "DomainAnswer", domain_xml.answer, domain_xml.REFUSAL)

    (line,) = out.getvalue().splitlines()
    answer = members_of(line, "DomainAnswer")
    if answer["error"] is None:
        assert len(etree.fromstring(answer["domain"]).findall("devices/hostdev")) == len(answer["hostdevs"])
    else:
        assert (answer["hostdevs"], answer["domain"]) == ([], None)
