"""The kernel's own reports of changed devices, by netlink and so without udev (D-42). An edge.

They only say that it is time to look: what a report says is not believed.
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
_ACTIONS: Final = frozenset(
    f"ACTION={action}".encode() for action in ("add", "remove", "bind", "unbind", "change", "online", "offline")
)


def is_change(report: bytes, sender: int) -> bool:
    """True for a report of the kernel that a PCI function or mediated device has changed.

    >>> is_change(b"add@/devices/x\\0ACTION=add\\0SUBSYSTEM=pci\\0", KERNEL)
    True
    """
    words = report.split(b"\0")
    return sender == KERNEL and not _SUBSYSTEMS.isdisjoint(words) and not _ACTIONS.isdisjoint(words)


class KernelReports:
    """Waits for changes of devices. Without a socket (no network namespace of the host, no permission) none is
    reported, and changes are found by looking again."""

    def __init__(self, settling: float = SETTLING) -> None:
        self._settling = settling
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

    async def changed(self) -> None:
        """Returns when a change was reported, and has settled."""
        while not self._arrived():
            await self._readable()
        await asyncio.sleep(self._settling)
        self._arrived()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _arrived(self) -> bool:
        """Takes what has arrived; True if a change is among it, or if reports were lost."""
        changed = False
        while self._socket is not None:
            try:
                report, (sender, _) = self._socket.recvfrom(REPORT_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                changed = True  # more than the buffer holds: some of them may have been about devices
                continue
            changed = changed or is_change(report, sender)
        return changed

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
