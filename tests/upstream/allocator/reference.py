"""The reference allocator as a process: one problem a line in, one answer a line out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from tests.upstream.allocator.problems import Json

HERE = Path(__file__).parent
LIMIT = "2s"
"""For one problem. Ours has a budget of steps instead, so what takes the reference longer isn't compared."""


class NotAvailable(Exception):
    """Go or its modules are missing."""


class Reference:
    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen([binary, "-limit", LIMIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, problem: Json) -> Json:
        return next(self.ask_all([problem]))

    def ask_all(self, problems: Sequence[Json]) -> Iterator[Json]:
        """The answers in order, while the reference works ahead. Use up the iterator before asking again."""
        writer = Thread(target=self._write, args=(problems,))
        writer.start()
        for i in range(len(problems)):
            answer: Json = json.loads(self._stdout.readline() or "null")
            if answer is None or answer["id"] != i:
                raise RuntimeError(f"no answer from the reference for problem {i}: {json.dumps(problems[i])}")
            yield answer
        writer.join()

    def _write(self, problems: Sequence[Json]) -> None:
        if self._process.stdin is None:
            raise AssertionError("opened with pipes")
        for i, problem in enumerate(problems):
            self._process.stdin.write(json.dumps({"id": i, **problem}) + "\n")
        self._process.stdin.flush()

    @property
    def _stdout(self):  # type: ignore[no-untyped-def]
        return self._process.stdout

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def reference() -> Iterator[Reference]:
    """Builds the program, runs it, and ends it. Raises :class:`NotAvailable`."""
    if shutil.which("go") is None:
        raise NotAvailable("needs Go (https://go.dev/dl) to build the reference allocator")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "allocator"
        built = subprocess.run(["go", "build", "-o", binary, "."], cwd=HERE, capture_output=True, text=True, check=False)
        if built.returncode:
            raise NotAvailable(f"the reference allocator can't be built: {built.stderr.strip().splitlines()[-1:]}")
        running = Reference(binary)
        try:
            yield running
        finally:
            running.close()
