"""The world of the tests of this package; KubeVirt's kinds are one of a kind in a cluster, so there is one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import CONTROLLERS, SCHEDULER, ControlPlane, require
from tests.e2e.worlds import Worlds


@pytest.fixture(scope="package")
def worlds(control_plane: ControlPlane) -> Iterator[Worlds]:
    require(SCHEDULER, CONTROLLERS)
    found = Worlds()
    yield found
    found.close()
