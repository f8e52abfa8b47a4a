"""JSON for programs and people."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.cli.shared.output import json_text

texts = st.text() | st.text(alphabet=st.characters(categories=["L", "P", "Zs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4),
)


@given(st.dictionaries(texts, values, max_size=4), st.none() | st.just(2))
def test_it_is_laid_out_as_json_dumps_does(document: dict[str, Any], indent: int | None) -> None:
    plain = json.dumps(document, indent=indent, ensure_ascii=False)
    printable = plain.replace("\n", "").isprintable()
    assert json_text(document, indent) == (plain if printable else json.dumps(document, indent=indent))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_numbers_keep_their_value(numbers: list[float]) -> None:
    assert json.loads(json_text({"numbers": numbers}, 2)) == {"numbers": numbers}


def test_deep_documents_keep_their_letters() -> None:
    document: dict[str, Any] = {"text": "ü"}
    for _ in range(300):
        document = {"of": document}
    assert json_text(document, 2) == json.dumps(document, indent=2, ensure_ascii=False)


@pytest.mark.parametrize("indent", [None, 2])
def test_half_a_surrogate_pair_is_an_escape(indent: int | None) -> None:
    assert "\\ud800" in json_text({"text": "\ud800"}, indent)
