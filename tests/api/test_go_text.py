"""Text as Go writes it."""

from __future__ import annotations

import doctest

import pytest

from virt_dra.api import go_text
from virt_dra.api.go_text import printable, quoted


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("", '""'),
        ("plain é Ω 中 🙂", '"plain é Ω 中 🙂"'),
        ('quote " and \\', r'"quote \" and \\"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x7f", r'"\x00\x7f"'),
        ("\u00a0\u00ad\u200b\u2028\ufeff", r'"\u00a0\u00ad\u200b\u2028\ufeff"'),
        ("\ue000\U000e0001", r'"\ue000\U000e0001"'),
        ("\ud800", r'"\ud800"'),
    ],
)
def test_text_is_quoted_as_go_does(text: str, literal: str) -> None:
    assert quoted(text) == literal


def test_lone_surrogates_are_written_as_escapes_and_nothing_else() -> None:
    assert printable('a"\n\ud800🙂') == 'a"\n\\ud800🙂'


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(go_text).failed == 0
