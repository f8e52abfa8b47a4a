"""The reference allocator as a process: one problem a line in, one answer a line out."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Self

from devtools import needs
from devtools.upstream.allocator.problems import Json

HERE = Path(__file__).parent
LIMIT = "2s"
"""For one problem. Ours has a budget of steps instead, so what takes the reference longer isn't compared."""


class NotAvailable(Exception):
    """Go or its modules are missing; the text says which."""


@contextmanager
def built() -> Iterator[Path]:
    """The program, in a folder that is gone afterwards. Raises :class:`NotAvailable`."""
    needs.use("go")
    if shutil.which("go") is None:
        raise NotAvailable("needs Go (https://go.dev/dl) to build the reference allocator")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "allocator"
        made = subprocess.run(["go", "build", "-o", binary, "."], cwd=HERE, capture_output=True, text=True, check=False)
        if made.returncode:
            raise NotAvailable(f"the reference allocator can't be built: {made.stderr.strip().splitlines()[-1:]}")
        yield binary


class Reference:
    """One running program; ends with the context."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen(
            [binary, "-limit", LIMIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()  # it may be waiting for someone to read
        self._process.communicate()

    def ask(self, problem: Json) -> Json:
        return next(iter(list(self.ask_all([problem]))))

    def ask_all(self, problems: Sequence[Json]) -> Iterator[Json]:
        """The answers in order, while the reference works ahead. Use up the iterator before asking again."""
        writer = Thread(target=self._write, args=(problems,), daemon=True)
        writer.start()
        for i in range(len(problems)):
            line = _open(self._process.stdout).readline()
            answer: Json = json.loads(line) if line else {}
            if answer.pop("id", None) != i:
                raise RuntimeError(f"the reference didn't answer {json.dumps(problems[i])} but {line!r}")
            yield answer
        writer.join()

    def _write(self, problems: Sequence[Json]) -> None:
        stdin = _open(self._process.stdin)
        with suppress(BrokenPipeError):  # the reader learns that the process is gone
            for i, problem in enumerate(problems):
                stdin.write(json.dumps({"id": i, **problem}) + "\n")
            stdin.flush()


def _open(pipe: IO[str] | None) -> IO[str]:
    if pipe is None:
        raise AssertionError("opened with pipes")
    return pipe
