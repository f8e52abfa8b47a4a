"""A large JSON object is read as the reader of any JSON text reads it, with the same faults, whatever its items are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.reading import json_text
from virt_dra.api.reading.document_error import MAX_DEPTH, DocumentError, Parsed
from virt_dra.api.reading.documents import MAX_OBJECT_BYTES, TOO_LARGE, read_documents

Pairs = list[tuple[str, str]]

SCALARS = st.sampled_from(
    ["null", "true", "0", "-1", "1.5", "1e3", "1e400", "NaN", '""', '"a:b"', '"\\u003a"', '"\\ud800"', '"é"', '"{["', "9" * 5_000]
)


def members(pairs: Pairs, space: str) -> str:
    written = [f'"{name}"{space}:{space}{value}' for name, value in pairs]
    return f"{{{space}{f',{space}'.join(written)}}}"


def texts(scalars: st.SearchStrategy[str], names: str) -> st.SearchStrategy[str]:
    """JSON texts, of which many give a name twice in one object."""
    space = st.sampled_from(["", " ", "\n\t"])
    return st.recursive(
        scalars,
        lambda inner: (
            st.builds(members, st.lists(st.tuples(st.sampled_from(names), inner), max_size=3), space)
            | st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        ),
        max_leaves=6,
    )


def lists(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects with ``items`` at any place, also twice."""
    outside = st.tuples(st.sampled_from(["kind", "apiVersion"]), st.just('"List"') | item)
    own = st.tuples(st.just("items"), st.lists(item, max_size=4).map(lambda each: f"[{', '.join(each)}]") | item)
    return st.builds(members, st.lists(outside | own, max_size=4), st.sampled_from(["", " "]))


def parsed(text: str, large: int) -> tuple[Parsed, ...] | str:
    """What a text of so many characters and more is read into as one large object, or why it can't be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_LARGE", large)
        try:
            return json_text.parse(text, "file")
        except DocumentError as error:
            return str(error)


def without_lengths(found: tuple[Parsed, ...] | str) -> tuple[Parsed, ...] | str:
    return found if isinstance(found, str) else tuple(replace(each, longest_item=None) for each in found)


@given(lists(texts(SCALARS, "abc")), st.sampled_from(["", "\n \n", "{}"]), st.sampled_from(["", "\n", "x", "{}", ","]))
def test_it_is_what_any_text_is(text: str, before: str, after: str) -> None:
    whole = f"{before}{text}{after}"
    assert without_lengths(parsed(whole, 0)) == parsed(whole, len(whole) + 1)


@given(lists(texts(st.just("1"), "abcdefgh")))
def test_no_item_is_longer_than_it_says(text: str) -> None:
    found = parsed(text, 0)
    if isinstance(found, str) or found[0].longest_item is None:
        return
    value = json.loads(text)
    longest = max(len(json.dumps(item, separators=(",", ":"))) for item in value["items"])
    assert longest <= found[0].longest_item <= found[0].length


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 3, MAX_DEPTH - 2, MAX_DEPTH - 1, 100_000])
def test_items_nest_as_deeply_as_other_objects(opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"
    text = f'{{"items": [{opening * levels}1{closing * levels}]}}'
    found = parsed(text, 0)
    assert without_lengths(found) == parsed(text, len(text) + 1)
    assert isinstance(found, str) == (levels > MAX_DEPTH - 2)


def a_list(*names: str) -> bytes:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in names]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def test_a_list_may_be_larger_than_an_object_and_its_items_may_not() -> None:
    half = "x" * (MAX_OBJECT_BYTES // 2)
    assert len(read_documents(a_list(half, half, half), "file")) == 3
    with pytest.raises(DocumentError) as error:
        read_documents(a_list("small", half + half), "file")
    assert error.value.message.startswith(f"{TOO_LARGE}; the object has {MAX_OBJECT_BYTES + 61} bytes as JSON")


def test_what_a_list_gives_all_its_items_counts_for_their_size() -> None:
    text = json.dumps({"apiVersion": "x" * MAX_OBJECT_BYTES, "kind": "ConfigMapList", "items": [{}, {}]}).encode()
    with pytest.raises(DocumentError, match=TOO_LARGE):
        read_documents(text, "file")
