"""A launcher whose disk is full ends with the reason and starts nothing; one whose log is full goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.libvirt import witness as libvirt_witness
from tests.full_disk import on_a_disk
from tests.launcher.test_entry import STATUS, VMI, Pod, ended

pytestmark = [pytest.mark.libvirt, pytest.mark.root]

FULL = Path("/dev/full")


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    libvirt_witness.require_binding()
    made = Pod(tmp_path)
    made.write("vmi.json", VMI)
    made.write("device-status.json", STATUS)
    return made


def command(pod: Pod, run: Path, *options: str) -> tuple[str | Path, ...]:
    places = ("--info-dir", pod.info, "--run-dir", run, "--root", pod.root, "--termination-message", pod.message)
    return (
        sys.executable,
        "-m",
        "launcher.process.entry",
        *places,
        "--uri",
        "test:///default",
        "--poll",
        "0.02",
        *options,
    )


@pytest.mark.parametrize(
    ("options", "file"), [("nr_inodes=1", "domain.xml"), ("nr_inodes=2", ".ready"), ("size=4k", "domain.xml")]
)  # fmt: skip
def test_nothing_is_started_where_there_is_no_room(pod: Pod, tmp_path: Path, options: str, file: str) -> None:
    """``size=4k``: another file takes the only page."""
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    if options.startswith("size"):
        kept.mkdir()
        (kept / "other").write_text("x" * 4096)
    ran = on_a_disk(disk, kept, options, command(pod, disk), cwd=Path(__file__).parents[2])
    reason = f"{disk}/{file}: No space left on device; make room on the node"
    assert (ran.returncode, ran.stderr.splitlines()) == (1, [f"error: {reason}"])
    assert pod.message.read_text() == reason
    left = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert left.pop("other", b"x" * 4096) == b"x" * 4096
    assert left.keys() <= {"domain.xml", "status.json"}
    assert left.get("domain.xml", b"<domain></domain>\n").endswith(b"</domain>\n")
    assert json.loads(left.get("status.json", b"{}")).get("reason", reason) == reason


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_log_ends_no_guest(pod: Pod) -> None:
    (pod.info / "device-status.json").unlink()
    with FULL.open("wb") as full, subprocess.Popen(command(pod, pod.run), stderr=full, text=True) as process:
        pod.process = process
        try:
            pod.write("device-status.json", STATUS)
            pod.eventually((pod.run / "ready").exists)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert not pod.message.exists()


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_log_takes_no_reason_away(pod: Pod) -> None:
    pod.write("vmi.json", "[]")
    with FULL.open("wb") as full:
        assert subprocess.run(command(pod, pod.run), stderr=full, check=False, timeout=60).returncode == 1
    assert "is not a VirtualMachineInstance" in pod.message.read_text()


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_reason_that_can_not_be_written_is_in_the_log(pod: Pod) -> None:
    pod.write("vmi.json", "[]")
    pod.message = FULL
    with pod.running() as process:
        code, said = ended(process)
    assert (code, said[1]) == (1, "error: the reason could not be written to /dev/full: No space left on device")
    assert said[0].startswith("error: ")


def test_a_domain_that_libvirt_can_not_start_is_removed_and_the_first_error_told(
    pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libvirt fails whose own disk is full: ``create`` raises, and so may what comes after it."""
    import libvirt

    from launcher.errors import LauncherError
    from launcher.process import libvirt_conn

    steps: list[str] = []

    class Domain:
        def create(self) -> None:
            steps.append("create")
            raise libvirt.libvirtError("cannot open file '/var/log/libvirt/qemu/vm.log': No space left on device")

        def isActive(self) -> bool:
            return False

        def undefine(self) -> None:
            steps.append("undefine")
            raise libvirt.libvirtError("cannot remove config: No such file or directory")

    class Connection:
        def defineXML(self, xml: str) -> Domain:
            return Domain()

        def close(self) -> None:
            steps.append("close")

    monkeypatch.setattr(libvirt, "open", lambda uri: Connection())
    # a libvirtError takes the text of the thread's last error, which may be an earlier test's
    libvirt.virResetLastError()
    with (
        pytest.raises(LauncherError, match=r"vm\.log': No space left on device"),
        libvirt_conn.started("<domain/>", "test:///default"),
    ):
        raise AssertionError("it was started")
    assert steps == ["create", "undefine", "close"]
