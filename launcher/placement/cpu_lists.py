"""Lists of CPUs and NUMA nodes as Linux and libvirt write them: ``0-3,8``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

NUMBERS_MAX: Final = 16384
"""The highest number plus one: libvirt's limit of a CPU mask."""
_ITEM: Final = re.compile(r"(\^)?([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The numbers in the order of the list, each once; ``^3`` takes one out again, as in libvirt. Raises ValueError.

    ``list = item *("," item)``, ``item = number / number "-" number / "^" number``
    """
    numbers: dict[int, None] = {}
    listed = 0
    for item in text.strip().split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None or (match[1] and match[3]):
            raise ValueError(f"{text[:80]!r} is no list of CPUs; write for example 0-3,8")
        first, last = int(match[2]), int(match[3] or match[2])
        if last >= NUMBERS_MAX or last < first:
            raise ValueError(f"{item.strip()!r} in {text[:80]!r} is no range below {NUMBERS_MAX}")
        listed += last - first + 1
        if listed > 2 * NUMBERS_MAX:
            raise ValueError(f"{text[:80]!r} lists numbers again and again")
        if match[1]:
            numbers.pop(first, None)
        else:
            numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def cpu_list(numbers: Iterable[int]) -> str:
    """The numbers one by one, as KubeVirt writes them: ``0,1,2``."""
    return ",".join(map(str, numbers))
