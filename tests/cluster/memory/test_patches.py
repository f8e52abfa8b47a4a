"""Merge patches and JSON patches over JSON values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virt_dra.cluster.memory.patches import OPERATIONS_LIMIT, PatchError, equal, merged, patched

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "/", "~"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "b", "a/b", "m~n"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": 1}, {"b": None}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": {"b": None, "c": {"d": None}}}, {"a": {"c": {}}}),
        ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
        ({"a": 1}, {"a": [None]}, {"a": [None]}),
        ([1], {"a": 1}, {"a": 1}),
        ({"a": 1}, "x", "x"),
    ],
)
def test_merge(target: Any, patch: Any, result: Any) -> None:
    assert merged(target, patch) == result


@given(JSON, JSON)
def test_merge_twice_is_merge_once_and_changes_no_input(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merged(target, patch)
    assert merged(once, patch) == once
    assert (target, patch) == before


@given(JSON)
def test_merge_into_nothing_keeps_no_null_in_objects(patch: Any) -> None:
    def nulls(value: Any) -> bool:
        return isinstance(value, dict) and any(inner is None or nulls(inner) for inner in value.values())

    assert not nulls(merged({}, patch))


@pytest.mark.parametrize(
    ("target", "operations", "result"),
    [
        ({}, [{"op": "add", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": [2]}], [2]),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/1"}], {"a": [1, 3]}),
        ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": None}], {"a": {"b": None}}),
        ([1, 2], [{"op": "replace", "path": "/0", "value": 3}], [3, 2]),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {}}], {}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ([1, 2, 3], [{"op": "move", "from": "/0", "path": "/2"}], [2, 3, 1]),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": 1, "ab": 2}, [{"op": "move", "from": "/a", "path": "/ab"}], {"ab": 1}),
        (
            {"a": [1]},
            [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}],
            {"a": [1], "b": [1, 2]},
        ),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
        ({"~1": 1}, [{"op": "remove", "path": "/~01"}], {}),
        ({"": 1}, [{"op": "remove", "path": "/"}], {}),
        ({"a": 1.0}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1.0}),
        ({"a": [{"b": None}]}, [{"op": "test", "path": "/a/0", "value": {"b": None}}], {"a": [{"b": None}]}),
        ({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
        ({"0": 1}, [{"op": "remove", "path": "/0"}], {}),
        ({"a": 1}, [], {"a": 1}),
        ({}, [{"op": "replace", "path": "/a~1b", "value": 1}], {"a/b": 1}),
        ({}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}),
        ({}, [{"op": "test", "path": "/a", "value": None}], {}),
        ({"a": 1}, [{"op": "add", "path": "/a"}], {"a": None}),
        ([1, 2], [{"op": "remove", "path": "/-1"}], [1]),
        ([1, 2], [{"op": "add", "path": "/-1", "value": 3}], [1, 2, 3]),
        ([1, 2], [{"op": "replace", "path": "/01", "value": 3}], [1, 3]),
    ],
)
def test_json_patch(target: Any, operations: list[dict[str, Any]], result: Any) -> None:
    assert patched(target, operations) == result


@pytest.mark.parametrize(
    ("target", "operation", "message"),
    [
        ({}, {"op": "add", "path": "/a/b", "value": 1}, 'operation 0: add: "/a" does not exist'),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}, 'operation 0: add: "/a" is neither an object nor a list'),
        (
            {"a": []},
            {"op": "add", "path": "/a/1", "value": 1},
            'operation 0: add: "/a/1" is beyond the end of the list',
        ),
        ({"a": []}, {"op": "add", "path": "/a/b", "value": 1}, 'operation 0: add: "/a/b": "b" is not a list index'),
        (
            {"a": [1, 2]},
            {"op": "remove", "path": "/a/-3"},
            'operation 0: remove: "/a/-3" is beyond the end of the list',
        ),
        (
            {"a": [1, 2]},
            {"op": "replace", "path": "/a/2"},
            'operation 0: replace: "/a/2" is beyond the end of the list',
        ),
        ({"a": 1}, {"op": "replace", "path": "/a/b"}, 'operation 0: replace: "/a" is neither an object nor a list'),
        (
            {},
            {"op": "replace", "path": ""},
            "operation 0: replace: the whole document can only become an object or a list",
        ),
        ({}, {"op": "add", "path": "", "value": {}}, "operation 0: add: must be a part of the document, not the whole"),
        ({"a": [1, 2]}, {"op": "remove", "path": "/a/-"}, 'operation 0: remove: "/a/-": "-" is not a list index'),
        ({"a": [1]}, {"op": "remove", "path": "/a/1"}, 'operation 0: remove: "/a/1" is beyond the end of the list'),
        ({"a": [1]}, {"op": "remove", "path": "/a/²"}, 'operation 0: remove: "/a/²": "²" is not a list index'),
        (
            {"a": [1]},
            {"op": "remove", "path": f"/a/{10**30}"},
            f'operation 0: remove: "/a/{10**30}" is beyond the end of the list',
        ),
        ({}, {"op": "remove", "path": "/a"}, 'operation 0: remove: "/a" does not exist'),
        ({}, {"op": "remove", "path": ""}, "operation 0: remove: must be a part of the document, not the whole"),
        ({}, {"op": "replace", "path": "/a~1b/c", "value": 1}, 'operation 0: replace: "/a~1b" does not exist'),
        (
            {"a": {"b": 1}},
            {"op": "move", "from": "/a", "path": "/a/b"},
            'operation 0: move: "/a" cannot be moved into itself at "/a/b"',
        ),
        ({}, {"op": "copy", "from": "/a/b", "path": "/b"}, 'operation 0: copy: "/a" does not exist'),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}, 'operation 0: test: the value at "/a" is another one'),
        ({"a": "1"}, {"op": "test", "path": "/a", "value": 1}, 'operation 0: test: the value at "/a" is another one'),
        ({}, {"op": "test", "path": "/a", "value": 1}, 'operation 0: test: the value at "/a" is another one'),
        (
            {},
            {"op": "test", "path": "a", "value": 1},
            'operation 0: "a" is not a JSON pointer: must be empty or start with "/"',
        ),
        ({}, {"op": "add", "value": 1}, 'operation 0: "path" is required and must be a string'),
        ({}, {"op": "move", "path": "/a"}, 'operation 0: "from" is required and must be a string'),
        (
            {},
            {"op": "merge", "path": "/a"},
            "operation 0: unexpected op 'merge': must be add, remove, replace, move, copy or test",
        ),
        ({}, "add", "operation 0: an operation must be an object"),
    ],
)
def test_json_patch_that_cannot_be_applied(target: Any, operation: Any, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        patched(target, [operation])
    assert str(caught.value) == message


def test_json_patch_names_the_operation_that_failed() -> None:
    with pytest.raises(PatchError, match=r"^operation 1: "):
        patched({}, [{"op": "add", "path": "/a", "value": 1}, {"op": "remove", "path": "/b"}])


def test_json_patch_has_a_limit() -> None:
    with pytest.raises(PatchError) as caught:
        patched({}, [{"op": "test", "path": "", "value": {}}] * (OPERATIONS_LIMIT + 1))
    assert str(caught.value) == "The allowed maximum operations in a JSON patch is 10000, got 10001"


@given(JSON, JSON)
def test_json_patch_changes_no_input(target: Any, value: Any) -> None:
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "", "value": {"x": value}},
        {"op": "add", "path": "/x", "value": []},
    ]
    before = copy.deepcopy((target, operations))
    assert patched(target, operations) == {"x": []}
    assert (target, operations) == before


@given(JSON, JSON)
def test_what_is_added_can_be_tested_and_removed(target: Any, value: Any) -> None:
    document = {"k": target}
    operations = [
        {"op": "add", "path": "/a~1~0b", "value": value},
        {"op": "test", "path": "/a~1~0b", "value": value},
        {"op": "copy", "from": "/a~1~0b", "path": "/c"},
        {"op": "remove", "path": "/a~1~0b"},
    ]
    assert equal(patched(document, operations), {"k": target, "c": value})
