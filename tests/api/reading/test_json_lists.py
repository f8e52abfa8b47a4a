"""A large List is read as any JSON text is, with the same faults, whatever its items are."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.api.reading import json_text
from virt_dra.api.reading.document_error import MAX_DEPTH, DocumentError
from virt_dra.api.reading.documents import MAX_OBJECT_BYTES, TOO_LARGE, Document, read_documents, read_objects

Pairs = list[tuple[str, str]]

SCALARS = st.sampled_from(
    [
        "null",
        "true",
        "0",
        "-1",
        "1.5",
        "1e3",
        "1e400",
        "NaN",
        '""',
        '"a:b"',
        '"\\u003a"',
        '"\\ud800"',
        '"é"',
        '"{["',
        "9" * 5_000,
    ]
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
            | st.lists(inner, max_size=3).map(lambda members: f"[{','.join(members)}]")
        ),
        max_leaves=6,
    )


def lists(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects with ``items`` at any place, also twice."""
    outside = st.tuples(st.sampled_from(["kind", "apiVersion"]), st.just('"List"') | item)
    own = st.tuples(st.just("items"), st.lists(item, max_size=4).map(lambda members: f"[{', '.join(members)}]") | item)
    return st.builds(members, st.lists(outside | own, max_size=4), st.sampled_from(["", " "]))


def read(text: bytes, large: int) -> tuple[Document, ...] | str:
    """The documents of a text, read item by item if it has at least ``large`` characters; or why it can't be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_LARGE", large)
        try:
            return read_documents(text, "file")
        except DocumentError as error:
            return str(error)


def assert_same(text: str) -> tuple[Document, ...] | str:
    """What both ways of reading a text give, which must be the same."""
    encoded = text.encode(errors="surrogatepass")
    document = read(encoded, 0)
    assert document == read(encoded, len(text) + 1)
    return document


@given(lists(texts(SCALARS, "abc")), st.sampled_from(["", "\n \n", "{}"]), st.sampled_from(["", "\n", "x", "{}", ","]))
def test_it_is_read_as_any_text_is(text: str, before: str, after: str) -> None:
    assert_same(f"{before}{text}{after}")


@pytest.mark.parametrize(
    ("text", "itemwise"),
    [
        (
            '{"apiVersion": "v1", "items": [{"a": 1}, null, 1, []], "kind": '
            '"List", "metadata": {"resourceVersion": ""}}',
            True,
        ),
        ('\n\n {"kind": "List", "items": []} \n', True),
        ('{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]}', False),
        ('{"apiVersion": "v1", "items": [{"metadata": {"name": "a"}}], "kind": "PodList"}', False),
        ('{"kind": "List", "items": [{"a": 1}, {"kind": "List", "items": [{"b": 1}]}]}', False),
        ('{"kind": "List", "items": [{"a": 1}]} {"b": 2}', False),
        ('{"kind": "List", "items": {"a": 1}}', False),
        ('{"kind": "List"}', False),
        ('{"kind": "List", "items": null}', False),
        ('{"kind": "List", "items": [{"a": "\\ud800"}]}', False),
        ('{"kind": "List", "items": [{"a": 1}], "items": [{"b": 1}]}', False),
        ('{"kind": "List", "items": [{"a": 1, "a": 2}]}', False),
        ('{"kind": "List", "items": [{"a": 1e400}]}', False),
        ('{"kind": "List", "items": [{"a": 1},]}', False),
    ],
)
def test_only_plain_lists_are_read_item_by_item(text: str, itemwise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []

    def take(item: object, index: int, length: int) -> None:
        if isinstance(item, dict) and "items" in item:
            raise ValueError("a List in a List")
        taken.append(item)

    assert_same(text)
    monkeypatch.setattr(json_text, "_LARGE", 0)
    assert json_text.take_list(text, take) is itemwise
    assert not itemwise or taken == json.loads(text)["items"]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("levels", [MAX_DEPTH - 3, MAX_DEPTH - 2, MAX_DEPTH - 1, 100_000])
def test_items_nest_as_deeply_as_other_objects(opening: str, levels: int) -> None:
    closing = "]" if opening == "[" else "}"
    document = assert_same(f'{{"kind": "List", "items": [{opening * levels}1{closing * levels}]}}')
    assert isinstance(document, str) == (levels > MAX_DEPTH - 2)


def a_list(*names: str) -> bytes:
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in names]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def test_a_list_may_be_larger_than_an_object_and_its_items_may_not() -> None:
    half = "x" * (MAX_OBJECT_BYTES // 2)
    assert len(read_documents(a_list(half, half, half), "file")) == 3
    with pytest.raises(DocumentError) as error:
        read_documents(a_list("small", half + half), "file")
    assert error.value.message.startswith(f"{TOO_LARGE}; the object has {MAX_OBJECT_BYTES + 61} bytes as JSON")


def test_what_is_taken_before_a_fault_is_forgotten() -> None:
    good, bad = (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "spec": 1},
    )
    text = json.dumps({"kind": "List", "items": [good, bad] * 3_000})
    loaded = read_objects(text.encode(), "file")
    assert [str(obj.source) for obj in loaded.objects] == [f"file:1 (items[{number}])" for number in range(0, 6_000, 2)]
    assert [str(problem) for problem in loaded.problems[:1]] == [
        "file:1 (items[1]): Pod: spec: must be an object, not an integer"
    ]
    assert len(loaded.problems) == 3_000
    concatenated = read_objects(f"{text}{json.dumps(good)}".encode(), "file")
    assert (len(concatenated.objects), len(concatenated.problems)) == (3_001, 3_000)
