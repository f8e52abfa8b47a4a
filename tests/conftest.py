"""What all tests share: golden files, a program that starts quickly, libvirt as a witness, a real control plane."""

from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from devtools import needs
from devtools.cluster.control_plane import ControlPlane, require
from devtools.libvirt import witness as libvirt_witness
from tests import distribution
from tests.cli.forked import forked_program

Golden = Callable[[str, str], None]

# Property tests try the same inputs every time and take their time, so that a failure is about the change and not about
# luck or load. To explore: --hypothesis-profile=default
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
settings.register_profile("quick", settings.get_profile("steady"), max_examples=20)  # make check


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")
    parser.addoption(
        "--all-scenarios",
        action="store_true",
        help="ask a real API server everything, not only a sample (about a minute)",
    )


def pytest_configure() -> None:
    """Commands have no defaults of a developer's own. Programs that tests start can be interrupted, also where this run
    is one in a shell's background: a program ignores what the one that starts it ignores."""
    os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "virt-dra-tests" / "config")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


NEEDED_BY_FIXTURE = {
    "control_plane": "control_plane",
    "audited": "control_plane",
    "known_worlds": "control_plane",
    "libvirt": "libvirt",
}
NEEDS = ("control_plane", "libvirt", "go", "root", "images", "node", "hardware")
"""Markers of what a test needs beside Python. :mod:`devtools.needs` holds tests to them."""


AT_LOADS_MERCY = ("control_plane", "slow", "node", "hardware")
"""Markers of tests that start real processes with real leases, or measure time: other work on the machine may fail
them. Each is repeated once, which the summary shows as ``rerun``; ``make flaky`` repeats none, and lists them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without garbage collection: modules and tests stay, and looking at them again and again takes a
    third of the time. For the same reason the collections of a run skip them. Whoever asks whether objects are frozen
    gets this number: to count them again takes 70 ms each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        frozen = gc.get_freeze_count()
        gc.get_freeze_count = lambda: frozen
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _check_markers(items)
    if hasattr(config, "workerinput"):  # one of several processes
        items[:] = distribution.longest_first(items)
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if any(item.get_closest_marker(name) for name in AT_LOADS_MERCY):
                item.add_marker(pytest.mark.flaky(reruns=1))


def _check_markers(items: list[pytest.Item]) -> None:
    """A test that takes a fixture which starts programs has its marker: else ``make check`` would run it."""
    unmarked = [
        f"{item.nodeid}: takes the fixture {fixture} without pytest.mark.{marker}"
        for item in items
        for fixture in getattr(item, "fixturenames", ())
        if (marker := NEEDED_BY_FIXTURE.get(fixture)) is not None and item.get_closest_marker(marker) is None
    ]
    if unmarked:
        raise pytest.UsageError("\n".join(unmarked))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    needs.permit(name for name in NEEDS if item.get_closest_marker(name) is not None)


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Whatever a test makes of this process's logging (``json_logging`` sets the root logger's level) ends with it."""
    root = logging.getLogger()
    level, disabled, handlers = root.level, root.manager.disable, tuple(root.handlers)
    yield
    root.setLevel(level)
    logging.disable(disabled)
    for handler in root.handlers[:]:
        if handler not in handlers:
            root.removeHandler(handler)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """``golden(name, text)``: the text must equal ``golden/<name>`` beside the test's module. A missing file fails."""
    folder = request.path.parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path: Path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"golden file {path} is missing; look at the output and write it with: pytest --update-golden")
        assert text == path.read_text(encoding="utf-8"), (
            f"{path} differs; if the new output is right: pytest --update-golden"
        )

    return compare


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An executable ``virt-dra`` that doesn't import everything at each start."""
    with forked_program(tmp_path_factory.mktemp("forked")) as path:
        yield path


@pytest.fixture(scope="session")
def libvirt() -> None:
    """Tests that use this need libvirt's tools. Without them they skip with advice; with CI=true they fail instead."""
    libvirt_witness.require()


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:  # one of several processes, which says it to the first
        output["remarks"] = libvirt_witness.remarks()


_REMARKS: dict[str, None] = {}
"""Of the other processes, each once."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> distribution.UnitScheduling | None:
    """Where files are distributed, those of a unit stay together."""
    return distribution.UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _REMARKS.update(dict.fromkeys(getattr(node, "workeroutput", {}).get("remarks", ())))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for remark in dict.fromkeys((*_REMARKS, *libvirt_witness.remarks())):
        terminalreporter.write_line(remark)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real etcd and kube-apiserver with the feature gates nobody touched, shared by all tests; started by the first
    that asks.

    Scheduler and controllers on demand: ``control_plane.start_scheduler()``. Cluster-scoped objects are the test's own
    to name and delete.
    """
    require()
    with ControlPlane() as running:
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a new namespace of the real control plane; deleted afterwards with all that is in it."""
    name = control_plane.create_namespace()
    yield name
    control_plane.delete_namespace(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report has what the servers of its control plane logged last."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {}).values()
        report.sections.extend(("control plane", plane.tails()) for plane in used if isinstance(plane, ControlPlane))
    return report
