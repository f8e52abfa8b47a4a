"""Large objects: work on them beside the event loop, and the memory that they take."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from virt_dra.api.reading.collector import collector_paused

P = ParamSpec("P")
T = TypeVar("T")

LARGE: Final = 64 * 1024
"""Bytes of JSON that take some milliseconds to read."""


async def beside_the_loop(size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """The function's result: of a thread where the JSON that it works on is :data:`LARGE`. The garbage collector rests
    meanwhile, as it would stop all threads for longer than the work takes."""
    if size <= LARGE:
        return function(*args, **kwargs)
    return await asyncio.to_thread(_uncollected, function, *args, **kwargs)


def resident_bytes() -> int:
    """The memory that this process takes; 0 where the system doesn't say so (only Linux does)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _uncollected(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    with collector_paused():
        return function(*args, **kwargs)
