"""``make help`` lists every target, and CONTRIBUTING shows what it lists; ``make run`` has the examples that work."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.test_examples import ELSEWHERE, WAITING

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def _help(*arguments: str) -> list[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_help_is_the_default_and_lists_every_target() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)
    assert [line.split()[1] for line in _help()] == targets
    assert _help("help") == _help()
    assert [line for line in _help() if len(line) > 120] == []


def test_every_target_is_phony() -> None:
    phony = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert sorted(" ".join(phony).split()) == sorted(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def test_contributing_shows_the_list() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    make ")]
    assert shown[-len(_help()) :] == _help()


def test_make_run_drives_the_examples_whose_vms_become_ready() -> None:
    """Those that tests/test_examples.py runs, but for the one in which a VM waits: with it ``make run`` would fail."""
    (left_out,) = re.findall(r"^READY := .*foreach name,([a-z -]*),", MAKEFILE, re.MULTILINE)
    assert left_out.split() == sorted([*ELSEWHERE, *WAITING])
