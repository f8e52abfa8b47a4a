"""A wish to stop that a signal's handler may set."""

from __future__ import annotations

import os
from contextlib import suppress
from select import POLLIN, poll


class Stop:
    """What ``threading.Event`` is, but without its lock: a handler runs in the thread that waits, and where that holds
    the lock already, setting the event waits for ever. Here a byte in a pipe ends the wait. It keeps two file
    descriptors, as long as the process lives."""

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._poll = poll()
        self._poll.register(reading, POLLIN)

    def set(self) -> None:
        with suppress(BlockingIOError):  # it is full: it was set 65,536 times
            os.write(self._writing, b"\0")

    def is_set(self) -> bool:
        return self.wait(0.0)

    def wait(self, seconds: float) -> bool:
        """Whether it was set, at the latest after ``seconds``."""
        return bool(self._poll.poll(1000 * seconds))  # nobody reads the byte, so it stays set
