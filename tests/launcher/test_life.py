"""The life of a guest: through the restart of its daemon, to an orderly end; and what the status file says of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devtools.libvirt import witness as libvirt_witness
from devtools.libvirt.daemon import plan
from launcher import AddressSources, convert
from launcher.process import libvirt_conn
from launcher.process.daemon import OwnDaemon
from launcher.process.following import Follower
from launcher.process.life import DevicePlace, LauncherStatus, Phase, ShutdownStep, device_places, shutdown_step
from launcher.process.reporting import StatusReport
from launcher.process.stop import Stop
from virt_dra.api.wire import Json

PATIENCE = 60.0
REQUEST, BUTTON, DESTROY = ShutdownStep
VMI: Json = {
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm"},
    "spec": {"domain": {"memory": {"guest": "64Mi"}, "devices": {}}},
}


@pytest.mark.parametrize(
    ("elapsed", "grace", "taken", "step"),
    [
        (0, 30, None, REQUEST),
        (14.9, 30, REQUEST, None),
        (15, 30, REQUEST, BUTTON),
        (29.9, 30, BUTTON, None),
        (30, 30, BUTTON, DESTROY),
        (30, 30, DESTROY, DESTROY),
        (20, 30, None, REQUEST),
        (31, 30, None, DESTROY),
        (0, 0, None, DESTROY),
    ],
)
def test_a_guest_is_asked_twice_and_destroyed_at_the_end_of_its_grace_period(
    elapsed: float, grace: float, taken: ShutdownStep | None, step: ShutdownStep | None
) -> None:
    assert shutdown_step(elapsed, grace, taken) is step


def test_the_status_says_where_each_device_is_in_the_guest() -> None:
    devices = {"gpus": [{"name": name, "deviceName": f"v.com/{name}"} for name in ("a", "b")]}
    vmi = {**VMI, "spec": {"domain": {"devices": devices}}}
    variables = {"PCI_RESOURCE_V_COM_A": "0000:41:00.0", "PCI_RESOURCE_V_COM_B": "0000:42:00.1"}
    live = """<domain><devices>
      <hostdev><source><address domain="0x0000" bus="0x41"/></source>
        <address type="pci" domain="0x0000" bus="0x0a" slot="0x1f" function="0x7"/></hostdev>
      <hostdev><source><address domain="0x0000" bus="0x42"/></source></hostdev>
    </devices></domain>"""
    places = device_places(convert(vmi, AddressSources(variables)).hostdevs, live)
    status = LauncherStatus(Phase.RUNNING, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "", places)
    assert json.loads(status.to_json()) == {
        "phase": "Running",
        "since": "2026-01-02T03:04:05Z",
        "reason": "",
        "devices": [
            {"device": "gpus/a", "host": "0000:41:00.0", "guest": "0000:0a:1f.7"},
            {"device": "gpus/b", "host": "0000:42:00.1", "guest": ""},
        ],
    }


def test_the_time_of_a_status_is_that_of_its_phase(tmp_path: Path) -> None:
    report = StatusReport(tmp_path / "status.json")
    place = DevicePlace("gpus/a", "0000:41:00.0", "")
    news = [report(Phase.WAITING, "a"), report(Phase.WAITING, "a"), report(Phase.WAITING, "b")]
    waiting = json.loads((tmp_path / "status.json").read_text())
    news += [report(Phase.RUNNING, devices=(place,)), report(Phase.RUNNING)]
    running = json.loads((tmp_path / "status.json").read_text())
    assert news == [True, False, True, True, False]
    assert (waiting["phase"], waiting["reason"], waiting["devices"]) == ("Waiting", "b", [])
    assert (running["phase"], running["reason"], len(running["devices"])) == ("Running", "", 1)


class Recorded(StatusReport):
    """A status file that remembers what was in it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.history: list[tuple[Phase, str]] = []

    def __call__(self, phase: Phase, reason: str = "", devices: tuple[DevicePlace, ...] | None = None) -> bool:
        if news := super().__call__(phase, reason, devices):
            self.history.append((phase, "" if phase is Phase.DAEMON_GONE else reason))
        return news


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one, as the paths of sockets are limited. A QEMU that is left over is ended."""
    libvirt_witness.require()
    libvirt_witness.require_binding()
    made = Path(tempfile.mkdtemp(prefix="libvirt-"))
    yield made
    for file in made.glob("runtime_dir/libvirt/qemu/run/*.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.libvirt
def test_a_guest_outlives_its_daemon_and_is_followed_on(folder: Path, tmp_path: Path) -> None:
    """A session daemon, as its files are in a folder of its own, where the next one finds them."""
    planned = plan("session", folder)
    program = tmp_path / "daemon"
    variables = (f"{name}={shlex.quote(value)}" for name, value in planned.environment.items())
    program.write_text(f"#!/bin/sh\nexec env {' '.join(variables)} {shlex.join(planned.command)} 2>/dev/null\n")
    program.chmod(0o755)
    xml = libvirt_witness.emulated(convert(VMI).domain_xml)
    stop, ends = Stop(), list[str]()
    report = Recorded(tmp_path / "status.json")
    with OwnDaemon(str(program), planned.uri) as daemon, libvirt_conn.started(xml, planned.uri) as guest:
        pid_file = folder / "runtime_dir/libvirt/qemu/run/default_vm.pid"
        qemu = pid_file.read_text()
        first = _pid(daemon)
        report(Phase.RUNNING)
        follower = Follower(daemon, report, stop, poll=0.05, grace=1.0)
        thread = threading.Thread(target=lambda: ends.append(follower.follow(guest)))
        thread.start()
        os.kill(first, signal.SIGKILL)
        _eventually(lambda: report.history[-2:] == [(Phase.DAEMON_GONE, ""), (Phase.RUNNING, "")])
        assert (pid_file.read_text(), _pid(daemon) != first) == (qemu, True)
        stop.set()
        thread.join(PATIENCE)
    assert ends == ["destroyed"]
    shutting_down = [(Phase.SHUTTING_DOWN, step.value) for step in (REQUEST, BUTTON, DESTROY)]
    gone = [(phase, reason) for phase, reason in report.history if phase is not Phase.DAEMON_GONE]
    assert gone == [(Phase.RUNNING, ""), (Phase.RUNNING, ""), *shutting_down]
    with pytest.raises(OSError, match="No such process"):
        os.kill(int(qemu), 0)


def _pid(daemon: OwnDaemon) -> int:
    assert daemon.pid is not None
    return daemon.pid


def _eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
