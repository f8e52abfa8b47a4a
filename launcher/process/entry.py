"""``virt-dra-launcher``: the process of a launcher pod on a cluster without KubeVirt.

It waits until every device has an address, defines and starts the domain, creates a file that marks it as ready, and
exits with it. It connects only to libvirt: see :mod:`virt_dra.api.integration.standalone`.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import click

from launcher import Conversion, LauncherError
from launcher.addresses.metadata_files import overlaid, read_base, read_folder
from launcher.errors import LIBVIRT_UNAVAILABLE
from launcher.process import libvirt_conn
from launcher.process.init_process import leave_process_1
from launcher.process.waiting import BadFile, Waiting, decide, read_device_status, read_vmi
from virt_dra.api.integration import standalone
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

_DAEMON_SECONDS = 30.0
_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class LaunchFailed(Exception):
    """The VM can't run, or ended with an error; the text is for the VMI's condition."""


@dataclass(frozen=True)
class Folders:
    """The folders of the launcher's files. ``root`` stands for the container's ``/``, below which metadata files
    are."""

    info: Path
    run: Path
    root: Path


@click.command(
    "virt-dra-launcher",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Exit codes: 0 the guest shut down, 1 it could not be started or crashed, 143 (SIGTERM) or 130 (SIGINT) stopped while
waiting.

\b
Example, outside of a pod (libvirt's test driver starts nothing real):
  mkdir -p info run
  echo '{"metadata": {"name": "vm"}, "spec": {"domain": {"devices": {}}}}' > info/vmi.json
  virt-dra-launcher --info-dir info --run-dir run --termination-message message --uri test:///default
""",
)
@click.option("--info-dir", type=click.Path(path_type=Path, file_okay=False), default=standalone.INFO_DIRECTORY,
    show_default=True,
              help="Folder of the files vmi.json and device-status.json, "
"and of the metadata files of networks.")  # fmt: skip
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), default=standalone.RUN_DIRECTORY,
    show_default=True,
              help="Folder in which the file 'ready' exists while the domain runs.")  # fmt: skip
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), default="/", show_default=True,
              help="Folder below which the drivers' metadata files are.")  # fmt: skip
@click.option("--termination-message", type=click.Path(path_type=Path, dir_okay=False),
    default=standalone.TERMINATION_MESSAGE_PATH,
              show_default=True, help="File that gets the reason of a failure.")  # fmt: skip
@click.option("--uri", default=libvirt_conn.DEFAULT_URI, show_default=True, help="libvirt connection.")
@click.option("--daemon", metavar="PROGRAM", help="Start this libvirt daemon if none is running, e.g. virtqemud.")
@click.option(
    "--poll",
    type=click.FloatRange(0.01, 60),
    default=0.5,
    show_default=True,
    help="Seconds between checks of the files and the domain.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Seconds to wait for devices; 0: no limit.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=None,
    help="Seconds that a guest has to shut down.  [default: the VMI's, else 30]",
)
def main(
    info_dir: Path, run_dir: Path, root: Path, termination_message: Path, uri: str, daemon: str | None, poll: float,
    timeout: float, grace: float | None,
) -> None:  # fmt: skip
    """Run one VM: wait for its devices, define and start its libvirt domain, and exit when it ends."""
    leave_process_1()
    stop = threading.Event()
    stopped_by: list[int] = []

    def stopping(number: int, frame: object) -> None:
        stopped_by.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopping)
    folders = Folders(info_dir, run_dir, root)
    try:
        ready = _wait(folders, stop, poll, timeout)
        if ready is None:
            sys.exit(128 + stopped_by[0])
        vmi, conversion = ready
        for warning in conversion.warnings:
            _say(f"warning: {warning}")
        with _daemon(daemon, uri):
            _run(folders, conversion, uri, stop, poll, _grace(vmi) if grace is None else grace)
    except (LaunchFailed, LauncherError, BadFile) as error:
        _fail(termination_message, str(error))
    except OSError as error:
        advice = "; make room on the node" if error.errno in _NO_ROOM else ""
        _fail(termination_message, f"{error.filename}: {error.strerror}{advice}" if error.filename else str(error))


def _wait(
    folders: Folders, stop: threading.Event, poll: float, timeout: float
) -> tuple[VirtualMachineInstance, Conversion] | None:
    """VMI and conversion once all devices have addresses; None if stopped. Raises LaunchFailed, LauncherError, BadFile,
    OSError."""
    began, reported = monotonic(), ""
    while True:
        outcome = _read(folders)
        if not isinstance(outcome, Waiting):
            return outcome
        if outcome.message != reported:
            reported = outcome.message
            _say(f"waiting: {reported}")
        if timeout and monotonic() - began > timeout:
            raise LaunchFailed(f"gave up after {timeout:g} s: {reported}")
        if stop.wait(poll):
            return None


