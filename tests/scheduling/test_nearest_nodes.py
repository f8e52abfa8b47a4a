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


def node(name: str, in_use: int, request: str = "gpus") -> NodeRefusal:
    """A node of eight devices, so many of which are in use."""
    devices = tuple(
        RefusedDevice(DeviceId("gpu.example.com", name, f"gpu-{number}"), Reason(IN_USE, "in use"))
        for number in range(in_use)
    )
    refusal = RequestRefusal("team-a/gpus", request, WANTED, WANTED - in_use, devices)
    of_filter = FilterRefusal("DynamicResources", ("cannot allocate all claims",))
    return NodeRefusal(name, (), ExplainedRefusal(of_filter, requests=(refusal,)))


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


def test_it_is_named_as_the_nearest() -> None:
    groups = grouped([node("a", 6, "other"), node("b", 1)])
    assert nearest_text(groups, 2) == (
        "none of 2 nodes can take it. Nearest: b, request gpus: 1 device: in use (7 of 8 at best)"
    )
