"""Runs servers as its children and ends them when its caller is gone, however the caller died.

Run as a program it reads commands from stdin, one JSON object a line, and answers each with a line on stdout:
``{"start": argv, "log": path}`` -> ``{"pid": …}`` or ``{"error": …}``; ``{"signal": number, "pid": …}`` and ``{"end":
pid}`` (SIGKILL, and wait) -> ``{"status": returncode | null}``. At the end of stdin, which is what a caller's death is,
it kills its children and removes the folder it was given. The children are ended by their own ids, which can't be
another process's meanwhile: only their parent frees them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """The caller's side: starts the program, and ends it with all it runs on :meth:`close`."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is removed when all has ended."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C on the terminal is for the caller, who then ends its servers in order
        )

    def start(self, argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> int:
        """The process id. Output is appended to ``log``. Raises :class:`OSError` where the program can't be started."""
        answer = self._ask({"start": list(argv), "log": str(log), "environment": dict(environment or {})})
        if "error" in answer:
            raise OSError(answer["error"])
        return int(answer["pid"])

    def signal(self, pid: int, number: int) -> int | None:
        """Sends a signal to one of the processes; answers its return code if it has ended already."""
        return self._status({"signal": number, "pid": pid})

    def status(self, pid: int) -> int | None:
        """The return code of a process that has ended, else nothing."""
        return self._status({"signal": 0, "pid": pid})

    def end(self, pid: int) -> None:
        """Ends one of the processes at once, and waits for it."""
        self._status({"end": pid})

    def close(self) -> None:
        """Ends all processes and removes the folder."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _status(self, command: Mapping[str, object]) -> int | None:
        status = self._ask(command)["status"]
        return None if status is None else int(status)

    def _ask(self, command: Mapping[str, object]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise OSError("the supervisor of the control plane has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _begin() -> None:
    """Signals mean to a child what they mean to any program, not what they mean here; and it dies with its parent,
    should the supervisor itself be killed. Only Linux knows the latter, and only there it is needed: tests run
    there."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _start(argv: list[str], log: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with Path(log).open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            preexec_fn=_begin,  # noqa: PLW1509 - this program has one thread
        )


def _answer(command: dict[str, Any], children: dict[int, subprocess.Popen[bytes]]) -> dict[str, object]:
    if "start" in command:
        try:
            child = _start(command["start"], command["log"], command["environment"])
        except OSError as error:
            return {"error": str(error)}
        children[child.pid] = child
        return {"pid": child.pid}
    if "end" in command:
        child = children[command["end"]]
        child.kill()
        return {"status": child.wait()}
    child = children[command["pid"]]
    if child.poll() is None and command["signal"]:
        child.send_signal(command["signal"])
    return {"status": child.poll()}


def main(folder: str) -> None:
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    children: dict[int, subprocess.Popen[bytes]] = {}
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_answer(json.loads(line), children)) + "\n")
            sys.stdout.flush()
    for child in children.values():
        child.kill()
    for child in children.values():
        child.wait()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
