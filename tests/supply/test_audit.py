"""The audit of dependencies: what fails it, and that it never calls clean what nobody looked at. pip-audit is stood in
for by a script that answers as version 2.10 does: behind a mirror without advisories as recorded, without a network
shortened, and with a vulnerability written by hand to its format, as no advisory could be read where these tests were
made."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path

import pytest

from devtools import audit

TODAY = date(2026, 11, 22)
CLEAN = {"name": "click", "version": "8.5.1", "vulns": []}
ADVISORY = {
    "id": "PYSEC-2024-26",
    "fix_versions": ["3.9.2"],
    "aliases": ["CVE-2024-23829", "GHSA-8qpw-xqxj-h4r2"],
    "description": "…",
}
FAULTY = {"name": "aiohttp", "version": "3.9.1", "vulns": [ADVISORY]}
UNKNOWN = {"name": "lxml", "skip_reason": "Dependency not found on PyPI and could not be audited: lxml (6.1.3)"}
OFFLINE = (
    "Traceback (most recent call last):\nrequests.exceptions.ConnectionError: "
    "HTTPSConnectionPool(host='x', port=443): Max retries exceeded"
)


def entry(identifier: str = "CVE-2024-23829", package: str = "aiohttp", until: str = "2027-01-01") -> str:
    return (
        f'[[ignore]]\nid = "{identifier}"\npackage = "{package}"\nuntil = {until}\nreason = "its client is not used"\n'
    )


def stand_in(folder: Path, answers: dict[str, list[object] | str]) -> Path:
    """A program that answers as pip-audit does: the packages of a report, or what a service that can't be reached
    leaves."""
    texts = {
        name: json.dumps({"dependencies": answer, "fixes": []}) if isinstance(answer, list) else ""
        for name, answer in answers.items()
    }
    errors = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
    program = folder / "pip-audit"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert '--require-hashes' in sys.argv and '--disable-pip' in sys.argv\n"
        "service = sys.argv[sys.argv.index('--vulnerability-service') + 1]\n"
        f"print({texts!r}[service]); print({errors!r}.get(service, ''), "
        f"file=sys.stderr)\nsys.exit(service in {errors!r})\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("pypi", "osv", "ignores", "code", "out", "error"),
    [
        ([CLEAN], "not asked", "", 0, "audit: 1 packages, 0 known vulnerabilities, 0 ignored", ""),
        (
            [CLEAN, FAULTY],
            "not asked",
            "",
            1,
            "1 known",
            "aiohttp 3.9.1 has PYSEC-2024-26 (CVE-2024-23829, GHSA-8qpw-xqxj-h4r2): UPGRADE=aiohttp",
        ),
        ([CLEAN, FAULTY], "not asked", entry(), 0, "1 known vulnerabilities, 1 ignored", ""),
        ([FAULTY], "not asked", entry("PYSEC-2024-26"), 0, "1 ignored", ""),
        ([FAULTY], "not asked", entry(package="yarl"), 1, "1 known", "aiohttp 3.9.1 has"),
        ([FAULTY], "not asked", entry(until="2026-11-21"), 1, "1 known", "was ignored until 2026-11-21: review it"),
        ([FAULTY], "not asked", entry(until="2026-11-22"), 0, "1 known", ""),
        ([CLEAN], "not asked", entry(), 1, "0 known", "is on the list, and nothing has it any more"),
        ([UNKNOWN, UNKNOWN], [CLEAN, FAULTY], "", 1, "2 packages, 1 known", "aiohttp 3.9.1 has"),
        ([UNKNOWN, CLEAN], OFFLINE, "", 1, "1 packages", "lxml was not audited"),
        (
            [UNKNOWN],
            OFFLINE,
            "",
            0,
            "not done, no advisories can be read from here (pypi: knows none of the packages; osv: requests.exc",
            "",
        ),
        (OFFLINE, OFFLINE, "", 0, "audit: not done", ""),
        (OFFLINE, OFFLINE, entry(until="2026-01-01"), 1, "audit: not done", "was ignored until 2026-01-01"),
        ([CLEAN], "not asked", '[[ignore]]\nid = "x"\n', 2, "", "audit: list.toml: each [[ignore]] has"),
        ([CLEAN], "not asked", entry(until='"2027-01-01"'), 2, "", "until is a date"),
        ([CLEAN], "not asked", entry() + entry(), 2, "", "is there twice"),
        ([CLEAN], "not asked", "ignored = 1", 2, "", "only [[ignore]] may stand there"),
        ([CLEAN], "not asked", "[[", 2, "", "audit: list.toml: "),
    ],
)
def test_what_fails_the_audit(
    pypi: list[object] | str,
    osv: list[object] | str,
    ignores: str,
    code: int,
    out: str,
    error: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "list.toml").write_text(ignores, encoding="utf-8")
    program = stand_in(tmp_path, {"pypi": pypi, "osv": osv})
    options = ["--pip-audit", str(program), "--ignored", str(tmp_path / "list.toml")]
    assert audit.main(options, today=TODAY) == code
    said = capsys.readouterr()
    assert out in said.out
    assert error in said.err
    assert bool(said.err) == bool(code)
    assert len(said.out.splitlines()) <= 1


def test_a_release_is_not_made_unaudited(tmp_path: Path) -> None:
    program = stand_in(tmp_path, {"pypi": OFFLINE, "osv": OFFLINE})
    assert audit.main(["--strict", "--pip-audit", str(program)], today=date(2020, 1, 1)) == 1


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 1)])
def test_without_pip_audit_one_line_says_how_to_get_it(
    options: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main([*options, "--pip-audit", str(tmp_path / "pip-audit")], today=date(2020, 1, 1)) == code
    said = capsys.readouterr()
    assert (
        said.out == "audit: not done, pip-audit can't be started (No such file or directory); make audit sets it up\n"
    )
    assert said.err == ""


def test_the_kept_list_is_well_formed_and_every_lock_file_is_audited() -> None:
    for entry in audit.ignored(audit.IGNORED.read_text(encoding="utf-8")):
        assert len(entry.reason) > 20, f"{entry.id}: say why it does no harm here"
    assert set(audit.FILES) == {path.stem for path in audit.IGNORED.parent.glob("*.txt")}
