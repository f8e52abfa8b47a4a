"""Edits applied, joined and shown: whatever they are, the joined ones do what both do, and the diff leads from one text
to the other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.editing.changes import CannotChange
from virt_dra.api.editing.edit_diff import DiffedText
from virt_dra.api.editing.text_edits import TextEdit, edited, in_order, joined

TEXTS = st.text("ab\n\r", max_size=60)


@st.composite
def _edits(draw: st.DrawFn, text: str) -> list[TextEdit]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pairs = list(zip(places[::2], places[1::2], strict=False))
    return in_order(TextEdit(start, end, draw(st.text("xy\n", max_size=5))) for start, end in pairs)


@given(st.data())
def test_joined_edits_do_what_both_do_in_turn(data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    first = data.draw(_edits(text))
    between = edited(text, first)
    second = data.draw(_edits(between))
    both = joined(first, second)
    assert edited(text, both) == edited(between, second)
    assert in_order(both) == both


def patched(text: str, diff: str) -> str:
    """What ``patch`` makes of a text."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    kept: list[str] = []
    position = 0
    for line in diff.replace("\n\\ No newline at end of file\n", "\0").split("\n")[2:]:
        head = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if head:
            until = int(head[1]) - (head[2] != "0")
            kept += lines[position:until]
            position = until
            continue
        for part in [f"{part}\0" for part in line.split("\0")[:-1]] + [f"{line.split(chr(0))[-1]}\n"]:
            content = part[1:].replace("\0", "")
            if part[:1] in (" ", "-"):
                assert lines[position] == content
                position += 1
            if part[:1] in (" ", "+"):
                kept.append(content)
    return "".join([*kept, *lines[position:]])


@given(st.data())
def test_the_diff_leads_from_one_text_to_the_other(data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    edits = data.draw(_edits(text))
    after = edited(text, edits)
    diff = DiffedText(text).unified_diff("f", edits)
    assert (diff == "") == (after == text)
    if diff:
        assert diff.startswith("--- f\n+++ f\n@@ -")
        assert patched(text, diff) == after


def test_a_diff_shows_what_changes_with_three_lines_around_it() -> None:
    text = "".join(f"{number}\n" for number in range(1, 21)) + "end"
    edits = [
        TextEdit(0, 0, "zero\n"),
        TextEdit(text.index("14"), text.index("15"), ""),
        TextEdit(len(text), len(text), "ing"),
    ]
    assert DiffedText(text).unified_diff("dir/f.yaml", edits) == (
        "--- dir/f.yaml\n+++ dir/f.yaml\n@@ -1,3 +1,4 @@\n+zero\n 1\n 2\n 3\n"
        "@@ -11,11 +12,10 @@\n 11\n 12\n 13\n-14\n 15\n 16\n 17\n 18\n 19\n 20\n"
        "-end\n\\ No newline at end of file\n+ending\n\\ No newline at end of file\n"
    )


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(CannotChange, match="two changes concern the same text"):
        in_order([TextEdit(2, 5, ""), TextEdit(4, 4, "x")])
