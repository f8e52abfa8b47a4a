"""The diagrams in docs/diagrams are what their sources give, and every fault of a source is named."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree

from devtools.site.diagrams import __main__ as drawing_all
from devtools.site.diagrams.drawing import DiagramError, read_drawing
from devtools.site.diagrams.layout import lay_out
from devtools.site.diagrams.svg import picture

DOCS = Path(__file__).parents[2] / "docs"
SOURCES = sorted((DOCS / "diagrams").glob("*.yaml"))
SMALL = """
title: Two
description: One after the other.
boxes:
  a: {at: [0, 0], title: A & B, text: "<one> | two"}
  b: {at: [1, 0], title: C}
arrows: [{from: a, to: b, label: then}]
"""


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_picture_is_what_its_source_gives(source: Path) -> None:
    drawn = picture(read_drawing(source.read_text(encoding="utf-8")))
    assert source.with_suffix(".svg").read_text(encoding="utf-8") == drawn, "run: python -m devtools.site.diagrams"


def test_every_picture_has_a_source_and_stands_in_a_document() -> None:
    assert [path.stem for path in sorted((DOCS / "diagrams").glob("*.svg"))] == [path.stem for path in SOURCES]
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    assert [path.stem for path in SOURCES if f"(diagrams/{path.stem}.svg)" not in text] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_nothing_lies_on_anything_else(source: Path) -> None:
    """No arrow crosses a box that it doesn't belong to, and no two boxes overlap."""
    place = lay_out(read_drawing(source.read_text(encoding="utf-8")))
    rectangles = list(place.boxes.items())
    for number, (name, rectangle) in enumerate(rectangles):
        for other, two in rectangles[number + 1 :]:
            apart = (
                rectangle.right <= two.x
                or two.right <= rectangle.x
                or rectangle.bottom <= two.y
                or two.bottom <= rectangle.y
            )
            assert apart, f"{name} and {other}"
    for path in place.paths:
        for (x, y), (to_x, to_y) in pairwise(path.points):
            for name, box in rectangles:
                through = (
                    min(x, to_x) < box.right
                    and max(x, to_x) > box.x
                    and min(y, to_y) < box.bottom
                    and max(y, to_y) > box.y
                )
                assert not through, f"the arrow from {path.arrow.start} to {path.arrow.end} crosses {name}"


def test_a_picture_is_well_formed_named_and_in_two_colorings() -> None:
    svg = picture(read_drawing(SMALL))
    root = etree.fromstring(svg.encode())
    texts = ["".join(map(str, element.itertext())) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["A & B", "<one>", "two", "C", "then"]
    assert [root.findtext(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc")] == [
        "Two",
        "One after the other.",
    ]
    assert svg.count("@media (prefers-color-scheme: dark)") == 1
    light, dark = svg.split("@media", 1)
    filled = set(re.findall(r"^\.([\w-]+) \{.*\bfill: #", light, re.MULTILINE))
    assert filled == set(re.findall(r"^\.([\w-]+) \{ fill: ", dark, re.MULTILINE))


@pytest.mark.parametrize(
    ("changed", "to", "expected"),
    [
        ("to: b", "to: c", "no box is named c"),
        ("at: [1, 0]", "at: [0, 0]", "b and a are both in column 0, row 0"),
        ("title: C", "heading: C", "boxes.b.title: Field required\nboxes.b.heading: Extra inputs are not permitted"),
        ("title: Two", "title: [", "not YAML: while parsing a flow sequence"),
    ],
)
def test_a_fault_of_a_source_is_named(changed: str, to: str, expected: str) -> None:
    with pytest.raises(DiagramError) as error:
        read_drawing(SMALL.replace(changed, to))
    assert str(error.value).startswith(expected)


def test_the_command_draws_all_and_names_the_file_at_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(drawing_all, "FOLDER", tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    assert drawing_all.main() == 0
    assert (tmp_path / "small.svg").read_text() == picture(read_drawing(SMALL))
    (tmp_path / "small.yaml").write_text("title: 1\n")
    assert drawing_all.main() == 1
    assert "small.yaml: boxes: Field required\n" in capsys.readouterr().err