def _read(folders: Folders) -> tuple[VirtualMachineInstance, Conversion] | Waiting:
    vmi_file, status_file = folders.info / standalone.VMI_FILE, folders.info / standalone.DEVICE_STATUS_FILE
    vmi = read_vmi(_text(vmi_file), str(vmi_file))
    if isinstance(vmi, Waiting):
        return vmi
    status = read_device_status(_text(status_file), str(status_file))
    files = overlaid(read_folder(folders.root), read_base(folders.info / standalone.METADATA_FOLDER))
    conversion = decide(vmi, status, files, os.environ)
    return conversion if isinstance(conversion, Waiting) else (vmi, conversion)


def _text(path: Path) -> str:
    """A file's text; "" for a missing file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise BadFile(str(path), f"is not UTF-8 text: {error}") from None


def _run(folders: Folders, conversion: Conversion, uri: str, stop: threading.Event, poll: float, grace: float) -> None:
    """Start the domain, and return when it has ended. Raises LaunchFailed, LauncherError, OSError."""
    folders.run.mkdir(parents=True, exist_ok=True)
    ready, prepared = folders.run / standalone.READY_FILE, folders.run / f".{standalone.READY_FILE}"
    ready.unlink(missing_ok=True)
    _write(folders.run / standalone.DOMAIN_FILE, conversion.domain_xml)
    prepared.touch()  # before the domain starts: on a full disk it would only be destroyed again
    with libvirt_conn.started(conversion.domain_xml, uri) as guest:
        prepared.replace(ready)
        _say(f"domain {conversion.domain.name} runs with {len(conversion.hostdevs)} host devices")
        try:
            end = _follow(guest, stop, poll, grace)
        finally:
            ready.unlink(missing_ok=True)
    _say(f"domain {conversion.domain.name}: {end}")
    if end in ("crashed", "failed"):
        raise LaunchFailed(f"the domain {end}")


def _write(path: Path, text: str) -> None:
    """Write a file atomically, so that no reader sees half of it. Raises OSError with the file's name."""
    new = path.with_name(f".{path.name}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _follow(guest: libvirt_conn.Guest, stop: threading.Event, poll: float, grace: float) -> str:
    """Wait until the domain ends, and return how; once ``stop`` is set the guest has ``grace`` seconds to shut down."""
    asked: float | None = None
    while (end := guest.end()) is None:
        if stop.is_set() and asked is None:
            asked = monotonic()
            guest.shutdown()
        elif asked is not None and monotonic() - asked >= grace:
            guest.destroy()
        if asked is None:
            stop.wait(poll)
        else:
            threading.Event().wait(min(poll, 0.1))
    return end


def _grace(vmi: VirtualMachineInstance) -> float:
    seconds = vmi.spec.termination_grace_period_seconds
    return 30.0 if seconds is None else float(max(seconds, 0))


@contextmanager
def _daemon(program: str | None, uri: str) -> Iterator[None]:
    """Runs the libvirt daemon if none is running. Raises :class:`LauncherError`, OSError."""
    if program is None or libvirt_conn.answers(uri):
        yield
        return
    with subprocess.Popen([program], stdin=subprocess.DEVNULL) as process:
        try:
            end = monotonic() + _DAEMON_SECONDS
            while not libvirt_conn.answers(uri):
                if process.poll() is not None:
                    raise LauncherError(
                        LIBVIRT_UNAVAILABLE, program, f"{program} ended with exit code {process.returncode}"
                    )
                if monotonic() > end:
                    raise LauncherError(
                        LIBVIRT_UNAVAILABLE, program, f"{program} does not answer on {uri} after {_DAEMON_SECONDS:g} s"
                    )
                threading.Event().wait(0.1)
            yield
        finally:
            process.terminate()


def _fail(path: Path, message: str) -> None:
    """Write the reason to the termination message, which the operator reads, and exit."""
    _say(f"error: {message}")
    try:
        path.write_bytes(message.encode()[: standalone.MAX_TERMINATION_MESSAGE])
    except OSError as error:
        _say(f"error: the reason could not be written to {path}: {error.strerror}")
    sys.exit(1)


def _say(message: str) -> None:
    """Write a line to the log. If that fails (a full disk), the guest goes on, and the termination message is still
    written."""
    with suppress(OSError):
        click.echo(message, err=True)


if __name__ == "__main__":
    main()
