"""A shell in a terminal, in which keys are typed."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

BIN = Path(sys.executable).parent
_ESCAPES = re.compile(rb"\x1b\[[0-9;?<>=]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>]|\r|\x07")
PROMPT = "READY>"


class Terminal:
    """What was typed and printed since the last completion."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._seen = b""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, pattern: str, seconds: float = 30) -> str:
        """What is seen, once it matches. Fails after the time."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert select.select([self._master], [], [], max(0.0, end - time.monotonic()))[0], (
                f"no {pattern!r} in {self.text!r}"
            )
            self._seen += os.read(self._master, 65536)
        return self.text

    @property
    def text(self) -> str:
        return _ESCAPES.sub(b"", self._seen).decode(errors="replace")

    def completed(self, line: str) -> str:
        """The line after a tab, which the shell then prints in place of running it."""
        self._seen = b""
        self.type(f"{line}\t")
        self.type(" END\x01printf '<%s>\\n' \n")  # to the beginning of the line, then run it
        shown = self.until(r"<END>")
        return " ".join(re.findall(r"^<([^>]*)>$", shown, re.MULTILINE)).removesuffix(" END")


@contextmanager
def shell_terminal(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """The shell, run in the repository's root."""
    master, slave = os.openpty()
    path = f"{BIN}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "TERM": "vt100", "PS1": PROMPT, "PROMPT": PROMPT, **environment}
    root = Path(__file__).parent.parent.parent.parent
    process = subprocess.Popen(
        command, cwd=root, env=variables, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
