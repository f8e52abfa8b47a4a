"""Without KubeVirt the operator makes VMIs and pods itself: one of each, whenever it is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.faults import clocks, outage, scenarios, writes
from devtools.faults.site import Site, site
from virt_dra.installation.plan import STANDALONE

pytestmark = pytest.mark.control_plane(seconds=12)

SEED = 20261121


@pytest.fixture(scope="module")
def here(audited: tuple[ControlPlane, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(*audited, STANDALONE, tmp_path_factory.mktemp("containers"), devices=60) as made:
        yield made


def test_the_operator_is_killed(here: Site) -> None:
    report = scenarios.killed(here, 10, 4, SEED)
    assert report.done["create pods"] <= len(report.vms)


def test_two_operators_that_both_lead(here: Site) -> None:
    report = scenarios.two_at_once(here, 6)
    assert report.done["create virtualmachineinstances"] == report.done["create pods"] == report.done["patch pods"] == 6


def test_writes_are_answered_wrongly(here: Site) -> None:
    report = writes.answered_wrongly(here, 6, SEED)
    assert report.faults > 20
    assert {
        "wrong pods",
        "wrong leases",
        "wrong events",
        "wrong virtualmachines/status",
        "wrong virtualmachineinstances",
    } <= report.notes.keys()


def test_clocks_jump_by_an_hour(here: Site, tmp_path: Path) -> None:
    scenarios_told = clocks.jumping(here, 6, 8, SEED, tmp_path).reported
    assert not scenarios_told.keys() & {"DeviceNotPublished", "WriteRefused"}


def test_etcd_is_gone(here: Site) -> None:
    outage.etcd_gone(here, 6, 6, SEED)
