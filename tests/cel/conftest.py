"""What tests of expressions' costs leave behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """A measurement unfreezes all objects; with those of every test among them, later collections take a second, also
    those of the same module's next tests."""
    yield
    gc.freeze()
