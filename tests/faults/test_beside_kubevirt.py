"""Beside KubeVirt, path metadata-shim: every launcher pod needs the webhook when it is made, and the operator before it
can boot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.faults import certificates, clocks, outage, scenarios, writes
from devtools.faults.certificates import Reviews
from devtools.faults.scenarios import Report
from devtools.faults.site import Site, site
from virt_dra.installation.plan import BESIDE_KUBEVIRT

pytestmark = pytest.mark.control_plane(seconds=12)

SEED = 20261121


@pytest.fixture(scope="module")
def here(audited: tuple[ControlPlane, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(*audited, BESIDE_KUBEVIRT, tmp_path_factory.mktemp("containers"), devices=130) as made:
        yield made


@pytest.fixture(scope="module")
def storm(here: Site) -> Iterator[tuple[ExitStack, Reviews]]:
    """Certificates change during the tests that follow, until the stack is closed: it takes replicas a while to look at
    them."""
    with ExitStack() as stack:
        yield stack, stack.enter_context(certificates.changing(here))


def once(report: Report, *, told: bool) -> None:
    """Each VM's object was created once, and its pod got its metadata once, by whatever operator. ``told``: so was its
    Event.

    The audit log doesn't have every write as done: one whose connection ends under way is logged as 504, and two may
    not be logged at all. What the API server stored is verified already.
    """
    number = len(report.vms)
    logged = number - 2 - report.refused[504]
    assert logged <= report.done["create virtualmachineinstancedevices"] <= number
    assert logged <= report.done["patch pods"] <= number
    if told:
        assert report.done["create events"] == number


@pytest.mark.usefixtures("storm")
def test_the_operator_is_killed(here: Site) -> None:
    once(scenarios.killed(here, 30, 12, SEED), told=False)


def test_two_operators_that_both_lead(here: Site) -> None:
    once(scenarios.two_at_once(here, 10), told=True)


def test_the_webhook_is_killed(here: Site) -> None:
    once(scenarios.webhook_killed(here, 10, 2, SEED), told=True)


def test_the_operators_connections_are_cut(here: Site) -> None:
    once(scenarios.connections_cut(here, 10, 10, SEED), told=False)


def test_writes_are_answered_wrongly(here: Site) -> None:
    report = writes.answered_wrongly(here, 8, SEED)
    assert report.faults > 20
    assert {"wrong pods", "wrong virtualmachineinstancedevices", "wrong virtualmachineinstances"} <= report.notes.keys()


def test_clocks_jump_by_an_hour(here: Site, tmp_path: Path) -> None:
    scenarios_told = clocks.jumping(here, 8, 8, SEED, tmp_path).reported
    assert not scenarios_told.keys() & {"DeviceNotPublished", "WriteRefused"}


def test_etcd_is_gone(here: Site) -> None:
    outage.etcd_gone(here, 8, 6, SEED)


def test_no_review_fails_while_certificates_and_authorities_change(storm: tuple[ExitStack, Reviews]) -> None:
    stack, reviews = storm
    stack.close()
    assert reviews.failed == []
    assert len(reviews.serving) == 3
    assert min(reviews.answered.values()) > 20


def test_the_api_server_hangs(here: Site) -> None:
    once(scenarios.api_server_paused(here, 10, 1, SEED), told=False)


def test_the_api_server_is_killed(here: Site) -> None:
    once(scenarios.api_server_restarted(here, 10, 1, SEED), told=False)
