"""The control plane of this package: its API server is restarted, and keeps an audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.cluster.control_plane import CONTROLLERS, SCHEDULER, ControlPlane, require
from devtools.faults.ledger import audit_arguments


@pytest.fixture(scope="package")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane, and its audit log."""
    require(SCHEDULER, CONTROLLERS)
    arguments, log = audit_arguments(tmp_path_factory.mktemp("audit"))
    with ControlPlane(arguments=arguments) as plane:
        yield plane, log
