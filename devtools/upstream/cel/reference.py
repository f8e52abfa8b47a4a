"""Building the Go program of this folder, and asking it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from devtools import needs
from devtools.cel.answers import Answer, Question

HERE = Path(__file__).parent


class NoReference(RuntimeError):
    """The reference can't be built here; the text says why."""


class Reference:
    """The Go program."""

    def __init__(self, binary: str) -> None:
        self.binary = binary

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """One answer per question, in order. For what a question has see main.go."""
        lines = "".join(json.dumps({"id": number, **question}) + "\n" for number, question in enumerate(questions))
        ran = subprocess.run([self.binary], input=lines, capture_output=True, text=True, check=True)
        answers: list[Answer] = [json.loads(line) for line in ran.stdout.split("\n") if line]
        if [answer.pop("id") for answer in answers] != list(range(len(questions))):
            raise RuntimeError("the reference left out an answer")
        return answers

    def declarations(self) -> dict[tuple[str, bool], list[str]]:
        """For a function's name and whether it has a receiver its overloads, ``(list(<A>)) -> int``, in the order of
        declaration."""
        ran = subprocess.run([self.binary, "declarations"], capture_output=True, text=True, check=True)
        overloads: dict[tuple[str, bool], list[str]] = {}
        for line in ran.stdout.splitlines():
            kind, name, *overload = line.split("\t")
            if kind != "macro":
                overloads.setdefault((name, kind == "member"), []).append(overload[1])
        return overloads


def build(folder: Path) -> Reference:
    """Build it into a folder. Raises NoReference without Go or its modules."""
    needs.use("go")
    if shutil.which("go") is None:
        raise NoReference("needs Go (https://go.dev/dl) to build the reference")
    binary = folder / "celref"
    built = subprocess.run(["go", "build", "-o", binary, "."], cwd=HERE, capture_output=True, text=True, check=False)
    if built.returncode:
        raise NoReference(f"the reference can't be built: {built.stderr.strip().splitlines()[-1:]}")
    return Reference(str(binary))


def temporary() -> tuple[Reference, TemporaryDirectory[str]]:
    """A reference in a temporary folder, which lives as long as the second value."""
    folder = TemporaryDirectory()
    return build(Path(folder.name)), folder
