"""tools/venv.sh, which makes the environment that everything else runs in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_is_installed_behind_a_link_names_the_environment_itself(tmp_path: Path) -> None:
    """A clone of links, as the guide's test makes one, left scripts that began with the path of the clone, which goes
    with the test."""
    real, clone = tmp_path.resolve() / "environment", tmp_path / "clone"
    (real / "bin").mkdir(parents=True)
    python = real / "bin" / "python"
    python.write_text(f'#!/bin/sh\necho "$0 $*" >> {real}/asked\n', encoding="utf-8")
    python.chmod(0o755)
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    (clone / "requirements").symlink_to(ROOT / "requirements")
    (clone / "tools").symlink_to(ROOT / "tools")
    (clone / ".venv").symlink_to(real)
    subprocess.run([clone / "tools" / "venv.sh", "dev"], check=True, stdout=subprocess.DEVNULL)
    asked = (real / "asked").read_text(encoding="utf-8").splitlines()
    pip = f"{python} -m pip --quiet --disable-pip-version-check install"
    assert asked == [
        f"{pip} --require-hashes --requirement requirements/setup.txt",
        f"{pip} --require-hashes --requirement requirements/dev.txt",
        f"{pip} --no-index --no-deps --no-build-isolation --editable .",
        ".venv/bin/python -m compileall -q virt_dra webhooks launcher node_driver",
    ]
    assert (real / ".ready-dev").exists()


def test_it_installs_again_only_when_a_lock_file_or_the_project_changed(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / ".venv" / "bin").mkdir(parents=True)
    (clone / "tools").mkdir()
    (clone / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/dev.txt"):
        (clone / name).touch()
    (clone / "tools" / "venv.sh").write_bytes((ROOT / "tools" / "venv.sh").read_bytes())
    python = clone / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$0 $*" >> asked\n', encoding="utf-8")
    python.chmod(0o755)

    def runs() -> int:
        (clone / "asked").unlink(missing_ok=True)
        subprocess.run(["sh", clone / "tools" / "venv.sh", "dev,bench"], check=True, stdout=subprocess.DEVNULL)
        return len((clone / "asked").read_text(encoding="utf-8").splitlines()) if (clone / "asked").exists() else 0

    for path in clone.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assert (runs(), runs()) == (4, 0)
    for name in ("requirements/dev.txt", "pyproject.toml"):
        later = (clone / ".venv" / ".ready-dev,bench").stat().st_mtime + 1
        os.utime(clone / name, (later, later))
        assert runs() == 4
        os.utime(clone / name, (1_000_000_000, 1_000_000_000))
        assert runs() == 0
