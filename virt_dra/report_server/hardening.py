"""What keeps other processes of the same user out of the serving process, in whose memory viewers' tokens are."""

from __future__ import annotations

import ctypes
from typing import Final

_PR_SET_DUMPABLE: Final = 4


def unreadable_to_others() -> bool:
    """Makes this process one that only root may trace or read the memory of, and that dumps no core. Returns whether
    that succeeded.

    The rendering process runs for the same user and evaluates what tenants wrote: without this, whoever took it over
    could read tokens where the kernel lets processes of one user trace each other. Processes that are started later
    aren't affected by it.
    """
    try:
        return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False  # no Linux
