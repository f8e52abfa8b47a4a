"""``virt-dra schema``: which there are, and that outputs and KubeVirt's objects are as they say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from devtools.go_tools import go_tool
from tests.json_schema import faults
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import read_documents
from virt_dra.cli.main import cli
from virt_dra.cli.program.schema import OBJECTS, object_schema, output_kinds

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "examples" / "inventory")
KINDS = {kind: name for name, kind in OBJECTS.items()}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "-o", "json").stdout)


def test_the_list_has_every_schema_and_each_is_printed() -> None:
    listed = [line.split()[0] for line in run("schema").stdout.splitlines()[1:]]
    files = sorted(file.name.removesuffix(".schema.json") for file in (ROOT / "docs" / "schemas").glob("*.json"))
    assert listed == [*OBJECTS, *files]
    for name in listed:
        assert json.loads(run("schema", name).stdout)["title"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(("inventory", f"get {kind} -f {EXAMPLE}") for kind in ("vms", "devices", "claims", "pools", "drivers")),
        ("inventory", f"get vms,devices,claims,pools,drivers -f {EXAMPLE}"),
        ("inventory", f"get vm/desktop -f {EXAMPLE}"),
        ("inventory", f"get claims -n nobody -f {EXAMPLE}"),
        ("version", "version"),
        ("configuration", "config"),
    ],
)
def test_an_output_is_as_its_schema_says(name: str, arguments: str) -> None:
    assert faults(document(*arguments.split()), json.loads(output_kinds()[name])) == []


def test_a_row_with_an_unknown_member_is_not() -> None:
    row = document("get", "pool/nics", "-f", EXAMPLE)
    schema = json.loads(output_kinds()["inventory"])
    assert faults(row, schema) == []
    assert faults({**row, "colour": "red"}, schema) != []


def _closed_faults(value: Any, schema: Any, path: str = "") -> list[str]:
    """Fields that a schema doesn't have, and required ones that aren't there."""
    if isinstance(value, list):
        return [fault for item in value for fault in _closed_faults(item, schema.get("items", {}), f"{path}[]")]
    if not isinstance(value, dict):
        return []
    missing = [f"{path}.{name}: missing" for name in schema.get("required", ()) if name not in value]
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, member in value.items():
        if name not in properties and others is False:
            missing.append(f"{path}.{name}: unknown")
        else:
            missing += _closed_faults(member, properties.get(name, others), f"{path}.{name}")
    return missing


def _objects(folder: str) -> list[Any]:
    return [
        written.raw
        for file in sorted((ROOT / "examples" / folder).glob("*.yaml"))
        for written in read_documents(file.read_bytes(), file.name)
        if isinstance(written.raw, dict) and written.raw.get("kind") in KINDS
    ]


@pytest.mark.parametrize("folder", ["gpu-pci", "vgpu-mdev", "inventory"])
def test_the_examples_of_vms_are_as_the_schema_says(folder: str) -> None:
    objects = _objects(folder)
    assert objects
    for manifest in objects:
        schema = object_schema(KINDS[manifest["kind"]], KubeVirtVersion.parse_known("1.9"))
        assert _closed_faults(manifest, schema) == []


def test_fields_are_those_of_the_release() -> None:
    def gpu_fields(version: str) -> set[str]:
        schema = json.loads(run("schema", "vmi", "--kubevirt-version", version).stdout)
        spec = schema["properties"]["spec"]["properties"]
        return set(spec["domain"]["properties"]["devices"]["properties"]["gpus"]["items"]["properties"])

    assert {"claimName", "requestName"} <= gpu_fields("1.9")
    assert {"claimName", "requestName"}.isdisjoint(gpu_fields("1.5"))
    schema = object_schema("vmi", KubeVirtVersion.parse_known("1.9"))
    misspelt = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {},
        "spec": {"domian": {}},
    }
    assert _closed_faults(misspelt, schema) == [".spec.domain: missing", ".spec.domian: unknown"]


def _kubeconform(schemas: Path, *files: Path) -> tuple[int, str]:
    """What kubeconform says of manifests, by the schemas that virt-dra printed, and those alone."""
    location = str(schemas / "{{.ResourceKind}}.json")
    program = go_tool("kubeconform", "kubeconform")
    done = subprocess.run(
        [program, "-strict", "-summary", "-schema-location", location, *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.go
def test_kubeconform_takes_the_examples_and_finds_what_is_misspelt(tmp_path: Path) -> None:
    for name, kind in OBJECTS.items():
        printed = run("schema", name, "--kubevirt-version", "1.9").stdout
        (tmp_path / f"{kind.lower()}.json").write_text(printed, encoding="utf-8")
    good, wrong = tmp_path / "good.yaml", tmp_path / "wrong.yaml"
    objects = [manifest for folder in ("gpu-pci", "vgpu-mdev", "inventory") for manifest in _objects(folder)]
    good.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    code, said = _kubeconform(tmp_path, good)
    assert (code, f"Valid: {len(objects)}, Invalid: 0, Errors: 0, Skipped: 0" in said) == (0, True), said
    manifest = json.loads(json.dumps(next(vmi for vmi in objects if vmi["kind"] == "VirtualMachineInstance")))
    (device,) = manifest["spec"]["domain"]["devices"]["gpus"]
    device["claimNam"] = device.pop("claimName")
    wrong.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    code, said = _kubeconform(tmp_path, wrong)
    assert code == 1
    assert "at '/spec/domain/devices/gpus/0': additional properties 'claimNam' not allowed" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("schema inventori", 'error: there is no schema of "inventori"; did you mean inventory?'),
        ("schema inventory --kubevirt-version 1.9", "--kubevirt-version goes with vm and vmi"),
        ("schema vmi --kubevirt-version 9", "Invalid value for '--kubevirt-version'"),
    ],
)
def test_what_has_no_schema_is_refused(arguments: str, message: str) -> None:
    result = run(*arguments.split())
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
