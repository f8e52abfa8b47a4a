"""What all tests share: golden files, libvirt as a witness, a real control plane."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from devtools.cluster.control_plane import ControlPlane, require
from devtools.libvirt import witness as libvirt_witness

Golden = Callable[[str, str], None]

# Property tests try the same inputs every time and take their time, so that a failure is about the change and not about luck or load.
# To explore: --hypothesis-profile=default
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")
    parser.addoption("--all-scenarios", action="store_true", help="ask a real API server everything, not only a sample (about a minute)")
    parser.addoption("--unit", action="store_true", help="leave out what needs a control plane, libvirt or Go")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--unit``: only tests that ask for no program from outside, by their fixtures and marks."""
    if not config.getoption("--unit"):
        return
    programs = {"control_plane", "libvirt"}
    outside = [
        item
        for item in items
        if programs & {*getattr(item, "fixturenames", ()), *(mark.name for mark in item.iter_markers())}
        or item.path.parent.name in {"guides", "faults", "e2e"}
        or item.path.stem.endswith(("_cluster", "_real_api", "test_control_plane", "test_rights", "test_webhook_faults"))
    ]
    config.hook.pytest_deselected(items=outside)
    items[:] = [item for item in items if item not in set(outside)]


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
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; if the new output is right: pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def libvirt() -> None:
    """Tests that use this need libvirt's tools. Without them they skip with advice; with CI=true they fail instead."""
    libvirt_witness.require()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for remark in libvirt_witness.remarks():
        terminalreporter.write_line(remark)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A real etcd and kube-apiserver with the feature gates nobody touched, shared by all tests; started by the first that asks.

    Scheduler and controllers on demand: ``control_plane.start_scheduler()``. Cluster-scoped objects are the test's own to name and delete.
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
