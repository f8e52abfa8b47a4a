"""Whether the cables of network interfaces have a carrier."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def read_links(sysfs: str) -> dict[str, bool]:
    """PCI function with a network interface that is up -> whether one of its interfaces has a carrier. Of an interface
    that is down the kernel doesn't say."""
    links: dict[str, bool] = {}
    folder = Path(sysfs, "class/net")
    for interface in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            address = (interface / "device").readlink().name
            carrier = (interface / "carrier").read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            continue
        if _ADDRESS.fullmatch(address):
            links[address] = links.get(address, False) or carrier == "1"
    return links
