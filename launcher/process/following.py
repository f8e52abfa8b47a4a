"""Follows a domain to its end, through restarts of its daemon, and shuts it down when the pod is to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Final

from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE, LauncherError
from launcher.process.daemon import OwnDaemon
from launcher.process.libvirt_conn import Guest
from launcher.process.life import Phase, ShutdownStep, shutdown_step
from launcher.process.reporting import StatusReport, say
from launcher.process.stop import Stop


@dataclass
class Follower:
    """Waits for the end of a domain. Once ``stop`` is set, the guest has ``grace`` seconds to shut down."""

    daemon: OwnDaemon
    report: StatusReport
    stop: Stop
    poll: float
    grace: float

    def follow(self, guest: Guest) -> str:
        """How the domain ended. Raises LauncherError, OSError."""
        asked: float | None = None
        taken: ShutdownStep | None = None
        while True:
            if asked is None and self.stop.is_set():
                asked = monotonic()
            try:
                if (end := guest.end()) is not None:
                    return end
                if asked is None:
                    if self.report(Phase.RUNNING):
                        say("the libvirt daemon answers again")
                elif step := shutdown_step(monotonic() - asked, self.grace, taken):
                    self.report(Phase.SHUTTING_DOWN, step.value)
                    _take(step, guest)
                    taken = step
            except LauncherError as error:
                # A daemon that is restarted finds its domains again; what it refuses is final.
                if error.reason != LIBVIRT_UNAVAILABLE or self._is_given_up(asked):
                    raise
                self._await_daemon(str(error))
            if asked is None:
                self.stop.wait(self.poll)
            else:
                sleep(min(self.poll, 0.1))

    def _is_given_up(self, asked: float | None) -> bool:
        return asked is not None and monotonic() - asked >= self.grace

    def _await_daemon(self, message: str) -> None:
        if self.report(Phase.DAEMON_GONE, message):
            say(f"the domain runs on without its daemon: {message}")
        if self.daemon.revive():
            say("the libvirt daemon was started again")


_STEPS: Final[Mapping[ShutdownStep, Callable[[Guest], None]]] = {
    ShutdownStep.REQUEST: Guest.shutdown,
    ShutdownStep.BUTTON: Guest.press_button,
    ShutdownStep.DESTROY: Guest.destroy,
}


def _take(step: ShutdownStep, guest: Guest) -> None:
    """Take a step. A step that libvirt refuses leads to the next one; so does one for a guest that has just ended."""
    try:
        _STEPS[step](guest)
    except LauncherError as error:
        if error.reason != LIBVIRT_REFUSED or (step is ShutdownStep.DESTROY and guest.end() is None):
            raise
        say(f"shutdown by {step.value}: {error}")
