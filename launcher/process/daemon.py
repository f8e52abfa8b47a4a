"""The libvirt daemon that a launcher runs in its pod."""

from __future__ import annotations

import subprocess
import threading
from contextlib import AbstractContextManager
from time import monotonic

from launcher.errors import LIBVIRT_UNAVAILABLE, LauncherError
from launcher.process import libvirt_conn

START_SECONDS = 30.0


class OwnDaemon(AbstractContextManager["OwnDaemon"]):
    """The daemon while its context is open, if a program is given and none runs. Raises :class:`LauncherError`,
    OSError."""

    def __init__(self, program: str | None, uri: str) -> None:
        self._program = program
        self._uri = uri
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OwnDaemon:
        if self._program is None or libvirt_conn.answers(self._uri):
            return self
        self._process = _started(self._program)
        try:
            self._await_answer(self._program, self._process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    @property
    def pid(self) -> int | None:
        """The process of the daemon; None for another's."""
        return self._process.pid if self._process is not None else None

    def revive(self) -> bool:
        """Start the daemon again if it has ended; True if it had. Domains run on without it. Another's daemon is for
        others to start."""
        if self._program is None or self._process is None or self._process.poll() is None:
            return False
        self._process = _started(self._program)
        return True

    def _await_answer(self, program: str, process: subprocess.Popen[bytes]) -> None:
        end = monotonic() + START_SECONDS
        while not libvirt_conn.answers(self._uri):
            if process.poll() is not None:
                message = f"{program} ended with exit code {process.returncode}"
                raise LauncherError(LIBVIRT_UNAVAILABLE, program, message)
            if monotonic() > end:
                message = f"{program} does not answer on {self._uri} after {START_SECONDS:g} s"
                raise LauncherError(LIBVIRT_UNAVAILABLE, program, message)
            threading.Event().wait(0.1)


def _started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([program], stdin=subprocess.DEVNULL)
