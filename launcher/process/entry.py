"""``virt-dra-launcher``: the process of a launcher pod on a cluster without KubeVirt.

It waits until every device has an address, defines and starts the domain, creates a file that marks it as ready, and
exits with it. It connects only to libvirt: see :mod:`virt_dra.api.integration.standalone`.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import click

from launcher import Conversion, LauncherError
from launcher.addresses.metadata_files import overlaid, read_base, read_folder
from launcher.features import check_supported
from launcher.layout import uses_host
from launcher.placement.sysfs import read_host
from launcher.process import libvirt_conn
from launcher.process.checks import check
from launcher.process.daemon import OwnDaemon
from launcher.process.following import Follower
from launcher.process.host_state import read_host_state
from launcher.process.init_process import leave_process_1
from launcher.process.life import Phase, device_places
from launcher.process.reporting import StatusReport, say, write_whole
from launcher.process.stop import Stop
from launcher.process.waiting import BadFile, OwnHost, Waiting, decide, read_device_status, read_vmi
from virt_dra.api.integration import standalone
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

_NO_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


class LaunchFailed(Exception):
    """The VM can't run, or ended with an error; the text is for the VMI's condition."""


@dataclass(frozen=True)
class Folders:
    """The folders of the launcher's files. ``root`` stands for the container's ``/``, below which metadata files,
    sysfs and device nodes are."""

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
              help="Folder of the file 'ready', which exists while the domain runs, and of "
"status.json, the launcher's phase and devices.")  # fmt: skip
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), default="/", show_default=True,
              help="Folder that stands for the container's root: metadata files, sysfs, "
"device nodes.")  # fmt: skip
@click.option("--termination-message", type=click.Path(path_type=Path, dir_okay=False),
    default=standalone.TERMINATION_MESSAGE_PATH,
              show_default=True, help="File that gets the reason of a failure.")  # fmt: skip
@click.option("--uri", default=libvirt_conn.DEFAULT_URI, show_default=True, help="libvirt connection.")
@click.option("--daemon", metavar="PROGRAM",
              help="Start this libvirt daemon if none is running, and again if it ends, e.g. virtqemud.")  # fmt: skip
@click.option("--poll", type=click.FloatRange(0.01, 60), default=0.5, show_default=True,
              help="Seconds between checks of the files and the domain.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(0), default=0.0, show_default=True,
              help="Seconds to wait for devices; 0: no limit.")  # fmt: skip
@click.option("--grace", type=click.FloatRange(0), default=None,
              help="Seconds that a guest has to shut down.  [default: the VMI's, else 30]")  # fmt: skip
def main(
    info_dir: Path, run_dir: Path, root: Path, termination_message: Path, uri: str, daemon: str | None, poll: float,
    timeout: float, grace: float | None,
) -> None:  # fmt: skip
    """Run one VM: wait for its devices, define and start its libvirt domain, and exit when it ends."""
    leave_process_1()
    stop = Stop()
    stopped_by: list[int] = []

    def stopping(number: int, frame: object) -> None:
        stopped_by.append(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopping)
    folders = Folders(info_dir, run_dir, root)
    report = StatusReport(run_dir / standalone.STATUS_FILE)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        (run_dir / standalone.READY_FILE).unlink(missing_ok=True)
        ready = _wait(folders, report, stop, poll, timeout, _Node(root, daemon is not None) if _is_local(uri) else None)
        if ready is None:
            sys.exit(128 + stopped_by[0])
        vmi, conversion = ready
        for warning in conversion.warnings:
            say(f"warning: {warning}")
        with OwnDaemon(daemon, uri) as own_daemon:
            follower = Follower(own_daemon, report, stop, poll, _grace(vmi) if grace is None else grace)
            _run(folders, conversion, uri, follower)
    except (LaunchFailed, LauncherError, BadFile) as error:
        report(Phase.FAILED, str(error))
        _fail(termination_message, str(error))
    except OSError as error:
        advice = "; make room on the node" if error.errno in _NO_ROOM else ""
        message = f"{error.filename}: {error.strerror}{advice}" if error.filename else str(error)
        report(Phase.FAILED, message)
        _fail(termination_message, message)


@dataclass(frozen=True)
class _Node:
    """The node that QEMU will run on. ``own_daemon``: QEMU has the launcher's limits."""

    root: Path
    own_daemon: bool

    def host(self) -> OwnHost:
        return OwnHost(read_host(self.root / "sys"), frozenset(os.sched_getaffinity(0)))

    def check(self, conversion: Conversion) -> Waiting | None:
        state = read_host_state(self.root, conversion.hostdevs, self.own_daemon)
        return check(conversion.domain, conversion.hostdevs, state)


