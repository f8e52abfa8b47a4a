"""docs/guides/install.md leads from nothing to a VM with a device and back: its commands as written, in order, on a
real control plane."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devtools.cluster.programs import CONTROLLERS, KUBECTL, SCHEDULER, binary, require
from devtools.libvirt import witness as libvirt_witness
from tests.guides.page import NOT_RUN, Block, blocks, comparable, of_way
from tests.guides.shell import Ran, Shell

pytestmark = [pytest.mark.control_plane(seconds=50), pytest.mark.libvirt]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "install.md").read_text(encoding="utf-8")
BLOCKS = blocks(PAGE)
WAYS = ("beside-kubevirt", "standalone")
START = "make cluster "
START_SECONDS = 120.0
MAY_FAIL = {"virt-dra doctor": 2}
"""Before virt-dra is installed, that is what it finds."""
COMES_AND_GOES = ("events", "leases", "endpointslices", "componentstatuses")


def test_what_is_told_below_commands_is_looked_for() -> None:
    (block,) = blocks("```sh\nls\n```\n\n```text\nNAME   AGE\nb      5s\n```\n")
    assert block == Block(1, "ls\n", "", ("NAME   AGE", "b      5s"))
    assert block.missing("x\nNAME AGE\na 1s\nb  2m3s\n") is None
    assert block.missing("b 5s\nNAME AGE\n") == "b      5s"
    assert Block(1, "", "", ("pod-… on …",)).missing("pod-x2 on  node-0") is None
    assert Block(1, "", "", ("pod-… on …",)).missing("a pod-x2 on node-0") == "pod-… on …"
    assert comparable("pod-5s  5s") == "pod-5s AGE"
    with pytest.raises(ValueError, match="line 4: nothing that is run is above this output"):
        blocks(f"```sh\n{NOT_RUN}x\n```\n```text\n1\n```\n")


def test_every_block_is_for_a_way_that_there_is() -> None:
    assert {block.way for block in BLOCKS} == {"", *WAYS}


def test_every_example_is_applied() -> None:
    for way in WAYS:
        commands = "".join(block.commands for block in of_way(BLOCKS, way))
        assert [path.name for path in (ROOT / "examples" / "cluster").iterdir() if path.name not in commands] == []


@pytest.mark.parametrize("way", WAYS)
def test_the_guide_leads_from_nothing_to_a_vm_with_a_device_and_back(way: str, tmp_path: Path) -> None:
    require(SCHEDULER, CONTROLLERS, KUBECTL)
    if way == "standalone":
        libvirt_witness.require()
    start, *rest = of_way(BLOCKS, way)
    clone = _clone(tmp_path / "clone")
    kubectl = binary(KUBECTL)
    assert kubectl is not None
    environment = {"PATH": f"{os.environ['PATH']}:{kubectl.parent}", "KUBECONFIG": "", "HOME": str(tmp_path)}
    with (
        _cluster(start, clone, tmp_path / "cluster.log"),
        Shell(tmp_path / "shell", clone, environment, "y\n") as shell,
    ):
        before: list[str] = []
        installed = False
        for block in rest:
            if "virt-dra install --" in block.commands and "--dry-run" not in block.commands and not installed:
                installed, before = True, _objects(shell)
            ran = shell.run(block.commands)
            where = f"docs/guides/install.md, line {block.line}:\n{block.commands}{ran.printed}"
            assert _unexpected(ran, installed) == [], where
            assert block.missing(ran.printed) is None, where
        left = [name for name in _objects(shell) if name not in before]
    assert left == ["ResourceClaimTemplate.resource.k8s.io/v1/default/one-gpu"]


def _unexpected(ran: Ran, installed: bool) -> list[tuple[str, int]]:
    return [(command, code) for command, code in ran.failed if installed or MAY_FAIL.get(command) != code]


def _clone(folder: Path) -> Path:
    """What the repository has, without what others have made in it."""
    folder.mkdir()
    for path in ROOT.iterdir():
        if path.name not in ("out", ".git"):
            (folder / path.name).symlink_to(path)
    return folder


@contextmanager
def _cluster(start: Block, clone: Path, log: Path) -> Iterator[None]:
    """The guide's first command in a terminal of its own, until Ctrl-C."""
    command = start.commands.strip()
    assert command.startswith(START), f"the first command starts a cluster: {command}"
    with log.open("w") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=clone,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not re.search("^export KUBECONFIG=", log.read_text(encoding="utf-8"), re.MULTILINE):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        yield
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.wait(START_SECONDS)


def _objects(shell: Shell) -> list[str]:
    """Everything that is stored: kind/namespace/name."""
    kinds = [
        kind
        for kind in _asked(shell, "kubectl api-resources --verbs=list -o name")
        if kind.split(".")[0] not in COMES_AND_GOES
    ]
    line = r'{range .items[*]}{.kind}.{.apiVersion}/{.metadata.namespace}/{.metadata.name}{"\n"}{end}'
    return sorted(_asked(shell, f"kubectl get {','.join(kinds)} -A -o jsonpath='{line}'"))


def _asked(shell: Shell, command: str) -> list[str]:
    ran = shell.run(command)
    assert ran.failed == (), ran.printed
    return ran.printed.splitlines()
