"""Positions of fields in texts."""

from __future__ import annotations

import pytest

from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.reading.positions import MAX_TEXT, FieldPosition, SourceText, steps_of

TEXT = b"""\
a:
  b:
  - c: one
    "x.y/z": two
  - {c: "three", d: [1, 2]}
---
kind: List
items:
- metadata: {name: \xc3\xa4\xc3\xb6}
"""


@pytest.mark.parametrize(
    ("document", "item", "field", "wanted"),
    [
        (1, None, "a.b[0].c", FieldPosition(3, 8, 3)),
        (1, None, "a.b[0][x.y/z]", FieldPosition(4, 14, 3)),
        (1, None, 'a.b[0]["x.y/z"]', FieldPosition(4, 14, 3)),
        (1, None, "a.b[1].d[1]", FieldPosition(5, 25, 1)),
        (1, None, "a.b", FieldPosition(2, 3, 1)),
        (1, None, "a.b[1].missing.more", FieldPosition(5, 5, 23, exact=False)),
        (1, None, "a.b[7]", FieldPosition(2, 3, 1, exact=False)),
        (1, None, "", FieldPosition(1, 1, 2)),
        (2, 0, "metadata.name", FieldPosition(9, 20, 2)),
        (3, None, "a", None),
    ],
)
def test_a_field_stands_at(document: int, item: int | None, field: str, wanted: FieldPosition | None) -> None:
    assert SourceText(TEXT).position(DocumentSource("t", 1, document, item), field) == wanted


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("a.b[0].c", FieldPosition(3, 5, 1)),
        ("a.b[0][x.y/z]", FieldPosition(4, 5, 7)),
        ("a.b", FieldPosition(2, 3, 1)),
        ("a.b[1].d[1]", FieldPosition(5, 25, 1)),
        ("", FieldPosition(1, 1, 2)),
    ],
)
def test_the_name_of_a_field_stands_at(field: str, wanted: FieldPosition) -> None:
    assert SourceText(TEXT).position(DocumentSource("t", 1, 1), field, of_name=True) == wanted


@pytest.mark.parametrize(
    "text",
    [b'{"a": 1}{"a": 2}', b"a: [", b"\xff\xfe", b"a: " + b"x" * MAX_TEXT],
    ids=["concatenated", "broken", "bytes", "large"],
)
def test_a_text_without_positions(text: bytes) -> None:
    assert SourceText(text).position(DocumentSource("t"), "a.b") is None or text == b"\xff\xfe"


def test_steps() -> None:
    assert steps_of("spec.a[0][k.e/y].b") == ["spec", "a", 0, "k.e/y", "b"]