def _is_local(uri: str) -> bool:
    """True for QEMU on this node. libvirt's test driver has no devices, another host's can't be looked at."""
    parts = urlsplit(uri)
    return parts.scheme in ("qemu", "qemu+unix") and not parts.netloc


def _wait(
    folders: Folders, report: StatusReport, stop: Stop, poll: float, timeout: float, node: _Node | None
) -> tuple[VirtualMachineInstance, Conversion] | None:
    """VMI and conversion once all devices have addresses and the node is ready for them; None if stopped. Raises
    LaunchFailed, LauncherError, BadFile, OSError."""
    began, reported = monotonic(), ""
    while True:
        outcome = _read(folders, node)
        if not isinstance(outcome, Waiting):
            return outcome
        if outcome.message != reported:
            reported = outcome.message
            say(f"waiting: {reported}")
            report(Phase.WAITING, reported)
        if timeout and monotonic() - began > timeout:
            raise LaunchFailed(f"gave up after {timeout:g} s: {reported}")
        if stop.wait(poll):
            return None


def _read(folders: Folders, node: _Node | None) -> tuple[VirtualMachineInstance, Conversion] | Waiting:
    vmi_file, status_file = folders.info / standalone.VMI_FILE, folders.info / standalone.DEVICE_STATUS_FILE
    vmi = read_vmi(_text(vmi_file), str(vmi_file))
    if isinstance(vmi, Waiting):
        return vmi
    status = read_device_status(_text(status_file), str(status_file))
    files = overlaid(read_folder(folders.root), read_base(folders.info / standalone.METADATA_FOLDER))
    conversion = decide(vmi, status, files, os.environ, node.host() if node is not None and uses_host(vmi) else None)
    if isinstance(conversion, Waiting):
        return conversion
    return (node.check(conversion) if node is not None else None) or (vmi, conversion)


def _text(path: Path) -> str:
    """A file's text; "" for a missing file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise BadFile(str(path), f"is not UTF-8 text: {error}") from None


def _run(folders: Folders, conversion: Conversion, uri: str, follower: Follower) -> None:
    """Start the domain, and return when it has ended. Raises LaunchFailed, LauncherError, OSError."""
    # What it doesn't know libvirt passes over: a device would be there, but not as it was asked for.
    check_supported(conversion.domain, libvirt_conn.release(uri))
    ready, prepared = folders.run / standalone.READY_FILE, folders.run / f".{standalone.READY_FILE}"
    write_whole(folders.run / standalone.DOMAIN_FILE, conversion.domain_xml)
    prepared.touch()  # before the domain starts: on a full disk it would only be destroyed again
    with libvirt_conn.started(conversion.domain_xml, uri) as guest:
        prepared.replace(ready)
        say(f"domain {conversion.domain.name} runs with {len(conversion.hostdevs)} host devices")
        try:
            follower.report(Phase.RUNNING, devices=device_places(conversion.hostdevs, guest.xml()))
            end = follower.follow(guest)
        finally:
            ready.unlink(missing_ok=True)
    say(f"domain {conversion.domain.name}: {end}")
    if end in ("crashed", "failed", "lost"):
        raise LaunchFailed("the domain ended without being watched" if end == "lost" else f"the domain {end}")
    follower.report(Phase.ENDED, end, ())


def _grace(vmi: VirtualMachineInstance) -> float:
    seconds = vmi.spec.termination_grace_period_seconds
    return 30.0 if seconds is None else float(max(seconds, 0))


def _fail(path: Path, message: str) -> None:
    """Write the reason to the termination message, which the operator reads, and exit."""
    say(f"error: {message}")
    try:
        path.write_bytes(message.encode()[: standalone.MAX_TERMINATION_MESSAGE])
    except OSError as error:
        say(f"error: the reason could not be written to {path}: {error.strerror}")
    sys.exit(1)


if __name__ == "__main__":
    main()
