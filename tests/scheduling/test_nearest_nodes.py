"""Which of the nodes that can't take a pod is the nearest to taking it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from virt_dra.allocator.features.in_use import IN_USE
from virt_dra.allocator.model import DeviceId
from virt_dra.scheduling.framework.refusals import FilterRefusal, Reason
from virt_dra.scheduling.why.groups import grouped, nearest_text
from virt_dra.scheduling.why.tree import ExplainedRefusal, NodeRefusal, RefusedDevice, RequestRefusal

WANTED = 8


def refused(name: str, *requests: RequestRefusal) -> NodeRefusal:
    of_filter = FilterRefusal("DynamicResources", ("cannot allocate all claims",))
    return NodeRefusal(name, (), ExplainedRefusal(of_filter, requests=requests))


def unserved(node: str, request: str, wanted: int, in_use: int) -> RequestRefusal:
    """A request for so many devices of a node, some of which are in use."""
    devices = tuple(
        RefusedDevice(DeviceId("gpu.example.com", node, f"gpu-{number}"), Reason(IN_USE, "in use"))
        for number in range(in_use)
    )
    return RequestRefusal("team-a/gpus", request, wanted, wanted - in_use, devices)


def node(name: str, in_use: int, request: str = "gpus") -> NodeRefusal:
    """A node of eight devices, so many of which are in use."""
    return refused(name, unserved(name, request, WANTED, in_use))


@pytest.mark.parametrize(
    ("nodes", "order"),
    [
        ([node("a", 6), node("b", 1)], [["b", "a"]]),
        ([node("a", 1), node("b", 6)], [["a", "b"]]),
        ([node("a", 2), node("b", 2)], [["a", "b"]]),
        ([node("a", 6, "other"), node("b", 6, "other"), node("c", 1)], [["c"], ["a", "b"]]),
    ],
)
def test_the_node_that_misses_the_fewest_devices_is_the_nearest(
    nodes: Sequence[NodeRefusal], order: list[list[str]]
) -> None:
    assert [group.nodes for group in grouped(nodes)] == order


def test_a_request_that_was_never_tried_misses_all_its_devices() -> None:
    """On a and c no device is free for the first request, on b one is."""
    served = RequestRefusal("team-a/gpus", "first", 1, 1, ())
    nodes = [
        refused("a", unserved("a", "first", 1, 1)),
        refused("b", served, unserved("b", "second", 1, 1)),
        refused("c", unserved("c", "first", 1, 1)),
    ]
    assert [group.nodes for group in grouped(nodes)] == [["b"], ["a", "c"]]


def test_alternatives_are_one_request() -> None:
    """On b and c the first alternative served; on a none did, and the second request was never tried."""
    served = RequestRefusal("team-a/gpus", "first/large", 1, 1, ())
    nodes = [
        refused("a", unserved("a", "first/large", 1, 1), unserved("a", "first/small", 1, 1)),
        refused("b", served, unserved("b", "second", 2, 2)),
        refused("c", served, unserved("c", "second", 2, 2)),
    ]
    assert [group.nodes for group in grouped(nodes)] == [["b", "c"], ["a"]]


def test_it_is_named_as_the_nearest() -> None:
    groups = grouped([node("a", 6, "other"), node("b", 1)])
    assert nearest_text(groups, 2) == (
        "none of 2 nodes can take it. Nearest: b, request gpus: 1 device: in use (7 of 8 at best)"
    )
