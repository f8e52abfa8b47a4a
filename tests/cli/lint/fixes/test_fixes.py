"""What ``virt-dra lint --fix`` corrects: cases as data, with the whole report, the diff in it, and the files
afterwards."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.api.editing.test_text_edits import patched
from tests.conftest import Golden
from virt_dra.api.conversion import from_v1
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Sourced, read_document, read_documents
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.cli.main import cli

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(path.name for path in FOLDER.iterdir())
EXAMPLES = Path(__file__).parents[4] / "examples"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, ["lint", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _prepared(name: str, files: Path) -> list[str]:
    """The options of a case, whose files are then in the current folder."""
    for path in sorted((FOLDER / name).iterdir()):
        if path.name != "options":
            shutil.copy(path, files)
    options = FOLDER / name / "options"
    named = [option for path in sorted(files.iterdir()) for option in ("-f", path.name)]
    return ["--fix", "-q", *named, *(options.read_text(encoding="utf-8").split() if options.exists() else ())]


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_corrected_as_the_diff_says(name: str, files: Path, golden: Golden) -> None:
    options = _prepared(name, files)
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    shown = run(*options)
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before
    result = run(*options, "--yes")
    assert shown.stdout.startswith(result.stdout.partition("1 file changed\n")[0])
    golden(f"{name}/report.txt", f"{result.stdout}{result.stderr}exit code {result.exit_code}\n")
    for path in sorted(files.iterdir()):
        golden(f"{name}/{path.name}", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_a_second_time_there_is_nothing_to_fix(name: str, files: Path) -> None:
    options = _prepared(name, files)
    run(*options, "--yes")
    once = {path.name: path.read_bytes() for path in files.iterdir()}
    again = run(*options, "--yes")
    assert "nothing to fix" in again.stdout
    assert {path.name: path.read_bytes() for path in files.iterdir()} == once


def _objects(text: bytes, name: str) -> list[TypedObject]:
    return [
        sourced.object
        for document in read_documents(text, name)
        if isinstance(sourced := read_document(document), Sourced)
    ]


def _styles(objects: list[dict[str, object]]) -> dict[str, str]:
    """The same objects, written differently."""
    blocks = "---\n".join(write_yaml(obj) for obj in objects)
    listed = {"kind": "List", "apiVersion": "v1", "items": objects}
    return {
        "block.yaml": blocks,
        "windows.yaml": blocks.replace("\n", "\r\n"),
        "commented.yaml": "".join(f"{line}  # {number}\n" for number, line in enumerate(blocks.splitlines())),
        "flow.yaml": "\n---\n".join(json.dumps(obj) for obj in objects),
        "list.yaml": write_yaml(listed),
        "lines.json": json.dumps(listed, indent=2),
        "tabs.json": json.dumps(listed, indent="\t"),
        "compact.json": json.dumps(listed, separators=(",", ":")),
        "concatenated.json": "\n".join(json.dumps(obj, indent=4) for obj in objects),
    }


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1", "v1alpha3"])
@pytest.mark.parametrize(
    "example", ["gpu-pci", "driver-nvidia", "driver-sriov", "first-available", "match-pcie-root", "vgpu-mdev"]
)
def test_examples_in_every_version_and_style_become_what_they_are_in_v1(
    example: str, version: str, files: Path
) -> None:
    """A-22.2, A-22.3: the objects mean the same, and all but what the diff has stays as it is."""
    read = [
        obj for path in sorted((EXAMPLES / example).glob("*.yaml")) for obj in _objects(path.read_bytes(), path.name)
    ]
    group = "resource.k8s.io"
    wires = [obj.to_wire() for obj in read]
    older = [from_v1(wire, f"{group}/{version}") if wire["apiVersion"] == f"{group}/v1" else wire for wire in wires]
    for style, text in _styles(older).items():
        if style == "commented.yaml" and "|" in text:
            continue  # comments would be part of a block of text
        path = files / style
        path.write_bytes(text.encode())
        result = run("--fix", "-o", "json", "--yes", "-f", style, "--ignore", "address-key,vfio-config-missing")
        report = json.loads(result.stdout)
        assert report["fixes"]["applied"], style
        assert report["fixes"]["dropped"] == []
        after = path.read_bytes().decode()
        assert _objects(after.encode(), style) == read
        assert group + "/v1beta" not in after
        assert group + "/v1alpha" not in after
        assert patched(text, report["fixes"]["files"][0]["diff"]) == after
        if style.endswith(".json") and style != "concatenated.json":
            json.loads(after)
        if style == "commented.yaml":
            comments = {line.rpartition("# ")[2] for line in after.splitlines()}
            lost = [line for number, line in enumerate(text.splitlines()) if str(number) not in comments]
            assert [
                line for line in lost if line.partition("  # ")[0].strip() not in ("allNodes: false", 'nodeName: ""')
            ] == []
