"""A JSON object read member by member is the object that json reads, with the items of some lists converted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.reading.json_members import decode_object

DECODER = json.JSONDecoder()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


def decode(text: str) -> object:
    return decode_object(text, DECODER, {"a": lambda item, index: [index, item]})


@given(VALUES | st.dictionaries(st.sampled_from("abc"), VALUES), st.sampled_from([None, 1]))
def test_it_is_what_json_reads(value: object, indent: int | None) -> None:
    expected = value
    if isinstance(value, dict) and isinstance(value.get("a"), list):
        expected = {**value, "a": [[index, item] for index, item in enumerate(value["a"])]}
    assert decode(json.dumps(value, indent=indent)) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"', '{"a":', '{"a":[', '{"a":[1', '{"a":[1,', '{"a":[1,]}', '{"a":[1}', '{"a":[1]', '{"a":[1],}',
        '{"a":[1]}x',
     '{"a" 1}', "{1:2}", '{"a":[1 2]}', '{"a":1 "b":2}', "{,}", "[1,", '{"a":[1],"b":tru}'],
)  # fmt: skip
def test_a_fault_is_described_as_json_does(text: str) -> None:
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)
    with pytest.raises(json.JSONDecodeError) as error:
        decode(text)
    assert str(error.value) == str(expected.value)


def test_the_last_of_members_with_one_name_counts() -> None:
    assert decode(' {"a": [1, 2], "b": {}, "a": [3] } ') == {"a": [[0, 3]], "b": {}}
