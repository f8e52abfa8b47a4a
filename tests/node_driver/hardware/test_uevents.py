"""Which of the kernel's reports mean that devices have changed (D-42)."""

from __future__ import annotations

import asyncio

import pytest

from node_driver.hardware.uevents import KernelReports, is_change

ADDED = b"add@/devices/pci0000:00/0000:00:05.0\0ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=pci\0SEQNUM=1\0"


@pytest.mark.parametrize(
    ("report", "sender", "changes"),
    [
        (ADDED, 0, True),
        (ADDED, 4711, False),
        (ADDED.replace(b"pci\0", b"mdev\0"), 0, True),
        (ADDED.replace(b"SUBSYSTEM=pci", b"SUBSYSTEM=net"), 0, False),
        (ADDED.replace(b"=add", b"=unbind"), 0, True),
        (ADDED.replace(b"=add", b"=move"), 0, False),
        (b"", 0, False),
        (b"\xff" * 4096, 0, False),
    ],
    ids=["added", "not of the kernel", "mdev", "network", "unbound", "moved", "empty", "noise"],
)
def test_reports_of_pci_functions_and_mdevs_count(report: bytes, sender: int, changes: bool) -> None:
    assert is_change(report, sender) == changes


async def test_without_a_report_nothing_is_said_to_have_changed() -> None:
    reports = KernelReports(settling=0.0)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reports.changed()
    finally:
        reports.close()
