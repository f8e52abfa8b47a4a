"""A reader's terminal: one bash, in which block after block is run; what each prints, and which commands failed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.guides.page import Block

# Failures are noted, not fatal: a reader, too, sees a message and reads on. In subshells they are noted as well
# (errtrace).
_START: Final = """
set -o errtrace
trap 'printf "%s\\t%s\\n" "$?" "$BASH_COMMAND" >>"$FAILED"' ERR
while IFS= read -r block <&3; do
  : >"$FAILED"
  . "$block" <"$ANSWERS" >"$block.out" 2>&1
  echo done >&4
done
"""


@dataclass(frozen=True)
class Ran:
    """``printed``: both streams, as they come. ``failed``: commands and their exit codes."""

    printed: str
    failed: tuple[tuple[str, int], ...]


class Shell:
    """Use as a context manager. ``answers``: what is typed where a command asks."""

    def __init__(self, folder: Path, home: Path, environment: Mapping[str, str], answers: str) -> None:
        """``folder``: of notes; ``home``: where it starts."""
        folder.mkdir()
        self._folder, self._count = folder, 0
        (folder / "answers").write_text(answers, encoding="utf-8")
        notes = {"FAILED": str(folder / "failed"), "ANSWERS": str(folder / "answers")}
        (blocks, self._blocks), (self._done, done) = os.pipe(), os.pipe()
        start = f"exec 3<&{blocks} 4>&{done}\n{_START}"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", start],
            cwd=home,
            env={**os.environ, **environment, **notes},
            pass_fds=(blocks, done),
            stdin=subprocess.DEVNULL,
        )
        os.close(blocks)
        os.close(done)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._blocks)
        os.close(self._done)
        self._process.wait()

    def run(self, commands: str) -> Ran:
        """One block, to its end."""
        self._count += 1
        block = self._folder / f"block-{self._count}"
        block.write_text(
            f"{commands}\ntrue\n", encoding="utf-8"
        )  # so that what the last command failed with is noted once
        os.write(self._blocks, f"{block}\n".encode())
        if not os.read(self._done, 100):
            raise AssertionError(f"the shell has ended in:\n{commands}")
        failures = [line.split("\t", 1) for line in (self._folder / "failed").read_text(encoding="utf-8").splitlines()]
        printed = Path(f"{block}.out").read_text(encoding="utf-8", errors="replace")
        return Ran(printed, tuple((command, int(code)) for code, command in failures))

    def follow(self, page: str, blocks: Iterable[Block]) -> None:
        """Runs blocks of a page; each must succeed and print what is shown below it."""
        for block in blocks:
            ran = self.run(block.commands)
            where = f"{page}, line {block.line}:\n{block.commands}{ran.printed}"
            assert ran.failed == (), where
            assert block.missing(ran.printed) is None, f"{where}\nmissing: {block.missing(ran.printed)}"
