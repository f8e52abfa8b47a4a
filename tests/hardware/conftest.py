"""An emulated machine with an IOMMU, shared by the tests of this package, which run one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.hardware_lab.machine import Board, Card, HostBridge, LabMachine, require

BOARD = Board(
    bridges=(HostBridge("far", 0x40, numa_node=1),),
    cards=(
        Card("edu", name="edu1"),
        Card("nvme", under="far", properties={"serial": "first"}, drive_mib=64, name="nvme1"),
    ),
)


@pytest.fixture(scope="package")
def machine() -> Iterator[LabMachine]:
    require()
    with LabMachine(BOARD) as running:
        yield running
