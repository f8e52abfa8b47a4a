"""The kernel's own reports of changed devices, by netlink and so without udev (D-42). An edge.

They only say that it is time to look, and where: what a report says of a device is not believed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Final

log = logging.getLogger(__name__)

NETLINK_KOBJECT_UEVENT: Final = 15
KERNEL: Final = 0
"""The sender's id of the kernel; udev and others send to the same socket with their own."""
KERNEL_GROUP: Final = 1
REPORT_MAX: Final = 16 * 1024
"""Bytes of a report; the kernel's have 2 KiB at most."""
SETTLING: Final = 1.0
"""Seconds after a report: a card comes and goes with many."""
_SUBSYSTEMS: Final = frozenset((b"SUBSYSTEM=pci", b"SUBSYSTEM=mdev"))
_PATH: Final = b"DEVPATH=/"
_ACTIONS: Final = frozenset(
    f"ACTION={action}".encode() for action in ("add", "remove", "bind", "unbind", "change", "online", "offline")
)


def changed_device(report: bytes, sender: int) -> str:
    """The name of the PCI function or mediated device that the kernel reports as changed; "" for other reports.

    >>> changed_device(b"add@/devices/a/b\\0ACTION=add\\0DEVPATH=/devices/a/b\\0SUBSYSTEM=pci\\0", KERNEL)
    'b'
    """
    words = report.split(b"\0")
    if sender != KERNEL or _SUBSYSTEMS.isdisjoint(words) or _ACTIONS.isdisjoint(words):
        return ""
    path = next((word for word in words if word.startswith(_PATH)), b"")
    return path.rpartition(b"/")[2].decode(errors="replace")


class KernelReports:
    """Waits for changes of devices. Without a socket (no network namespace of the host, no permission) none is
    reported, and changes are found by looking again."""

    def __init__(self, settling: float = SETTLING) -> None:
        self._settling = settling
        self._names: set[str] = set()
        self._lost = False
        self._socket: socket.socket | None = None
        try:
            self._socket = socket.socket(
                socket.AF_NETLINK,
                socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
                NETLINK_KOBJECT_UEVENT,
            )
            self._socket.bind((0, KERNEL_GROUP))
        except OSError as error:
            log.warning("the kernel's reports of devices can't be received: %s; they are looked for instead", error)
            self.close()

    async def changed(self) -> frozenset[str] | None:
        """The names of devices that were reported as changed, once they have settled; None if reports were lost, so
        that it may be any."""
        while not self._arrived():
            await self._readable()
        await asyncio.sleep(self._settling)
        self._arrived()
        names, lost = frozenset(self._names), self._lost
        self._names, self._lost = set(), False
        return None if lost else names

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _arrived(self) -> bool:
        """Takes what has arrived; True if there is a change, or if reports were lost."""
        while self._socket is not None:
            try:
                report, (sender, _) = self._socket.recvfrom(REPORT_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._lost = True  # more than the buffer holds: some of them may have been about devices
                continue
            if name := changed_device(report, sender):
                self._names.add(name)
        return self._lost or bool(self._names)

    async def _readable(self) -> None:
        if self._socket is None:
            await asyncio.Event().wait()
            return
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._socket)
