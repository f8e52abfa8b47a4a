"""What a launcher lets others know: lines of its log, and its status file."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from launcher.process.life import DevicePlace, LauncherStatus, Phase


def say(message: str) -> None:
    """Write a line to the log. If that fails (a full disk), the guest goes on, and the termination message is still
    written."""
    with suppress(OSError):
        click.echo(message, err=True)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically, so that no reader sees half of it. Raises OSError with the file's name."""
    new = path.with_name(f".{path.name}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


class StatusReport:
    """Writes the status file: the phase, since when it is, and why. The guest doesn't depend on that file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._status: LauncherStatus | None = None

    def __call__(self, phase: Phase, reason: str = "", devices: tuple[DevicePlace, ...] | None = None) -> bool:
        """True if this is news. ``devices``: those of the status before by default."""
        before = self._status
        if devices is None:
            devices = before.devices if before is not None else ()
        if before is not None and (before.phase, before.reason, before.devices) == (phase, reason, devices):
            return False
        since = before.since if before is not None and before.phase is phase else datetime.now(UTC)
        self._status = LauncherStatus(phase, since, reason, devices)
        with suppress(OSError):
            write_whole(self._path, self._status.to_json())
        return True
