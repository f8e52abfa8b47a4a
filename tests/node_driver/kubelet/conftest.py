from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from devtools.upstream.kubelet.witness import NoKubelet, built_kubelet


@pytest.fixture
def program() -> Path:
    """Kubernetes' DRA manager."""
    try:
        return built_kubelet()
    except NoKubelet as why:
        pytest.skip(str(why))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short one: a socket's path has at most 107 bytes."""
    with TemporaryDirectory() as path:
        yield Path(path)
