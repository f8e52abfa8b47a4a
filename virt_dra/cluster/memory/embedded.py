"""The embedded cluster with real sources: the system's clock and randomness. The edge; everything else takes them as arguments."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from random import SystemRandom

from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import random_suffixes


def embedded_cluster() -> MemoryCluster:
    """An empty cluster."""
    return MemoryCluster(lambda: datetime.now(UTC), random_suffixes(SystemRandom()), lambda: str(uuid.uuid4()))
