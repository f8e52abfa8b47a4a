"""The manual pages: complete, and without faults in the eyes of groff and mandoc."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from devtools.man_pages import ManualEdition, escaped, manual_pages
from virt_dra.cli.main import SUBCOMMANDS

PAGES = manual_pages(ManualEdition("1.2.3", date(2026, 5, 4)))


def test_every_program_has_a_page() -> None:
    assert PAGES.keys() == {
        "virt-dra.1",
        "virt-dra-launcher.1",
        "virt-dra-hook.1",
        *(f"virt-dra-{name}.1" for name in SUBCOMMANDS),
    }
    for name, page in PAGES.items():
        sections = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
        assert sections[:4] == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"], name
        assert {"EXAMPLES", "SEE ALSO"} <= set(sections), name
        assert "EXIT STATUS" in sections or name == "virt-dra.1", name


def test_a_page_says_what_help_says() -> None:
    text = _shown(PAGES["virt-dra-uninstall.1"])
    assert "VIRT-DRA-UNINSTALL(1)" in text
    assert "virt-dra-uninstall - Remove virt-dra from a cluster" in text
    assert "-y, --yes\n              Don't ask." in text
    assert "0 removed, or nothing to remove; 1 time ran out; 2 refused" in " ".join(text.split())
    assert "virt-dra 1.2.3" in text
    assert "2026-05-04" in text


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (".SH x", r"\&.SH x"),
        ("a\\b", r"a\eb"),
        ("'x'", r"\(aqx\(aq"),
        ("--out", r"\-\-out"),
        ("Größe…", r"Gr\[u00F6]\[u00DF]e\[u2026]"),
    ],
)
def test_text_can_not_be_taken_for_a_request(text: str, source: str) -> None:
    assert escaped(text) == source


def _required(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"needs {program}; on Debian and Ubuntu: apt-get install {package}")
    return path


def _shown(page: str) -> str:
    groff = [_required("groff", "groff"), "-man", "-ww", "-Tascii", "-P-c", "-P-b", "-P-o", "-P-u", "-rLL=100n"]
    ran = subprocess.run(groff, input=page, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.parametrize("name", PAGES)
def test_groff_has_no_warnings(name: str) -> None:
    assert "SEE ALSO" in _shown(PAGES[name])


def test_mandoc_has_no_warnings(tmp_path: Path) -> None:
    mandoc = _required("mandoc", "mandoc")
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page, encoding="ascii")
    ran = subprocess.run(
        [mandoc, "-Tlint", "-Wwarning", *PAGES], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "")
