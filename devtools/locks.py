"""Checks of the lock files (requirements/NAME.txt) against pyproject.toml and each other. Pure; ``make lock`` writes
the files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

EXTRAS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (),
    "dev": ("dev",),
    "bench": ("bench",),
    "libvirt": ("libvirt",),
    "docs": ("docs",),
    "image": ("operator", "webhook", "driver"),
}
"""The extras of pyproject.toml that a lock file is made of, always with the dependencies that everybody has."""
Environment = dict[str, str]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Locked:
    """One line of a lock file. ``when``: its environment marker."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        """The pinned version; empty where it isn't pinned to exactly one."""
        pins = [
            specifier.version
            for specifier in self.requirement.specifier
            if specifier.operator == "==" and "*" not in specifier.version
        ]
        return pins[0] if len(pins) == len(self.requirement.specifier) == 1 else ""

    def holds_in(self, environment: Environment) -> bool:
        return self.requirement.marker is None or self.requirement.marker.evaluate(environment)


def read(text: str) -> tuple[list[Locked], list[str]]:
    """The entries of a lock file, and its lines that are none (options, URLs): these must not be there."""
    entries: list[Locked] = []
    odd: list[str] = []
    for line in _logical_lines(text):
        written, *hashes = line.split(" --hash=")
        try:
            requirement = Requirement(written.strip())
        except InvalidRequirement:
            odd.append(line)
            continue
        if requirement.url is not None:
            odd.append(line)
        else:
            entries.append(Locked(requirement, tuple(digest.strip() for digest in hashes)))
    return entries, odd


def problems(project: Mapping[str, Any], locks: Mapping[str, str]) -> list[str]:
    """Where lock files (texts by name) disagree with ``pyproject.toml`` (parsed) or with each other, a line each."""
    lines: list[str] = []
    versions: dict[str, tuple[str, str]] = {}
    for name, text in sorted(locks.items()):
        entries, odd = read(text)
        lines += [f"{name}.txt: no locked requirement: {line[:80]}" for line in odd]
        for entry in entries:
            if not entry.version:
                lines.append(f"{name}.txt: {entry.requirement.name} is not locked to one version")
            if not entry.hashes or not all(
                digest.startswith("sha256:") and len(digest) == 71 for digest in entry.hashes
            ):
                lines.append(f"{name}.txt: {entry.requirement.name} has no hash (or no sha256)")
            other, version = versions.setdefault(
                f"{entry.name} {entry.requirement.marker or ''}", (name, entry.version)
            )
            if version != entry.version:
                lines.append(f"{entry.name} is {version} in {other}.txt and {entry.version} in {name}.txt")
    for name, extras in EXTRAS_OF.items():
        if name not in locks:
            lines.append(f"{name}.txt is missing")
            continue
        entries, _ = read(locks[name])
        lines += [f"{name}.txt: {line}" for line in _unmet(_wanted(project["project"], extras), entries)]
    setup, _ = read(locks.get("setup", ""))
    lines += [f"setup.txt: {line}" for line in _unmet(map(Requirement, project["build-system"]["requires"]), setup)]
    return lines


def unmet_of_installed(entries: Sequence[Locked], requires: Mapping[str, Sequence[str]]) -> list[str]:
    """What locked packages need (``requires``: by canonical name, from their metadata) and the file lacks or has in
    another version.

    For the Python that runs this.
    """
    here = _here()
    return [
        f"{entry.name} needs {line}"
        for entry in entries
        if entry.holds_in(here)
        for line in _unmet(map(Requirement, requires.get(entry.name, ())), entries, [here], entry.requirement.extras)
    ]


def _unmet(
    wanted: Iterable[Requirement],
    entries: Sequence[Locked],
    environments: Sequence[Environment] = (),
    extras: Iterable[str] = (),
) -> Iterator[str]:
    for requirement in wanted:
        for environment in environments or [_environment(python) for python in PYTHONS]:
            if requirement.marker and not any(
                requirement.marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
            ):
                continue
            candidates = [
                entry
                for entry in entries
                if entry.name == canonicalize_name(requirement.name) and entry.holds_in(environment)
            ]
            if len(candidates) != 1:
                yield (
                    f"{requirement} is {'not there' if not candidates else 'there twice'} "
                    f"for Python {environment['python_version']}"
                )
                break
            if not requirement.specifier.contains(candidates[0].version, prereleases=True):
                yield f"{requirement} is locked to {candidates[0].version}"
                break


def _wanted(project: Mapping[str, Any], extras: Sequence[str]) -> Iterator[Requirement]:
    """The dependencies with those of the extras, which may name further extras of the project itself."""
    yield from map(Requirement, project["dependencies"])
    waiting, seen = list(extras), set(extras)
    while waiting:
        for requirement in map(Requirement, project["optional-dependencies"][waiting.pop()]):
            if canonicalize_name(requirement.name) != canonicalize_name(project["name"]):
                yield requirement
                continue
            waiting += sorted(requirement.extras - seen)
            seen |= requirement.extras


def _environment(python: str) -> Environment:
    """The marker environment of a Linux machine with this version of Python."""
    return _here() | {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def _here() -> Environment:
    return {key: str(value) for key, value in default_environment().items()}


def _logical_lines(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        shown = line.split(" #")[0].strip()
        if shown and not shown.startswith("#"):
            yield shown
