"""What tests of commands share: a real API server with a device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.operator import Vms, kinds


@pytest.fixture
def vms(control_plane: ControlPlane, namespace: str) -> Iterator[Vms]:
    """A namespace for VMs, with one published device, at the address 0000:41:00.0."""
    with kinds(control_plane):
        made = Vms(control_plane, namespace)
        made.publish()
        yield made
        made.withdraw()
