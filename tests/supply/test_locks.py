"""The lock files hold what pyproject.toml asks for, each with its hashes; nothing here needs a network."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from devtools import locks

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "requirements").glob("*.txt")}


def test_lock_files_and_pyproject_agree() -> None:
    assert set(LOCKS) == {*locks.EXTRAS_OF, "setup", "tools"}
    assert locks.problems(PROJECT, LOCKS) == [], "run: make lock"


def test_everything_that_a_locked_package_needs_is_locked() -> None:
    """As far as this environment can say: of what is installed here in the locked version."""
    entries, _ = locks.read(LOCKS["dev"])
    installed: dict[str, importlib.metadata.Distribution] = {
        canonicalize_name(distribution.name): distribution for distribution in importlib.metadata.distributions()
    }
    same = {entry.name: installed[entry.name].requires or [] for entry in entries if entry.name in installed}
    assert len(same) > 50
    assert locks.unmet_of_installed(entries, same) == []
    lacking = [entry for entry in entries if entry.name != "pydantic-core"]
    (unmet,) = locks.unmet_of_installed(lacking, same)
    assert unmet.startswith("pydantic needs pydantic-core==")


def _changed(table: str, old: str, new: str) -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    where = project["project"] if table == "dependencies" else project["project"]["optional-dependencies"]
    assert any(old in requirement for requirement in where[table])
    where[table] = [new if old in requirement else requirement for requirement in where[table]]
    return project


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        (_changed("dependencies", "click", "click>=99"), "run.txt: click>=99 is locked to"),
        (_changed("dependencies", "click", "clack"), "image.txt: clack is not there"),
        (_changed("operator", "kopf", "kopf<1"), "image.txt: kopf<1 is locked to"),
        (
            _changed("webhook", "aiohttp", "aiohttp==1"),
            "dev.txt: aiohttp==1 is locked to",
        ),  # reached through the extra dev
        (_changed("libvirt", "libvirt-python", "libvirt-python<2"), "libvirt.txt: libvirt-python<2 is locked to"),
        (_changed("dev", "pytest-mock", "absent; python_version >= '3.14'"), "dev.txt: absent"),
        ({**PROJECT, "build-system": {"requires": ["setuptools>=1000"]}}, "setup.txt: setuptools>=1000 is locked to"),
    ],
)
def test_a_range_that_the_lock_does_not_meet_is_found(project: dict[str, Any], expected: str) -> None:
    assert any(line.startswith(expected) for line in locks.problems(project, LOCKS))


@pytest.mark.parametrize(
    ("name", "pattern", "by", "expected"),
    [
        (
            "image",
            r"click==(\S+) \\\n(    --hash=\S+( \\)?\n)+",
            r"click==\1\n",
            "image.txt: click has no hash (or no sha256)",
        ),
        ("run", r"--hash=sha256:", "--hash=md5:", "run.txt: annotated-types has no hash (or no sha256)"),
        ("run", r"click==\S+", "click>=8", "run.txt: click is not locked to one version"),
        ("run", r"click==\S+", "click==8.2.0", "and 8.2.0 in run.txt"),
        ("dev", r"\A", "--index-url x\n", "dev.txt: no locked requirement: --index-url x"),
        ("dev", r"\A", "evil @ file:///x\n", "dev.txt: no locked requirement: evil @ file:///x"),
    ],
)
def test_a_line_that_locks_nothing_is_found(name: str, pattern: str, by: str, expected: str) -> None:
    text, times = re.subn(pattern, by, LOCKS[name])
    assert times
    assert any(expected in line for line in locks.problems(PROJECT, {**LOCKS, name: text}))


def test_wheels_with_another_content_are_refused(tmp_path: Path) -> None:
    """What tools/venv.sh and the Containerfile rely on: pip itself, without a network."""
    click = next(entry for entry in locks.read(LOCKS["run"])[0] if entry.name == "click")
    (tmp_path / f"click-{click.version}-py3-none-any.whl").write_bytes(b"PK\x05\x06" + bytes(18))
    wanted = f"click=={click.version} " + " ".join(f"--hash={digest}" for digest in click.hashes)
    (tmp_path / "one.txt").write_text(wanted, encoding="utf-8")
    words = (
        f"-m pip download --no-index --find-links {tmp_path} --no-deps "
        f"--require-hashes -r {tmp_path}/one.txt -d {tmp_path}/out"
    )
    answer = subprocess.run([sys.executable, *words.split()], capture_output=True, text=True, check=False)
    assert answer.returncode != 0
    assert "DO NOT MATCH THE HASHES" in answer.stderr or "No matching distribution" in answer.stderr


def test_nothing_is_installed_without_hashes() -> None:
    """Every ``pip install`` and ``pip wheel`` of the set-up and the images asks for hashes, or takes nothing from
    anywhere."""
    for name in ("tools/venv.sh", "tools/libvirt.sh", "tools/matrix.sh", "Containerfile"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(
            r"^.*\bpip(?:\"|')?(?: [^\n]*?)? (?:install|wheel|--require|--no-index) .*$", text, re.MULTILINE
        ):
            if not line.lstrip().startswith("#") and 'install "$@"' not in line:
                assert "--require-hashes" in line or "--no-index" in line, f"{name}: {line}"
