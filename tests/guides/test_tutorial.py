"""docs/tutorial.md: from the installation to the simulation, every command as written prints what the page shows, and
nothing else."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Final

import pytest

from tests.guides.page import Block, blocks
from tests.guides.shell import Shell

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
FINDS_SOMETHING: Final = (
    "virt-dra lint -f cluster.yaml -f vm.yaml",
    "virt-dra lint -f cluster.yaml -f vm.yaml",
    "virt-dra allocate -f out/objects",
    "virt-dra explain claim second",
)
"""What ends with 1, each once: it is there to find something."""


@pytest.mark.slow
def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    clone, home = tmp_path / "clone", tmp_path / "home"
    _clone(clone)
    home.mkdir()
    # pip works as it does for a reader, but takes what virt-dra depends on, and what builds it, from the environment of
    # the tests.
    environment = {
        "HOME": str(home),
        "PYTHONPATH": str(_dependencies(tmp_path / "dependencies")),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say yes to an option that begins with no
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    failed: list[str] = []
    with Shell(tmp_path / "shell", clone, environment, "") as shell:
        for block in blocks(PAGE):
            ran = shell.run(block.commands)
            where = f"docs/tutorial.md, line {block.line}:\n{block.commands}{ran.printed}"
            assert [code for _, code in ran.failed] == [1] * len(ran.failed), where
            failed += [command for command, _ in ran.failed]
            assert block.missing(ran.printed) is None, f"{where}\nmissing: {block.missing(ran.printed)}"
            assert _lines(ran.printed) == len(block.shown), f"{where}\nmore is printed than is shown"
    assert [command.startswith(expected) for command, expected in zip(failed, FINDS_SOMETHING, strict=True)] == [
        True
    ] * len(FINDS_SOMETHING)
    installed = subprocess.run(
        [clone / ".venv" / "bin" / "pip", "show", "--files", "virt-dra"], capture_output=True, text=True, check=True
    )
    assert f"Location: {clone}/.venv/" in installed.stdout


def test_every_file_of_the_tutorial_is_written_by_it() -> None:
    on_page: tuple[Block, ...] = blocks(PAGE)
    written = [
        line.split()[2] for block in on_page for line in block.commands.splitlines() if line.startswith("cat > ")
    ]
    assert written == ["cluster.yaml", "vm.yaml", "second.yaml", "fleet.yaml"]
    assert "```yaml" not in PAGE


def _lines(printed: str) -> int:
    return sum(1 for line in printed.splitlines() if line.strip())


def _clone(folder: Path) -> None:
    """The repository's files, those included that are new: copied, since a build writes beside them."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in names.stdout.decode().split("\0"):
        source = ROOT / name
        if name and name.split("/")[0] not in ("tests", "bench") and (source.is_symlink() or source.is_file()):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            else:
                target.write_bytes(source.read_bytes())
                target.chmod(source.stat().st_mode)


def _dependencies(folder: Path) -> Path:
    """Every package of this environment but virt-dra itself."""
    folder.mkdir()
    for name in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(name).iterdir():
            if not any(part in path.name for part in ("virt_dra", "distutils-precedence", ".pth")):
                (folder / path.name).symlink_to(path)
    return folder
