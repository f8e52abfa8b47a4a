"""What tests of commands share: a real API server with a device, and a program that starts quickly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.operator import Vms, kinds
from tests.cli.forked import forked_program


@pytest.fixture
def vms(control_plane: ControlPlane, namespace: str) -> Iterator[Vms]:
    """A namespace for VMs, with one published device, at the address 0000:41:00.0."""
    with kinds(control_plane):
        made = Vms(control_plane, namespace)
        made.publish()
        yield made
        made.withdraw()


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An executable ``virt-dra`` that doesn't import everything at each start."""
    with forked_program(tmp_path_factory.mktemp("forked")) as path:
        yield path
