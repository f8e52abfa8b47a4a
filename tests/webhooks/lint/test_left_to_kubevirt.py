"""What KubeVirt checks beside devices: the rules that the lint judges, and those that it says it doesn't."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, Gates
from virt_dra.api.schemas.kubevirt_schema import schema_of
from virt_dra.api.schemas.walk import unknown_fields
from virt_dra.cli.lint.command import command
from webhooks.lint import lint
from webhooks.lint.inputs import LintInputs
from webhooks.rules.virtual_machines import NOT_JUDGED
from webhooks.vmi import review

PAGE: Final = Path(__file__).parents[3] / "docs" / "lint" / "kubevirt-refuses.md"
_BOTH: Final = (
    "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy instead"
)
_DISK: Final = "domain.devices.disks[1]"
CASES: Final[dict[str, tuple[dict[str, Any], list[tuple[str, str]]]]] = {
    "a strategy": ({"runStrategy": "Once"}, []),
    "running": ({"running": False}, []),
    "an unknown strategy": ({"runStrategy": "Sometimes"}, [("spec.runStrategy", "Invalid RunStrategy (Sometimes)")]),
    "an empty strategy": ({"runStrategy": ""}, [("spec.runStrategy", "Invalid RunStrategy ()")]),
    "neither": ({}, [("spec.running", "RunStrategy must be specified")]),
    "both": ({"running": True, "runStrategy": "Always"}, [("spec.running", _BOTH)]),
    "both, and unknown": (
        {"running": True, "runStrategy": "always"},
        [("spec.running", _BOTH), ("spec.runStrategy", "Invalid RunStrategy (always)")],
    ),
}
SPEC: Final = {
    "domain": {"devices": {"disks": [{"name": "root", "disk": {}}, {"name": "data", "disk": {}}]}},
    "volumes": [{"name": "root", "containerDisk": {"image": "fedora"}}],
}


def _causes(subject: VirtualMachine | VirtualMachineInstance) -> list[tuple[str, str, str]]:
    return [(finding.id, finding.field, finding.message) for finding in lint(subject, LintInputs())]


def _refused(causes: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [("kubevirt-refuses", field, f"KubeVirt 1.9 refuses the object: {text}") for field, text in causes]


@pytest.mark.parametrize("case", CASES)
def test_how_a_vm_runs_is_judged(case: str) -> None:
    spec, causes = CASES[case]
    vm = VirtualMachine.from_wire({"metadata": {"name": "vm"}, "spec": {**spec, "template": {"spec": {}}}})
    assert _causes(vm) == _refused(causes)


def test_a_disk_without_a_volume_is_refused_in_a_vmi_and_in_a_vm() -> None:
    vmi = VirtualMachineInstance.from_wire({"metadata": {"name": "vm"}, "spec": SPEC})
    vm = VirtualMachine.from_wire(
        {"metadata": {"name": "vm"}, "spec": {"runStrategy": "Always", "template": {"spec": SPEC}}}
    )
    for subject, root in ((vmi, "spec"), (vm, "spec.template.spec")):
        assert _causes(subject) == _refused([(f"{root}.{_DISK}.name", f"{root}.{_DISK}.Name 'data' not found.")])


def test_an_empty_cd_drive_is_left_to_kubevirt() -> None:
    spec = {"domain": {"devices": {"disks": [{"name": "drive", "cdrom": {"bus": "sata"}}]}}}
    assert _causes(VirtualMachineInstance.from_wire({"metadata": {"name": "vm"}, "spec": spec})) == []


def test_the_page_lists_what_is_not_judged() -> None:
    listed = [line[2:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("* ")]
    assert listed == list(NOT_JUDGED)


def test_strict_says_once_what_is_not_judged_and_counts_warnings(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.json" for name in ("a", "b")]
    for file in files:
        spec = {"domain": {"devices": {}, "resources": {"requests": {"memory": "1Gi"}}}}
        vmi = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": file.stem}}
        file.write_text(json.dumps({**vmi, "spec": spec}))
    plain = CliRunner().invoke(command, [*map(str, files)])
    strict = CliRunner().invoke(command, ["--strict", *map(str, files)])
    assert (plain.exit_code, plain.stdout.count("not judged")) == (0, 0)
    assert (strict.exit_code, strict.stdout.count("not judged, though KubeVirt checks it: ")) == (0, 1)
    assert strict.stdout.splitlines()[-1].endswith("; ".join(NOT_JUDGED))
    document = CliRunner().invoke(command, ["--strict", "-o", "json", *map(str, files)])
    assert json.loads(document.stdout)["notJudged"] == list(NOT_JUDGED)
    warned = CliRunner().invoke(command, ["--strict", "--warn", "old-version", str(_old(tmp_path))])
    assert warned.exit_code == 1


def _old(folder: Path) -> Path:
    """A file with one warning."""
    file = folder / "old.json"
    claim = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}}
    devices = {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}
    file.write_text(json.dumps({**claim, "spec": {"spec": {"devices": devices}}}))
    return file


def test_the_webhook_leaves_them_to_kubevirt() -> None:
    vm = VirtualMachine.from_wire({"metadata": {"name": "vm"}, "spec": {"template": {"spec": SPEC}}})
    assert review(vm, Gates.for_version(NEWEST)).allowed


@pytest.mark.parametrize(("written", "meant"), [("claims", None), ("clam", None), ("claim_name", "claimName")])
def test_no_hint_proposes_the_designs_form(written: str, meant: str | None) -> None:
    gpu = {"name": "g", written: {"name": "gpu", "request": "gpu"}}
    vmi = {"spec": {"domain": {"devices": {"gpus": [gpu]}}}}
    unknown = unknown_fields(vmi, schema_of("VirtualMachineInstance", None))
    assert [(field.path, field.nearest) for field in unknown] == [(f"spec.domain.devices.gpus[0].{written}", meant)]
