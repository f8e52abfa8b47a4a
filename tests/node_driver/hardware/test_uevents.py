"""Which of the kernel's reports mean that devices have changed (D-42)."""

from __future__ import annotations

import asyncio

import pytest

from node_driver.hardware.uevents import KernelReports, changed_device

FUNCTION = "0000:00:05.0"
ADDED = b"add@/devices/x/0000:00:05.0\0ACTION=add\0DEVPATH=/devices/x/0000:00:05.0\0SUBSYSTEM=pci\0SEQNUM=1\0"


@pytest.mark.parametrize(
    ("report", "sender", "device"),
    [
        (ADDED, 0, FUNCTION),
        (ADDED, 4711, ""),
        (ADDED.replace(b"pci\0", b"mdev\0"), 0, FUNCTION),
        (ADDED.replace(b"SUBSYSTEM=pci", b"SUBSYSTEM=net"), 0, ""),
        (ADDED.replace(b"=add", b"=unbind"), 0, FUNCTION),
        (ADDED.replace(b"=add", b"=move"), 0, ""),
        (b"", 0, ""),
        (b"\xff" * 4096, 0, ""),
    ],
    ids=["added", "not of the kernel", "mdev", "network", "unbound", "moved", "empty", "noise"],
)
def test_reports_of_pci_functions_and_mdevs_count(report: bytes, sender: int, device: str) -> None:
    assert changed_device(report, sender) == device


async def test_without_a_report_nothing_is_said_to_have_changed() -> None:
    reports = KernelReports(settling=0.0)
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reports.changed()
    finally:
        reports.close()
