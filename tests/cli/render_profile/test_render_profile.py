"""``virt-dra render-profile``: what it writes, what it refuses, and that others can read what it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.conftest import Golden
from virt_dra.cli.main import cli

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "profiles")
PROFILE = """
apiVersion: virt-dra.io/v1alpha1
kind: DeviceProfile
metadata: {name: h100}
spec:
  namespaceSelector: {matchLabels: {team: ml}}
  devices: [{name: gpu, deviceClassName: vfio}]
"""
VMI = """
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vmi, namespace: lab, annotations: {virt-dra.io/devices: "gpu=h100"}}
spec: {domain: {devices: {}}}
"""
BY_INSTANCETYPE = """
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: vm, namespace: lab}
spec: {instancetype: {name: gpu1}, template: {spec: {domain: {devices: {}}}}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: gpu1}
spec: {cpu: {guest: 1}, memory: {guest: 1Gi}, annotations: {virt-dra.io/devices: h100}}
"""
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {{name: lab, labels: {{team: {}}}}}\n"
UNCHECKED = "note: whether namespace lab may use h100 isn't checked: no file has the Namespace\n"


def render(*documents: str, options: tuple[str, ...] = ()) -> Result:
    return CliRunner().invoke(cli, ["render-profile", "-f", "-", *options], input="---\n".join(documents))


def test_the_example_is_rendered_and_rendering_it_again_changes_nothing(golden: Golden) -> None:
    result = CliRunner().invoke(cli, ["render-profile", "-f", EXAMPLE])
    assert (result.exit_code, result.stderr) == (0, "")
    golden("example.yaml", result.stdout)
    profiles = (Path(EXAMPLE) / "profiles.yaml").read_text()
    again = render(result.stdout, profiles)
    assert (again.exit_code, again.stderr, again.stdout) == (0, "", result.stdout)


def test_lint_reads_what_was_rendered() -> None:
    rendered = CliRunner().invoke(cli, ["render-profile", "-f", EXAMPLE])
    checked = CliRunner().invoke(cli, ["lint", "-f", "-", "-o", "json"], input=rendered.stdout)
    assert checked.exit_code == 0, checked.output
    assert [vm["findings"] for vm in json.loads(checked.stdout)["objects"]] == [[], []]


def test_namespaces_that_are_in_no_file_are_not_checked() -> None:
    result = render(PROFILE, VMI, options=("-o", "json"))
    assert (result.exit_code, result.stderr) == (0, UNCHECKED)
    template, vmi = json.loads(result.stdout)["items"]
    assert (template["kind"], template["metadata"]["namespace"]) == ("ResourceClaimTemplate", "lab")
    assert vmi["spec"]["domain"]["devices"]["gpus"] == [{"name": "gpu", "claimName": "gpu", "requestName": "gpu"}]


@pytest.mark.parametrize(
    ("documents", "code", "message"),
    [
        ((), 0, UNCHECKED),
        (
            (NAMESPACE.format("web"),),
            1,
            "error: standard input:10 (document 2): VirtualMachineInstance vmi: metadata.annotations"
            "[virt-dra.io/devices]: Forbidden: DeviceProfile h100 isn't for namespace lab (namespaceSelector)\n",
        ),
    ],
    ids=["not in the files", "another team's"],
)
def test_the_namespace_of_a_vm_that_names_none_is_said(documents: tuple[str, ...], code: int, message: str) -> None:
    result = render(PROFILE, VMI.replace(", namespace: lab", ""), *documents, options=("-n", "lab"))
    assert (result.exit_code, result.stderr) == (code, message)
    written = list(yaml.safe_load_all(result.stdout))
    assert [obj["metadata"].get("namespace") for obj in written] == [None] * len(written), "they are created together"


def test_a_line_of_an_instancetype_counts() -> None:
    result = render(PROFILE, BY_INSTANCETYPE, NAMESPACE.format("ml"))
    assert (result.exit_code, result.stderr) == (0, "")
    template, vm, *_ = yaml.safe_load_all(result.stdout)
    assert template["metadata"]["name"] == "vm-h100"
    assert vm["spec"]["template"]["spec"]["resourceClaims"] == [
        {"name": "h100", "resourceClaimTemplateName": "vm-h100"}
    ]


@pytest.mark.parametrize(
    ("documents", "code", "message"),
    [
        pytest.param((VMI,), 1, "error: standard input:2: VirtualMachineInstance vmi: metadata.annotations"
            '[virt-dra.io/devices]: Not found: "h100": there is no DeviceProfile of this name\n', id="unknown"),
        pytest.param((PROFILE, VMI, NAMESPACE.format("web")), 1, "error: standard input:10 (document 2): "
            "VirtualMachineInstance vmi: metadata.annotations[virt-dra.io/devices]: Forbidden: "
            "DeviceProfile h100 isn't for namespace lab (namespaceSelector)\n", id="another namespace"),
        pytest.param((PROFILE.replace("vfio", '""'), VMI), 1, "error: standard input:2: DeviceProfile h100: "
            "spec.devices[0].deviceClassName: Required value\n", id="a profile"),
        pytest.param((PROFILE, VMI.replace("name: vmi", "generateName: vmi-")), 1,
            "error: standard input:10 (document 2): VirtualMachineInstance: metadata.name: Required value: "
            "the templates of its claims are called after it\n", id="no name"),
        pytest.param((PROFILE, VMI, "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\n"
            "metadata: {name: vmi-gpu, namespace: lab}\nspec: {spec: {}}\n"), 1,
            "error: standard input:10 (document 2): VirtualMachineInstance vmi: metadata.annotations"
            '[virt-dra.io/devices]: Invalid value: "vmi-gpu": the files have another ResourceClaimTemplate of this '
            "name; rename it, or remove it to have it made anew\n", id="a template of another's"),
        pytest.param(("spec: [",), 2, None, id="unreadable"),
        pytest.param((PROFILE.replace("[{name: gpu", "[[{name: gpu").replace("vfio}]", "vfio}]]"),), 2,
            'error: standard input:2: DeviceProfile "h100": spec.devices[0]: must be an object, not a list\n',
            id="another shape"),
    ],
)  # fmt: skip
def test_nothing_is_written_if_anything_is_refused(documents: tuple[str, ...], code: int, message: str | None) -> None:
    result = render(*documents)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: standard input:") if message is None else result.stderr == message


def test_files_without_a_line_are_written_as_they_are() -> None:
    result = render(NAMESPACE.format("web"))
    assert result.exit_code == 0
    assert result.stderr == "note: no VM asks for a profile (annotation virt-dra.io/devices)\n"
    assert yaml.safe_load(result.stdout) == yaml.safe_load(NAMESPACE.format("web"))


def test_files_must_be_named() -> None:
    result = CliRunner().invoke(cli, ["render-profile"])
    assert (result.exit_code, "name the files to read" in result.stderr) == (2, True)


def test_a_profile_with_an_unknown_field_is_refused_as_by_lint() -> None:
    result = render(PROFILE.replace("deviceClassName: vfio", "deviceClassname: vfio"), VMI)
    where = "error: standard input:2: DeviceProfile h100: spec.devices[0]"
    assert (result.exit_code, result.stdout, result.stderr.splitlines()) == (
        1,
        "",
        [
            f'{where}.deviceClassname: unknown field, did you mean "deviceClassName"?',
            f"{where}.deviceClassName: Required value",
        ],
    )
