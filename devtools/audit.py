"""Reports known vulnerabilities of the locked packages: runs pip-audit and compares its findings with the list of
ignored ones.

``python -m devtools.audit`` (make audit). Exit codes: 0 none, or not audited: pip-audit isn't installed, or no service
could be asked (one line says so; with ``--strict`` that is 1); 1 a vulnerability that is not on the list, an entry of
the list that has expired or is no longer needed; 2 the list is malformed.

For pip-audit a package that its service doesn't know has no findings: behind a mirror that has no advisories it reports
"no known vulnerabilities" of packages that were never checked. Here such a package counts as not audited.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
IGNORED: Final = ROOT / "requirements" / "audit-ignore.toml"
FILES: Final = ("dev", "bench", "docs", "image", "libvirt", "run", "setup", "tools")
SERVICES: Final = ("pypi", "osv")
"""Vulnerability services, asked in this order until one knows every package."""
SECONDS: Final = 180


class NotInstalled(Exception):
    """pip-audit can't be started, in one line."""


@dataclass(frozen=True)
class Ignored:
    """An entry of the list: a vulnerability of a package that does no harm here, until when, and why."""

    id: str
    package: str
    until: date
    reason: str

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any]) -> Ignored:
        """Parse an entry. Raises ValueError."""
        until = entry.get("until")
        texts = [entry.get(name) for name in ("id", "package", "reason")]
        if entry.keys() != {"id", "package", "reason", "until"} or not all(
            isinstance(text, str) and text.strip() for text in texts
        ):
            raise ValueError(
                f"each [[ignore]] has the texts id, package and reason, and a date until; this one is {dict(entry)}"
            )
        if not isinstance(until, date) or isinstance(until, datetime):
            raise ValueError(f"{entry['id']}: until is a date, such as 2027-01-31 without quotes")
        return cls(entry["id"], entry["package"], until, entry["reason"])


@dataclass(frozen=True)
class Vulnerability:
    """A finding of pip-audit. ``fixed``: versions without it."""

    id: str
    aliases: tuple[str, ...]
    package: str
    version: str
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        names = f"{self.id} ({', '.join(self.aliases)})" if self.aliases else self.id
        advice = (
            f"UPGRADE={self.package} make lock, to {' or '.join(self.fixed)}"
            if self.fixed
            else "no version is without it"
        )
        return f"{self.package} {self.version} has {names}: {advice}; or an entry in requirements/audit-ignore.toml"


@dataclass(frozen=True)
class Report:
    """An answer of pip-audit: ``skipped`` names packages that its service doesn't know."""

    audited: int
    skipped: tuple[str, ...]
    vulnerabilities: tuple[Vulnerability, ...]

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Report:
        packages = answer["dependencies"]
        return cls(
            sum("vulns" in package for package in packages),
            tuple(sorted(package["name"] for package in packages if "skip_reason" in package)),
            tuple(
                Vulnerability(
                    vulnerability["id"],
                    tuple(vulnerability["aliases"]),
                    package["name"],
                    package["version"],
                    tuple(vulnerability["fix_versions"]),
                )
                for package in packages
                for vulnerability in package.get("vulns", ())
            ),
        )


def ignored(text: str) -> list[Ignored]:
    """The entries of the list. Raises ValueError, which names the entry that is malformed or there twice."""
    content = tomllib.loads(text)
    if not content.keys() <= {"ignore"} or not isinstance(content.get("ignore", []), list):
        raise ValueError("only [[ignore]] may stand there")
    entries = [Ignored.from_entry(entry) for entry in content.get("ignore", [])]
    for entry in entries:
        if sum((other.id, other.package) == (entry.id, entry.package) for other in entries) > 1:
            raise ValueError(f"{entry.id} of {entry.package} is there twice")
    return entries


def faults(report: Report | None, ignores: Iterable[Ignored], today: date) -> list[str]:
    """What must be done, a line each. ``report`` None: no service could be asked; ignored entries are still checked for
    expiry."""
    ignores = list(ignores)
    lines = [
        f"{entry.id} of {entry.package} was ignored until {entry.until}: review it"
        for entry in ignores
        if entry.until < today
    ]
    if report is None:
        return lines
    lines += [f"{name} was not audited: the service doesn't know it" for name in report.skipped]
    used: set[Ignored] = set()
    for vulnerability in report.vulnerabilities:
        matching = [
            entry
            for entry in ignores
            if entry.package == vulnerability.package and entry.id in (vulnerability.id, *vulnerability.aliases)
        ]
        used.update(matching)
        if not matching:
            lines.append(str(vulnerability))
    return lines + [
        f"{entry.id} of {entry.package} is on the list, and nothing has it any more: remove it"
        for entry in ignores
        if entry not in used
    ]


def ask(program: Path, service: str, files: Sequence[str] = FILES) -> tuple[Report | None, str]:
    """pip-audit's answer, or None and why there is none. A service that knows no package at all has answered nothing.

    Raises NotInstalled.
    """
    words = [
        str(program),
        "--vulnerability-service",
        service,
        "--disable-pip",
        "--require-hashes",
        "--format",
        "json",
        "--aliases",
        "on",
    ]
    words += ["--progress-spinner", "off", *(f"--requirement={ROOT / 'requirements' / name}.txt" for name in files)]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, f"{service}: no answer in {SECONDS} s"
    except OSError as error:
        raise NotInstalled(f"pip-audit can't be started ({error.strerror}); make audit sets it up") from error
    try:
        report = Report.from_answer(json.loads(answer.stdout))
    except (json.JSONDecodeError, KeyError, TypeError):
        lines = answer.stderr.strip().splitlines()
        return None, f"{service}: {lines[-1].split(': ')[0] if lines else 'no answer'}"
    return (report, "") if report.audited else (None, f"{service}: knows none of the packages")


def main(arguments: Sequence[str] | None = None, *, today: date | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m devtools.audit", description="Look for known vulnerabilities in the locked packages."
    )
    parser.add_argument("--strict", action="store_true", help="fail where no service can be asked (for releases)")
    parser.add_argument("--pip-audit", type=Path, default=ROOT / ".tools" / "bin" / "pip-audit")
    parser.add_argument("--ignored", type=Path, default=IGNORED)
    options = parser.parse_args(arguments)
    try:
        ignores = ignored(options.ignored.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.stderr.write(f"audit: {options.ignored.name}: {error}\n")
        return 2
    reports: list[Report] = []
    reasons: list[str] = []
    not_done = ""
    for service in SERVICES:
        try:
            report, reason = ask(options.pip_audit, service)
        except NotInstalled as error:
            not_done = str(error)  # no other service could be asked either
            break
        if report is None:
            reasons.append(reason)
            continue
        reports.append(report)
        if not report.skipped:
            break
    best = min(reports, key=lambda report: len(report.skipped), default=None)
    lines = faults(best, ignores, today or datetime.now(UTC).date())
    sys.stderr.writelines(f"audit: {line}\n" for line in lines)
    if best is None:
        why = not_done or f"no advisories can be read from here ({'; '.join(reasons)})"
        sys.stdout.write(f"audit: not done, {why}\n")
        return 1 if lines or options.strict else 0
    sys.stdout.write(
        f"audit: {best.audited} packages, {len(best.vulnerabilities)} known vulnerabilities, {len(ignores)} ignored\n"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
