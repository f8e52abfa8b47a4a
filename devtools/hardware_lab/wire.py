"""What was sent on a network card's wire: the frames in the file that QEMU's ``filter-dump`` writes (pcap)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FILE_HEADER: Final = 24
_RECORD: Final = struct.Struct("<IIII")
_TAGGED: Final = 0x8100
"""The type of a frame with a VLAN's tag (IEEE 802.1Q)."""


@dataclass(frozen=True)
class Frame:
    """``vlan``: None without a tag."""

    source: str
    vlan: int | None


def sent_frames(path: Path) -> Iterator[Frame]:
    content = path.read_bytes()
    position = _FILE_HEADER
    while position < len(content):
        length = _RECORD.unpack_from(content, position)[2]
        position += _RECORD.size
        frame = content[position : position + length]
        kind, tag = struct.unpack_from(">HH", frame, 12)
        yield Frame(frame[6:12].hex(":"), tag & 0xFFF if kind == _TAGGED else None)
        position += length
