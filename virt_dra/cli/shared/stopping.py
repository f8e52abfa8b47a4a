"""The start and end of a server: the signals that stop it, and a port that it can't have."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import NoReturn

from virt_dra.cli.shared.output import refuse


def stop_signal() -> asyncio.Event:
    """An event that SIGTERM or SIGINT sets, in the running loop."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def cannot_listen(where: str, error: OSError) -> NoReturn:
    """End the command: the address or a port can't be used."""
    refuse([f"cannot listen on {where}: {os.strerror(error.errno) if error.errno else error}"], "text")
