"""Requests of kube-scheduler as it writes them, and its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from virt_dra.extender.protocol import (
    ExtenderRequestError,
    filter_answer,
    priorities,
    prioritize_answer,
    read_arguments,
)

POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "vms", "uid": "u"}, "spec": {"containers": []}}


def test_a_request_with_names() -> None:
    asked = read_arguments(json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}).encode())
    assert (asked.pod.key, asked.nodes, asked.items) == ("vms/p", ("a", "b"), None)
    assert json.loads(filter_answer(asked, {"a": "full"})) == {
        "FailedNodes": {"a": "full"},
        "Error": "",
        "NodeNames": ["b"],
    }


def test_a_request_with_whole_nodes_is_answered_with_whole_nodes() -> None:
    items = [{"metadata": {"name": name}, "spec": {"x": 1}} for name in ("a", "b")]
    asked = read_arguments(json.dumps({"pod": POD, "nodes": {"items": items}}).encode())
    assert asked.nodes == ("a", "b")
    assert json.loads(filter_answer(asked, {"b": "full"})) == {
        "FailedNodes": {"b": "full"},
        "Error": "",
        "Nodes": {"items": items[:1]},
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request's body is no JSON"),
        (b"[" * 100_000, "the request's body is no JSON"),
        (b"[]", "the request's body is no JSON object (ExtenderArgs)"),
        (b"{}", "Pod: "),
        (b'{"Pod": 1, "NodeNames": []}', "Pod: "),
        (b'{"Pod": {"metadata": {}}, "NodeNames": []}', "Pod.metadata: name and namespace are required"),
        (json.dumps({"Pod": POD}).encode(), "either NodeNames or Nodes.items is required"),
        (json.dumps({"Pod": POD, "NodeNames": "a"}).encode(), "NodeNames: must be a list of strings"),
        (json.dumps({"Pod": POD, "NodeNames": [1]}).encode(), "NodeNames: must be a list of strings"),
        (json.dumps({"Pod": POD, "Nodes": {"items": [{}]}}).encode(), "Nodes.items[0].metadata.name: is required"),
    ],
)
def test_what_is_no_request_is_refused_by_name(body: bytes, message: str) -> None:
    with pytest.raises(ExtenderRequestError) as refused:
        read_arguments(body)
    assert str(refused.value).startswith(message)


def test_one_node_has_the_highest_priority_and_worse_ones_follow() -> None:
    scores = priorities(["d", "a", "b", "c", "e"], [(1.0,), (2.0,), (1.0,), None, (3.0,)])
    assert scores == {"d": 9, "a": 8, "b": 10, "c": 0, "e": 7}
    assert json.loads(prioritize_answer({"d": 9})) == [{"Host": "d", "Score": 9}]


def test_priorities_stay_between_0_and_10() -> None:
    names = [f"n{number:02}" for number in range(30)]
    scores = priorities(names, [(float(number),) for number in range(30)])
    assert [scores[name] for name in names] == [10, 8, 7, 6, 5, 4, 3, 2, 1, *[0] * 21]
    assert priorities(["a"], [None]) == {"a": 0}
