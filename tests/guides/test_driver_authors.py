"""The guide for authors of drivers does what it says: its Python runs as it stands there and prints what it shows."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Final

import pytest

from tests.guides.python_blocks import check_printed

PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "driver-authors.md"


def _sections() -> dict[str, str]:
    """Headings of the second level -> their text. Each has a namespace of its own."""
    _, *parts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in parts}


@pytest.mark.parametrize("title", _sections())
def test_the_guides_python_prints_what_the_guide_shows(title: str, caplog: pytest.LogCaptureFixture) -> None:
    """C-16.1, C-16.7, C-16.8: what a kubelet asks of drivers. C-13.6, C-13.8: what they may write. C-18.5: three
    functions are a driver."""
    caplog.set_level(logging.CRITICAL)
    assert check_printed(_sections()[title], PAGE)
