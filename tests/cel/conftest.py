"""What tests of expressions' costs leave behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def frozen_heap() -> Iterator[None]:
    """A measurement unfreezes all objects; with those of every test among them, later collections take a second."""
    yield
    gc.freeze()
