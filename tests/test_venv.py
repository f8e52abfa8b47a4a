"""tools/venv.sh, which makes the environment that everything else runs in."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_is_installed_behind_a_link_names_the_environment_itself(tmp_path: Path) -> None:
    """A clone of links, as the guide's test makes one, left scripts that began with the path of the clone, which goes with the test."""
    real, clone = tmp_path.resolve() / "environment", tmp_path / "clone"
    (real / "bin").mkdir(parents=True)
    python = real / "bin" / "python"
    python.write_text(f'#!/bin/sh\necho "$0 $*" >> {real}/asked\n', encoding="utf-8")
    python.chmod(0o755)
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    (clone / "tools").symlink_to(ROOT / "tools")
    (clone / ".venv").symlink_to(real)
    subprocess.run([clone / "tools" / "venv.sh", "dev"], check=True, stdout=subprocess.DEVNULL)
    (asked,) = (real / "asked").read_text(encoding="utf-8").splitlines()
    assert asked == f"{python} -m pip --quiet --disable-pip-version-check install --editable .[dev]"
    assert (real / ".ready-dev").exists()
