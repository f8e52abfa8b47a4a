"""Which interfaces have an IPv4 address: files of the kernel say it of IPv6 only. An edge."""

from __future__ import annotations

import fcntl
import socket
import struct
from array import array
from typing import Final

_SIOCGIFCONF: Final = 0x8912
_NAME_BYTES, _ENTRY_BYTES = 16, 40
_FIRST_ENTRIES: Final = 64


def addressed_interfaces() -> frozenset[str]:
    """Those of this process's network namespace, loopback too. Waits for the kernel's lock of interfaces."""
    entries = _FIRST_ENTRIES
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        while True:
            answer = array("B", bytes(entries * _ENTRY_BYTES))
            request = struct.pack("iP", len(answer), answer.buffer_info()[0])
            used, _ = struct.unpack("iP", fcntl.ioctl(asking, _SIOCGIFCONF, request))
            if used < len(answer):  # else there may be more
                break
            entries *= 4
    names = (answer[start : start + _NAME_BYTES].tobytes() for start in range(0, used, _ENTRY_BYTES))
    return frozenset(name.partition(b"\0")[0].decode(errors="replace").partition(":")[0] for name in names)
