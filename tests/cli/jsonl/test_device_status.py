"""``virt-dra device-status --jsonl``: from request to answer. What is resolved how is tested with the controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.jsonl.answers import members_of
from virt_dra.api.wire import WireError
from virt_dra.cli.jsonl.device_status import REFUSAL, answer
from virt_dra.cli.jsonl.members import BadLine
from virt_dra.cli.main import cli

Request = dict[str, Any]

GPU = {"name": "g", "claimName": "c", "requestName": "gpu"}
VMI: Request = {"metadata": {"name": "fedora", "namespace": "lab"}, "spec": {"domain": {"devices": {"gpus": [GPU]}}}}
POD: Request = {
    "metadata": {"name": "launcher", "namespace": "lab", "uid": "pod-1"},
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "direct"}]},
}
CLAIM: Request = {
    "metadata": {"name": "direct", "namespace": "lab"},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "d0"}]}
        },
        "reservedFor": [{"resource": "pods", "name": "launcher", "uid": "pod-1"}],
    },
}
ATTRIBUTES = {"pciAddress": {"string": "0000:01:00.0"}}
POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
SLICE: Request = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.example.com",
        "pool": POOL,
        "allNodes": True,
        "devices": [{"name": "d0", "attributes": ATTRIBUTES}],
    },
}
OLD_SLICE: Request = {
    "metadata": {"name": "s"},
    "spec": {
        "driver": "d.example.com",
        "pool": POOL,
        "allNodes": True,
        "devices": [{"name": "d0", "basic": {"attributes": ATTRIBUTES}}],
    },
}
REQUEST: Request = {"vmi": VMI, "pod": POD, "claims": [CLAIM], "slices": [SLICE]}

FOUND = {"name": "d0", "resourceClaimName": "direct", "attributes": {"pciAddress": "0000:01:00.0"}}
RESOLVED: Request = {
    "deviceStatus": {"gpuStatuses": [{"name": "g", "deviceResourceClaimStatus": FOUND}]},
    "unresolved": [],
}
NO_POD = {
    "deviceStatus": {"gpuStatuses": [{"name": "g"}]},
    "unresolved": [
        {
            "device": "gpus/g",
            "reason": "PodMissing",
            "message": "the VMI has no launcher pod; if it doesn't get one soon, "
            "the VMI's conditions and events say why",
        }
    ],
}


def v1beta1(kind: str, body: Request) -> Request:
    return {"apiVersion": "resource.k8s.io/v1beta1", "kind": kind, **body}


def run(*requests: object) -> list[Any]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    result = CliRunner().invoke(cli, ["device-status", "--jsonl"], input=lines)
    assert result.exit_code == 0, result.output
    return [members_of(line, "DeviceStatusAnswer") for line in result.stdout.splitlines()]


EVERYTHING: Request = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {"apiVersion": "v1", "kind": "Pod", **POD},
        v1beta1("ResourceClaim", CLAIM),
        v1beta1("ResourceSlice", OLD_SLICE),
    ],
}

FORMS: dict[str, Request] = {
    "bare objects": {},
    "the claim reference as the design writes it": {
        "vmi": {"spec": {"domain": {"devices": {"gpus": [{"name": "g", "claim": {"name": "c", "request": "gpu"}}]}}}}
    },
    "full objects of v1": {
        "vmi": {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", **VMI},
        "pod": {"apiVersion": "v1", "kind": "Pod", **POD},
        "claims": [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **CLAIM}],
        "slices": [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **SLICE}],
    },
    "objects of old versions": {
        "vmi": {"apiVersion": "kubevirt.io/v1alpha3", "kind": "VirtualMachineInstance", **VMI},
        "claims": [v1beta1("ResourceClaim", CLAIM)],
        "slices": [v1beta1("ResourceSlice", OLD_SLICE)],
    },
    "an old slice that doesn't say so": {"slices": [OLD_SLICE]},
    "the nested claim source of old pods": {
        "pod": {**POD, "spec": {"resourceClaims": [{"name": "c", "source": {"resourceClaimName": "direct"}}]}}
    },
    "lists of their kind": {
        "claims": v1beta1("ResourceClaimList", {"items": [CLAIM]}),
        "slices": v1beta1("ResourceSliceList", {"items": [OLD_SLICE]}),
    },
    "one List of everything": {"pod": EVERYTHING, "claims": EVERYTHING, "slices": EVERYTHING},
    "single objects": {"claims": CLAIM, "slices": SLICE},
    "several pods": {"pod": [{**POD, "status": {"phase": "Failed"}}, POD]},
    "duplicates": {"claims": [CLAIM, CLAIM], "slices": [SLICE, SLICE]},
    "a VM": {
        "vmi": {"kind": "VirtualMachine", "metadata": VMI["metadata"], "spec": {"template": {"spec": VMI["spec"]}}}
    },
    "a VM that does not tell its kind": {
        "vmi": {"metadata": VMI["metadata"], "spec": {"template": {"spec": VMI["spec"]}}}
    },
    "null members": {"vmi": {**VMI, "status": None}, "pod": {**POD, "status": None}, "options": None},
    "pod and claim without metadata of a server": {
        "pod": {"spec": POD["spec"]},
        "claims": [{"metadata": {"name": "direct"}, "status": CLAIM["status"]}],
    },
}


@pytest.mark.parametrize("changes", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_input_is_read(changes: Request) -> None:
    assert run({"id": 1, **REQUEST, **changes}) == [{"id": 1, **RESOLVED}]


def test_answers_come_in_order_and_a_bad_line_does_not_end_them() -> None:
    assert run({"id": "a", "vmi": VMI, "pod": None}, {"id": "b"}, {"vmi": {"spec": {}}}) == [
        {"id": "a", **NO_POD},
        {
            "id": "b",
            "deviceStatus": None,
            "unresolved": [],
            "error": "line 2: vmi: is required, a VirtualMachineInstance",
        },
        {"id": None, "deviceStatus": None, "unresolved": []},
    ]


def test_options_are_heeded() -> None:
    results = [{"request": "gpu", "driver": "d.example.com", "pool": "p", "device": name} for name in ("d1", "d0")]
    claim = {**CLAIM, "status": {**CLAIM["status"], "allocation": {"devices": {"results": results}}}}
    devices = [{"name": f"d{n}", "attributes": {"where": {"string": f"0000:0{n}:00.0"}}} for n in (0, 1)]
    slices = [{"spec": {"driver": "d.example.com", "pool": POOL, "devices": devices}}]
    vmi = {"spec": {"domain": {"devices": {"gpus": [GPU], "hostDevices": [{**GPU, "name": "h"}]}}}}
    options = {"spread": True, "keys": [{"driver": "d.example.com", "pci": ["where"]}]}
    (told,) = run({"id": 1, "vmi": vmi, "pod": POD, "claims": [claim], "slices": slices, "options": options})

    def entry(name: str, device: str, address: str) -> Request:
        former = {"name": device, "resourceClaimName": "direct", "attributes": {"pciAddress": address}}
        return {"name": name, "deviceResourceClaimStatus": former}

    assert told == {
        "id": 1,
        "deviceStatus": {
            "gpuStatuses": [entry("g", "d1", "0000:01:00.0")],
            "hostDeviceStatuses": [entry("h", "d0", "0000:00:00.0")],
        },
        "unresolved": [],
    }


def test_the_target_pod_of_a_migration_is_resolved_if_asked_for() -> None:
    target = {**POD, "metadata": {**POD["metadata"], "labels": {"kubevirt.io/migrationJobUID": "job"}}}
    asked, unasked = run(
        {**REQUEST, "pod": [target], "options": {"migrationTarget": True}},
        {**REQUEST, "pod": [target]},
    )
    assert asked == {"id": None, **RESOLVED}
    assert unasked["unresolved"] == [
        {
            "device": "gpus/g",
            "reason": "PodMissing",
            "message": "pod launcher is not the VMI's current launcher pod: "
            "it is the target of a migration (label kubevirt.io/migrationJobUID); waiting for that pod",
        }
    ]


def test_a_running_vmi_keeps_its_entry_and_what_is_wrong_is_told() -> None:
    status = {"phase": "Running", "deviceStatus": RESOLVED["deviceStatus"]}
    moved = {
        **SLICE,
        "spec": {
            **SLICE["spec"],
            "devices": [{"name": "d0", "attributes": {"pciAddress": {"string": "0000:09:00.0"}}}],
        },
    }
    changed, vanished = run(
        {**REQUEST, "vmi": {**VMI, "status": status}, "slices": [moved]},
        {**REQUEST, "vmi": {**VMI, "status": status}, "slices": []},
    )
    assert changed == {
        "id": None,
        **RESOLVED,
        "warnings": [
            {
                "device": "gpus/g",
                "reason": "DeviceChanged",
                "message": "the VMI runs with device d0 at 0000:01:00.0, its claim "
                "now leads to device d0 at 0000:09:00.0; "
                "restart the VM to use that",
            }
        ],
    }
    assert (vanished["deviceStatus"], [u["reason"] for u in vanished["unresolved"]]) == (
        RESOLVED["deviceStatus"],
        ["DeviceNotPublished"],
    )


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"vmi": []}, "vmi: must be an object, not a list"),
        ({"vmi": {"kind": "Pod", "apiVersion": "v1"}}, "vmi: is a Pod of v1, expected a VirtualMachineInstance"),
        (
            {"vmi": {"apiVersion": "kubevirt.io/v2"}},
            "vmi.apiVersion: 'kubevirt.io/v2' is not supported; supported are kubevirt.io/v1 and v1alpha3",
        ),
        (
            {"vmi": {"spec": {"domain": {"devices": {"gpus": 5}}}}},
            "vmi.spec.domain.devices.gpus: must be a list, not an integer",
        ),
        ({"pod": "launcher"}, "pod: must be a list of Pod objects, or a List object"),
        ({"claims": 3}, "claims: must be a list of ResourceClaim objects, or a List object"),
        ({"claims": [3]}, "claims[0]: must be a ResourceClaim object"),
        (
            {"claims": [CLAIM, {"apiVersion": "v1", "kind": "Pod"}]},
            "claims[1]: is a Pod of v1, expected a ResourceClaim",
        ),
        ({"claims": {"kind": "ResourceClaimList", "items": {}}}, "claims.items: must be a list"),
        (
            {"slices": {"kind": "List", "items": [{"spec": {"devices": [{"name": 5}]}}]}},
            "slices.items[0].spec.devices[0].name: must be a string, not an integer",
        ),
        ({"options": {"sprad": True}}, "options.sprad: is unknown; there are spread, keys and migrationTarget"),
        ({"options": {"spread": "yes"}}, "options.spread: must be a boolean"),
        (
            {"options": {"keys": [{"driver": "d", "pci": ["pcieRoot"]}]}},
            "options.keys[0].pci[0]: pcieRoot is never an address of the device itself; name the key that has it",
        ),
    ],
)
def test_a_request_that_cannot_be_understood_is_refused_with_its_path(changes: Request, error: str) -> None:
    assert run({"id": 7, **REQUEST, **changes}) == [{"id": 7, **REFUSAL, "error": f"line 1: {error}"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(st.sampled_from(["kind", "items", "spec", "metadata"]), children)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["vmi", "pod", "claims", "slices", "options"]), JSON))
def test_any_json_is_answered_or_refused_by_name(request: Request) -> None:
    try:
        told = answer({"vmi": VMI, **request})
    except (BadLine, WireError) as error:
        told, refusal = REFUSAL, str(error)
    else:
        refusal = ""
    assert set(told) >= {"deviceStatus", "unresolved"}
    assert not refusal or refusal.startswith(("vmi", "pod", "claims", "slices", "options"))


def test_help_shows_the_format_and_examples() -> None:
    text = CliRunner().invoke(cli, ["device-status", "--help"]).stdout
    assert "options  spread" in text
    assert "virt-dra device-status --jsonl examples/requests/device-status.jsonl" in text


def test_the_worked_example_of_the_specification() -> None:
    """K-15.1, with the names that its fragments leave out."""
    request = yaml.safe_load((Path(__file__).parent / "cases" / "device-status-worked-example.yaml").read_text())
    assert run({"id": 1, **request["request"]}) == [{"id": 1, **request["answer"]}]
