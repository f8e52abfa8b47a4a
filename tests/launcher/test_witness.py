"""The libvirt witness: one that is missing is reported and never passes for one that agreed, and the daemon has nothing
of the host's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.libvirt import daemon as libvirt_daemon
from devtools.libvirt import witness as libvirt_witness
from devtools.libvirt.daemon import Daemon, Mode, NoDaemon, Plan, usual_mode
from devtools.libvirt.witness import emulated
from launcher import LauncherError, convert
from launcher.process.libvirt_conn import answers
from tests.launcher.libvirt_domains import define, dumpxml, undefine


@pytest.mark.libvirt
@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_missing_tools_skip_with_advice_and_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(libvirt_witness, "TOOLS", ("no-such-tool",))

    with pytest.raises(outcome, match=r"^no-such-tool missing: apt-get install libvirt-daemon .* qemu-system-x86$"):
        libvirt_witness.require()


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
@pytest.mark.parametrize("uri", libvirt_witness.URIS)
def test_a_domain_that_libvirt_refuses_is_no_silent_success(uri: str) -> None:
    with pytest.raises(libvirt_witness.Refused, match=r"missing|unknown|could not"):
        libvirt_witness.define("<domain type='kvm'><uuid>8a05ad83-3472-497d-8631-8142f31460e8</uuid></domain>", uri)


MODES: tuple[Mode, ...] = ("namespace", "session")
GOOD = emulated(convert({"metadata": {"namespace": "ns", "name": "own-daemon"}, "spec": {}}).domain_xml)


@pytest.fixture(params=MODES)
def daemon(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A daemon besides the shared one."""
    mode: Mode = request.param
    if mode == "namespace" and usual_mode() != mode:
        pytest.skip("no mount namespace can be made here: that takes root")
    made = Daemon(mode)
    yield made
    made.close()


def probed(daemon: Daemon) -> list[int]:
    """When QEMU's capabilities were written, in nanoseconds: once for each time that QEMU was probed and another answer
    kept."""
    assert daemon.folder is not None
    its_root = Path("/proc", str(daemon.pid), "root")
    folder = {
        "namespace": its_root / "var/cache/libvirt/qemu",
        "session": daemon.folder / "cache_home/libvirt/qemu/cache",
    }[daemon.wanted]
    return [path.stat().st_mtime_ns for path in (folder / "capabilities").glob("*.xml")]


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_qemu_is_probed_once_whatever_the_hosts_kvm(daemon: Daemon) -> None:
    uri = daemon.uri()
    uuids = []
    times = []
    for _ in range(3):
        uuids.append(define(GOOD, uri))
        undefine("ns_own-daemon", uri)
        times.append(probed(daemon))

    assert len(set(uuids)) == 1
    assert times == [times[0]] * 3
    assert len(times[0]) == 1


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_a_daemon_that_was_killed_leaves_nothing_that_keeps_the_next_from_starting(daemon: Daemon) -> None:
    uri = daemon.uri()
    assert daemon.pid is not None
    os.kill(daemon.pid, signal.SIGKILL)
    os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOWAIT)
    assert not answers(uri)

    assert answers(daemon.uri())


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_two_daemons_share_nothing(daemon: Daemon) -> None:
    other = Daemon(daemon.wanted)
    try:
        define(GOOD, daemon.uri())
        with pytest.raises(LauncherError, match="Domain not found"):
            dumpxml("ns_own-daemon", other.uri())
    finally:
        other.close()


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_the_summary_says_so_where_the_hosts_kvm_can_be_seen(monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    monkeypatch.setattr(libvirt_daemon, "SHARED", daemon)
    assert libvirt_witness.remarks() == ()
    daemon.uri()

    said = {
        "namespace": (),
        "session": (
            "libvirt: no mount namespace can be made here (that takes root), so "
            "QEMU's driver was asked in a session daemon, "
            "which sees the host's /dev/kvm",
        ),
    }
    assert libvirt_witness.remarks() == said[daemon.wanted]


@pytest.mark.libvirt
@pytest.mark.usefixtures("libvirt")
def test_a_daemon_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        libvirt_daemon,
        "plan",
        lambda mode, folder: Plan(mode, ("sh", "-c", "echo no luck >&2; exit 3"), {}, "qemu:///none"),
    )

    with pytest.raises(NoDaemon, match=r"^libvirtd \(session\) ended with 3: no luck; "):
        Daemon("session").uri()
