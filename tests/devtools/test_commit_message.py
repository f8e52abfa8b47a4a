"""Messages of commits, as the hook commit-msg checks them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.commit_message import faults

ROOT = Path(__file__).parents[2]
WHY = "\n\nThe first devices that fit may be the last ones that another\nclaim can take.\n"


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("allocator: skip interchangeable devices", 20),
        ("allocator: skip interchangeable devices" + WHY, 500),
        ("controllers, classic: name bindings after what they hold", 3),
        ("virt_dra/api: process large lists item by item", 3),
        ("docs: address the reader\n# Please enter the commit message\n#\n", 3),
        ("setup: embed the table\n# ------------------------ >8 ------------------------\n" + "+x" * 99, 3),
        (f"docs: link the page{WHY}\nhttps://example.com/{'a' * 80}\n", 100),
        ("Merge branch 'main'", 500),
        ("fixup! anything that is squashed later", 500),
    ],
)
def test_a_message_passes(message: str, changed: int) -> None:
    assert list(faults(message, changed)) == []


IMPERATIVE = "the subject is an imperative (add, skip, name …) and doesn't begin with"


@pytest.mark.parametrize(
    ("message", "changed", "problem"),
    [
        ("", 3, "the subject must begin with an area and a colon: allocator: skip interchangeable devices"),
        (
            "Skip interchangeable devices",
            3,
            "the subject must begin with an area and a colon: allocator: skip interchangeable devices",
        ),
        (f"allocator: skip {'x' * 60}", 3, "the subject has 76 characters; at most 72 are shown everywhere"),
        ("allocator: skipped devices", 3, f"{IMPERATIVE} 'skipped'"),
        ("allocator: skipping devices", 3, f"{IMPERATIVE} 'skipping'"),
        ("allocator: skips devices", 3, f"{IMPERATIVE} 'skips'"),
        ("allocator: the devices are skipped", 3, f"{IMPERATIVE} 'the'"),
        ("allocator: skip devices.", 3, "the subject must not end with a period"),
        ("allocator: skip devices\nthat are alike", 3, "the line below the subject must be empty"),
        ("allocator: skip devices", 21, "a body says why: this commit changes 21 lines"),
        (f"allocator: skip devices\n\n{'word ' * 15}", 21, "lines of the body have at most 72 characters"),
    ],
)
def test_a_message_is_refused(message: str, changed: int, problem: str) -> None:
    assert list(faults(message, changed)) == [problem]


def test_the_hook_measures_what_is_staged(tmp_path: Path) -> None:
    def run(*command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    run("git", "init", "-q")
    (tmp_path / "file").write_text("line\n" * 30)
    (tmp_path / "message").write_text("docs: add a page\n")
    run("git", "add", "file")
    hook = (sys.executable, "-m", "devtools.commit_message", "message")
    refused = run(*hook)
    assert (refused.returncode, refused.stderr) == (
        1, "commit message: a body says why: this commit changes 30 lines\n",
    )  # fmt: skip
    (tmp_path / "message").write_text("docs: add a page\n\nNobody found it.\n")
    assert run(*hook).returncode == 0
