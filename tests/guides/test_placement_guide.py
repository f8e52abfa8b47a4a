"""The guide to placement does what it says: its Python runs as it stands there and prints what it shows (K-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.guides.python_blocks import check_printed
from virt_dra.api.integration.pci_placement import PCI_PLACEMENT_CHOICES

PAGE: Final = Path(__file__).parents[2] / "docs" / "guides" / "placement.md"


def test_the_guides_python_prints_what_the_guide_shows() -> None:
    assert check_printed(PAGE.read_text(encoding="utf-8"), PAGE) == 4


def test_every_value_of_the_annotation_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [value for value in PCI_PLACEMENT_CHOICES if f"`{value}`" not in text] == []
