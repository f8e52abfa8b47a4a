"""Every output of every page is as its published schema says: of what is shown as JSON, YAML or JSON lines, and of each
other command when it is run once more with ``-o json``."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.guides.outputs import READING, OutputRecorder, RecordedOutput
from tests.guides.page import Block, blocks
from tests.guides.shell import Shell
from tests.guides.test_simulator_guides import GUIDES as RECORDED_THERE

ROOT: Final = Path(__file__).parents[2]
_ELSEWHERE: Final = re.compile(
    r"\b(?:kubectl|kustomize|helm|docker|podman|buildah|pip|make|sudo|curl|git|ssh|systemctl|pytest|kubeconform)\b|--live|real\b"
    r"|virt-dra (?:install|uninstall|top|webhook|operator|keeper|report-server|release|doctor|node-check|extender"
    r"|node-driver)\b"
)
"""Commands of blocks that need a cluster, a node, or the installation of something; they are run by other tests."""

_WRITES: Final = re.compile(rf"virt-dra (?:{READING}|admit|render|device-status)\b")


def _recordable(page: Path) -> tuple[Block, ...]:
    shown = re.sub(r"^```text\n.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return tuple(block for block in blocks(shown) if not block.way and not _ELSEWHERE.search(block.commands))


PAGES: Final = {
    str(page.relative_to(ROOT)): run
    for page in sorted(
        (
            ROOT / "README.md",
            *ROOT.glob("docs/*.md"),
            *ROOT.glob("docs/guides/*.md"),
            *ROOT.glob("examples/**/README.md"),
        )
    )
    if page.stem not in RECORDED_THERE
    for run in [_recordable(page)]
    if any(_WRITES.search(block.commands) for block in run)
}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_outputs_of_a_page_are_as_published(page: str, tmp_path: Path, program: Path) -> None:
    folders = (program.parent, Path(sys.executable).parent, os.environ["PATH"])
    recorder = OutputRecorder(
        tmp_path / "outputs", {"PATH": os.pathsep.join(map(str, folders)), "PYTHONPATH": str(ROOT)}
    )
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "examples").symlink_to(ROOT / "examples")
    with Shell(tmp_path / "shell", tmp_path / "here", recorder.environment, "") as shell:
        for block in PAGES[page]:
            shell.run(block.commands)
    assert recorder.faults() == []
    assert recorder.outputs()


def test_a_fault_of_an_output_is_found(tmp_path: Path, program: Path) -> None:
    recorder = OutputRecorder(tmp_path / "outputs", {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"})
    with Shell(tmp_path / "shell", ROOT, recorder.environment, "") as shell:
        ran = shell.run("virt-dra get pools -f examples/inventory\nvirt-dra get vms -f nothing.yaml -o json\n")
    table, refusal = recorder.outputs()
    assert "GENERATION" in ran.printed
    assert '"items"' not in ran.printed
    assert table.words == ("get", "pools", "-f", "examples/inventory")
    assert json.loads(refusal.text)["kind"] == "Error"
    assert (table.faults(), refusal.faults()) == ([], [])
    strange = RecordedOutput(table.words, table.text.replace('"free"', '"unused"', 1))
    assert strange.faults() == ["virt-dra get pools -f examples/inventory: : none of the choices"]
    assert RecordedOutput(("get",), '{"kind": "Strange"}').faults() == ["virt-dra get: no schema of Strange"]
