"""Time and randomness of an instance loop under test."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from virt_dra.controllers.keyed_loop import Ambient


def ambient(now: Callable[[], datetime]) -> Ambient:
    """The machine's clock and randomness, but for ``now``."""
    return Ambient(now, time.monotonic, random.random, lambda: uuid4().hex[:16])
