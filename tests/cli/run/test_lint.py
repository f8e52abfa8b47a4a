"""``virt-dra run`` and ``virt-dra lint`` give one verdict: the lint comes first, and a VM with a denial isn't ready."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.cli.lint.test_objects import CLASS, SLICE, TEMPLATE, VMI, _changed
from virt_dra.api.reading.documents import read_documents
from virt_dra.cli.main import cli

EXAMPLES = Path(__file__).parents[3] / "examples"
READY = (CLASS, SLICE, TEMPLATE)


def _run(*objects: Any, options: tuple[str, ...] = ("-o", "json"), command: str = "run") -> Result:
    arguments = [command, *(("-f",) if command == "lint" else ()), "-", *options]
    result = CliRunner().invoke(
        cli, arguments, input=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def _example(name: str) -> list[Any]:
    (path,) = (EXAMPLES / name).glob("*.yaml")
    return [document.raw for document in read_documents(path.read_bytes(), path.name)]


def _without_configuration(objects: list[Any]) -> list[Any]:
    copied = copy.deepcopy(objects)
    for raw in copied:
        spec = raw["spec"]
        if raw["kind"] == "ResourceClaimTemplate":
            spec["spec"]["devices"].pop("config", None)
        elif raw["kind"] == "DeviceClass":
            spec.pop("config", None)
    return copied


_OF_FILES = ("line", "column", "fault", "fix")
"""Where a finding is in its file and how it is mended there, which only the lint says."""


@pytest.mark.parametrize(
    "objects",
    [
        (VMI, *READY),
        (_changed(VMI, ("spec.domain.devices.gpus.0.requestName", "gup")), *READY),
        (VMI, CLASS, SLICE, _changed(TEMPLATE, ("spec.spec.devices.requests.0.exactly.alocationMode", "All"))),
        (_changed(VMI, ("spec.domain.devices.gpus.0.name", 3)), *READY),
        (VMI, _changed(SLICE, ("spec.devices.0.attributes", {}), ("spec.devices.1.attributes", {})), CLASS, TEMPLATE),
        tuple(_without_configuration(_example("driver-nvidia"))),
        tuple(_without_configuration(_example("driver-intel"))),
        tuple(_without_configuration(_example("driver-amd"))),
    ],
)
def test_run_shows_what_lint_finds_and_ends_alike(objects: tuple[Any, ...]) -> None:
    linted, ran = _run(*objects, command="lint"), _run(*objects)
    assert linted.exit_code == ran.exit_code
    found = {
        entry["name"]: [
            {key: value for key, value in finding.items() if key not in _OF_FILES} for finding in entry["findings"]
        ]
        for entry in json.loads(linted.stdout)["objects"]
        if entry["kind"].startswith("VirtualMachine")
    }
    report = json.loads(ran.stdout)
    assert {vm["name"]: vm["findings"] for vm in report["vms"]} == found
    assert report["ready"] == (ran.exit_code == 0)
    for vm in report["vms"]:
        assert vm["ready"] == all(finding["severity"] != "denial" for finding in vm["findings"])


def test_nvidias_devices_without_their_vfio_configuration_are_not_ready() -> None:
    (vm,) = json.loads(_run(*_without_configuration(_example("driver-nvidia"))).stdout)["vms"]
    assert ([finding["id"] for finding in vm["findings"]], vm["ready"], vm["failure"]) == (
        ["vfio-config-missing"],
        False,
        None,
    )


def test_intels_devices_of_the_class_for_containers_are_not_ready() -> None:
    objects = _example("driver-intel")
    for raw in _without_configuration(objects):
        if raw["kind"] == "DeviceClass":
            objects.append(_changed(raw, ("metadata.name", "gpu.intel.com")))
        elif raw["kind"] == "ResourceClaimTemplate":
            template = _changed(raw, ("spec.spec.devices.requests.0.exactly.deviceClassName", "gpu.intel.com"))
    (vm,) = json.loads(_run(*objects, template).stdout)["vms"]
    assert ([finding["id"] for finding in vm["findings"]], vm["ready"]) == (["not-a-vfio-device"], False)
    assert (
        'is bound to "i915" and stays bound to the host\'s driver for class gpu.intel.com'
        in vm["findings"][0]["message"]
    )
    assert _run(*_example("driver-intel")).exit_code == 0


def test_the_text_shows_the_denial_with_the_vm() -> None:
    result = _run(*_without_configuration(_example("driver-nvidia")), options=())
    lines = result.stdout.splitlines()
    assert result.exit_code == 1
    assert ": not ready  (" in lines[3]
    assert lines[4:6] == [
        "├── lint: DENIED",
        "│   └── denial: spec.resourceClaims[0].resourceClaimTemplateName: "
        'ResourceClaimTemplate "passthrough-gpu" has no opaque '
        "configuration of driver gpu.nvidia.com with kind VfioDeviceConfig and "
        "iommu {backendPolicy: LegacyOnly, enableAPIDevice: true} "
        "for request "
        '"gpu"; without it the driver doesn\'t expose /dev/vfio/vfio, and the '
        "VM doesn't boot. Add it at spec.spec.devices.config "
        "[vfio-config-missing]",
    ]
    assert "0 of 1 VM ready" in lines


@pytest.mark.parametrize("options", [("--ignore", "vfio-config-missing"), ("--warn", "all")])
def test_severities_are_chosen_as_for_lint(options: tuple[str, ...]) -> None:
    objects = _without_configuration(_example("driver-nvidia"))
    assert _run(*objects, options=options).exit_code == _run(*objects, options=options, command="lint").exit_code == 0


def test_an_annotation_silences_in_both() -> None:
    objects = _without_configuration(_example("driver-nvidia"))
    for raw in objects:
        if raw["kind"] == "VirtualMachineInstance":
            raw["metadata"]["annotations"] = {"virt-dra.io/lint-ignore": "vfio-config-missing"}
    assert _run(*objects).exit_code == _run(*objects, command="lint").exit_code == 0


def test_a_fault_of_one_template_is_told_only_to_vms_that_use_it() -> None:
    broken = _changed(TEMPLATE, ("metadata.name", "broken"), ("spec.spec.devices.requests.0.name", "A_B"))
    misspelt = _changed(TEMPLATE, ("metadata.name", "misspelt"), ("spec.spec.devices.requests.0.exactly.cuont", 1))
    never = [{"cel": {"expression": "false"}}]
    far = _changed(TEMPLATE, ("metadata.name", "far"), ("spec.spec.devices.requests.0.exactly.selectors", never))
    names = ("one", "far", "broken", "misspelt")
    vms = [
        _changed(VMI, ("metadata.name", f"uses-{name}"), ("spec.resourceClaims.0.resourceClaimTemplateName", name))
        for name in names
    ]
    report = json.loads(_run(*vms, *READY, far, broken, misspelt).stdout)
    told = {
        vm["name"]: ([finding["id"] for finding in vm["findings"]], vm["failure"] and vm["failure"]["advice"])
        for vm in report["vms"]
    }
    assert told["uses-one"] == ([], None)
    assert told["uses-far"][0] == ["no-matching-device"]
    assert "API server refused" not in told["uses-far"][1]
    assert (told["uses-broken"][0], told["uses-misspelt"][0]) == (["refused-object"], ["refused-object"])
    assert told["uses-broken"][1].startswith(
        "first correct the objects that the API server refused (standard input:1 (items[8]))"
    )
    assert told["uses-misspelt"][1].startswith(
        "first correct the objects that the API server refused (standard input:1 (items[9]))"
    )
    assert [refusal["source"] for refusal in report["refused"]] == [
        "standard input:1 (items[9])",
        "standard input:1 (items[8])",
    ]


def test_a_claim_that_is_refused_keeps_no_other_vm_from_its_own() -> None:
    admin = _changed(TEMPLATE, ("metadata.name", "admin"), ("spec.spec.devices.requests.0.exactly.adminAccess", True))
    names = ("admin", "one")
    vms = [
        _changed(VMI, ("metadata.name", f"uses-{name}"), ("spec.resourceClaims.0.resourceClaimTemplateName", name))
        for name in names
    ]
    spec = TEMPLATE["spec"]["spec"]
    broken = {"allocation": {"devices": {"results": []}}, "reservedFor": [{}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": spec,
        "status": broken,
    }
    for objects in ((*vms, admin), (*vms, admin, claim), (vms[1], claim)):
        failures = {vm["name"]: vm["failure"] for vm in json.loads(_run(*objects, *READY).stdout)["vms"]}
        assert failures["uses-one"] is None
        if admin in objects:
            assert failures["uses-admin"]["reason"] == "FailedResourceClaimCreation"


def test_one_object_of_a_wrong_type_does_not_stop_the_run() -> None:
    wrong = _changed(VMI, ("metadata.name", "wrong"), ("spec.resourceClaims", "x"))
    unreadable = _changed(TEMPLATE, ("metadata.name", "other"), ("spec.spec.devices", []))
    result = _run(wrong, unreadable, VMI, *READY)
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(vm["name"], vm["ready"]) for vm in report["vms"]] == [("wrong", False), ("vm", True)]
    failure = report["vms"][0]["failure"]
    assert (failure["step"], failure["reason"]) == ("admission", "BadRequest")
    assert (
        failure["message"] == "the API server can't read the object: spec.resourceClaims: must be a list, not a string"
    )
    assert [refusal["message"] for refusal in report["refused"]] == [
        "ResourceClaimTemplate default/other: spec.spec.devices: must be an object, not a list"
    ]


NAMELESS = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}, "spec": {}}
"""A KubeVirt object that says nothing of its release."""
VERSIONED = {**NAMELESS, "status": {"observedKubeVirtVersion": "v1.8.4"}}
REFUSED = {**VERSIONED, "metadata": {"name": "Kube_Virt"}}


@pytest.mark.parametrize(
    ("beside", "options", "judge"),
    [
        ((), (), "KubeVirt 1.9"),
        ((), ("--kubevirt-version", "1.8"), "KubeVirt 1.8"),
        ((NAMELESS,), (), "KubeVirt 1.9"),
        ((VERSIONED,), (), "KubeVirt 1.8.4"),
        ((REFUSED,), (), "KubeVirt 1.9"),
    ],
)
def test_the_run_says_what_it_checks_against_and_checks_against_that(
    beside: tuple[Any, ...], options: tuple[str, ...], judge: str
) -> None:
    """Every KubeVirt's CRDs ask for a domain, and ``explain`` has the same denials (K-1.11a, K-2.2)."""
    vmi = {**VMI, "spec": {key: value for key, value in VMI["spec"].items() if key != "domain"}}
    text = _run(vmi, *READY, *beside, options=options)
    (vm,) = json.loads(_run(vmi, *READY, *beside, options=(*options, "-o", "json")).stdout)["vms"]
    denials = [(finding["id"], finding["field"]) for finding in vm["findings"] if finding["severity"] == "denial"]
    assert (text.stdout.splitlines()[0], denials, vm["ready"]) == (
        f"- ({judge})", [("invalid-object", "spec.domain")], False,
    )  # fmt: skip
    if beside != (REFUSED,):
        linted = _run(vmi, *READY, *beside, options=options, command="lint")
        assert (linted.exit_code, f"1 VM checked against {judge}: " in linted.stdout) == (1, True)


def test_yaml_has_the_findings_too() -> None:
    result = _run(_changed(VMI, ("spec.domain.devices.gpus.0.requestName", "gup")), *READY, options=("-o", "yaml"))
    assert [finding["id"] for finding in yaml.safe_load(result.stdout)["vms"][0]["findings"]] == ["request-missing"]
