"""A libvirt daemon of the tests' own: no file, socket or answer of it is the host's.

As root it runs in a mount namespace without ``/dev/kvm`` (``libvirtd.sh`` says why). Where there may be no such
namespace, or without root, it is a session daemon in folders of its own, of an unprivileged user: the daemon and its
QEMU have the same rights on ``/dev/kvm`` then, so that libvirt probes QEMU once there, too.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

Mode = Literal["namespace", "session"]

SCRIPT: Final = Path(__file__).with_name("libvirtd.sh")
IDLE_SECONDS: Final = 120
"""A daemon whose tests were killed ends by itself after so long. One that ended while its tests did something else is
started again."""
_START_SECONDS: Final = 20.0
_NOBODY: Final = 65534
"""User and group that every Linux has for who has no rights."""


class NoDaemon(Exception):
    """No daemon answers; the message says why, and what to do."""


@dataclass(frozen=True)
class Plan:
    """How a daemon is started: its command and environment, and the URI at which it answers."""

    mode: Mode
    command: Sequence[str]
    environment: Mapping[str, str]
    uri: str


def tool(name: str) -> str | None:
    """The path of a program; daemons live in folders that are not on every user's path."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


@cache
def usual_mode() -> Mode:
    """``namespace`` where this process may make one."""
    if os.geteuid() != 0 or tool("unshare") is None:
        return "session"
    trial = [str(tool("unshare")), "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return "namespace" if subprocess.run(trial, capture_output=True, check=False).returncode == 0 else "session"


def plan(mode: Mode, folder: Path) -> Plan:
    """What is to be run. Writes nothing but the configuration, into ``folder``."""
    libvirtd = str(tool("libvirtd"))
    if mode == "namespace":
        sockets = folder / "sockets"
        sockets.mkdir()
        settings = {"unix_sock_dir": str(sockets), "auth_unix_ro": "none", "auth_unix_rw": "none"}
        (folder / "libvirtd.conf").write_text(
            "".join(f'{key} = "{value}"\n' for key, value in settings.items()), encoding="utf-8"
        )
        command = ["unshare", "--mount", "--propagation", "private", str(SCRIPT), str(folder), str(IDLE_SECONDS)]
        return Plan(
            mode, command, {**os.environ, "LIBVIRTD": libvirtd}, f"qemu+unix:///system?socket={sockets}/libvirt-sock"
        )
    kinds = ("runtime_dir", "config_home", "cache_home", "data_home")
    places = {f"XDG_{kind.upper()}": str(folder / kind) for kind in kinds}
    for place in places.values():
        Path(place).mkdir(mode=0o700)
    command = [libvirtd, "--timeout", str(IDLE_SECONDS)]
    if os.geteuid() == 0:  # QEMU would be probed with more rights than it is run with, again and again
        for path in (folder, *folder.iterdir()):
            os.chown(path, _NOBODY, _NOBODY)
        command = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *command]
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **places}
    return Plan(mode, command, environment, f"qemu+unix:///session?socket={folder}/runtime_dir/libvirt/libvirt-sock")


class Daemon:
    """One libvirtd, started when its URI is first asked for and whenever it has ended since. :meth:`close` ends it."""

    def __init__(self, mode: Mode | None = None) -> None:
        self._mode = mode
        self._process: subprocess.Popen[bytes] | None = None
        self._plan: Plan | None = None
        self.folder: Path | None = None

    @property
    def wanted(self) -> Mode:
        """How it is to run."""
        return self._mode or usual_mode()

    @property
    def mode(self) -> Mode | None:
        """How it runs; None before it was started."""
        return self._plan.mode if self._plan else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def uri(self) -> str:
        """Where it answers. Raises :class:`NoDaemon`."""
        if self._plan is None or self._process is None or self._process.poll() is not None:
            self._start()
        assert self._plan is not None
        return self._plan.uri

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def _start(self) -> None:
        self.close()
        self.folder = Path(tempfile.mkdtemp(prefix="libvirt-"))  # short: a socket's path has at most 107 characters
        self._plan = plan(self.wanted, self.folder)
        log = self.folder / "log"
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                self._plan.command,
                env=self._plan.environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
            )
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            if (
                subprocess.run(
                    [str(tool("virsh")), "-c", self._plan.uri, "uri"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                return
            time.sleep(0.05)
        code = self._process.poll()
        end_text = f"ended with {code}" if code is not None else f"does not answer after {_START_SECONDS:.0f} s"
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        mode = self._plan.mode
        self.close()
        self._plan = None
        raise NoDaemon(f"libvirtd ({mode}) {end_text}: {' / '.join(said)}; packages: see tools/libvirt.sh")


SHARED: Final = Daemon()
"""The daemon of this test process."""
atexit.register(SHARED.close)
