"""Loops that run while something else does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs endless loops while the body does, then cancels them. A loop that failed fails the body at its end."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()
