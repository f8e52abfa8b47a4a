"""A launcher that is process 1 of its container, as in its pod."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devtools import needs
from devtools.libvirt import witness as libvirt_witness
from tests.launcher.test_entry import STATUS, VMI, Pod

pytestmark = [pytest.mark.libvirt, pytest.mark.root]

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
ORPHAN_IS_FREED, ORPHAN_IS_LEFT = 7, 8
DAEMON = f"""#!/bin/sh
orphan=$(sh -c 'sleep 0 >&- & echo $!')
for attempt in $(seq 300); do
  [ -d /proc/$orphan ] || exit {ORPHAN_IS_FREED}
  sleep 0.1
done
exit {ORPHAN_IS_LEFT}
"""


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    needs.use("root")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no PID namespace: run as root")
    libvirt_witness.require_binding()
    return Pod(tmp_path)


def command(pod: Pod, *options: str | Path) -> tuple[str | Path, ...]:
    places = ("--info-dir", pod.info, "--run-dir", pod.run, "--root", pod.root, "--termination-message", pod.message)
    return (*NAMESPACE, sys.executable, "-m", "launcher.process.entry", *places, *options)


def test_it_frees_processes_whose_parents_are_gone(pod: Pod, tmp_path: Path) -> None:
    """By what looks like a libvirt daemon: one that leaves such a process behind."""
    daemon = tmp_path / "daemon"
    daemon.write_text(DAEMON)
    daemon.chmod(0o755)
    pod.write("vmi.json", VMI)
    pod.write("device-status.json", STATUS)
    options = ("--uri", "test:///no-such-file", "--daemon", daemon)
    ran = subprocess.run(command(pod, *options), capture_output=True, check=False)
    assert ran.returncode == 1
    assert pod.message.read_text() == f"{daemon} ended with exit code {ORPHAN_IS_FREED}"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_reach_it(pod: Pod, number: signal.Signals, code: int) -> None:
    with subprocess.Popen(command(pod), stderr=subprocess.PIPE, text=True) as outer:
        assert outer.stderr is not None
        assert outer.stderr.readline().startswith("waiting: ")
        (process_1,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        subprocess.run(["kill", f"-{number.value}", process_1], check=True)
        assert outer.wait() == code
