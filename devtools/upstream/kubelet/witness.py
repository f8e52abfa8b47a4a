"""Builds the program once for its sources, and speaks with it.

``python -m devtools.upstream.kubelet.witness`` builds it, and says in one line why it can't.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from devtools import needs

SOURCES: Final = Path(__file__).parent
BUILD: Final = ("go", "build", "-p", "2", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w")
"""With the flags of tools/control-plane.sh, whose compiled packages are used again."""


class NoKubelet(Exception):
    """The program can't be built; the text says why."""


class CommandRefused(Exception):
    """The error with which the program answered."""


def built_kubelet() -> Path:
    """The program, built into a cache outside of the repository. Raises :class:`NoKubelet`."""
    needs.use("go")
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "virt-dra/kubelet"
    program = cache / f"kubelet-{digest}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        raise NoKubelet("Go is not installed (https://go.dev/dl)")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as folder:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not program.exists():
                environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
                command = [*BUILD, "-o", f"{folder}/kubelet", "."]
                made = subprocess.run(
                    command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
                )
                if made.returncode:
                    raise NoKubelet(f"it can't be built: {(made.stderr.strip().splitlines() or ['go build'])[-1]}")
                for older in cache.glob("kubelet-*"):
                    older.unlink()
                Path(f"{folder}/kubelet").rename(program)
    except OSError as error:
        raise NoKubelet(f"it can't be built: {error}") from error
    return program


class GoKubelet:
    """One running program. Commands may be asked side by side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, do: str, **arguments: Any) -> Any:
        """The command's result. Raises :class:`CommandRefused`."""
        number = next(self._ids)
        self._answers[number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
        async with asyncio.timeout(60):
            answer = await self._answers[number]
        del self._answers[number]
        if error := answer.get("error"):
            raise CommandRefused(error)
        return answer.get("result")

    async def read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            self._answers[answer["id"]].set_result(answer)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(EOFError("the program has ended"))

    def kill(self) -> None:
        self._process.kill()


@asynccontextmanager
async def running_kubelet(program: Path, log: Path, *options: str) -> AsyncIterator[GoKubelet]:
    """Without options it judges only; ``log`` gets what it logs."""
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            program, *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, limit=1 << 24
        )
    kubelet = GoKubelet(process)
    reading = asyncio.create_task(kubelet.read())
    try:
        yield kubelet
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await reading


if __name__ == "__main__":
    try:
        built_kubelet()
    except NoKubelet as why:
        sys.stderr.write(f"setup: no DRA manager, so that its tests will be skipped: {why}\n")
