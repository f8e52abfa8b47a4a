"""A filter is one file and one row: a toy filter in the table is asked by everyone who places a pod."""

from __future__ import annotations

from typing import Any, Final

import pytest

from devtools.allocator import build
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.model.feeds.files import placeable_model
from virt_dra.scheduling import filter_table
from virt_dra.scheduling.fit import fits
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt, SchedulingPlugin
from virt_dra.scheduling.framework.refusals import FilterRefusal
from virt_dra.scheduling.placement import Unplaced, place
from virt_dra.simulator.explaining.answer import WAITS, answered
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import find_subject

MAINTENANCE: Final = "NodeInMaintenance"


class Maintenance(SchedulingPlugin, PluginAttempt):
    """Refuses nodes with the label ``maintenance``."""

    name = "Maintenance"

    def attempt(self, pod: Pod) -> PluginAttempt:
        return self

    def filter(self, state: NodeState) -> FilterRefusal | None:
        if "maintenance" not in state.node.metadata.labels:
            return None
        return FilterRefusal(self.name, ("node(s) were in maintenance",), code=MAINTENANCE)


@pytest.fixture(autouse=True)
def _in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_table, "FILTERS", (lambda sources: Maintenance(), *filter_table.FILTERS))


def _objects() -> list[TypedObject]:
    node: dict[str, Any] = {"name": "n1", "labels": {"maintenance": "yes"}}
    pod = Pod.from_wire(
        {"metadata": {"name": "wanted", "namespace": "default"}, "spec": {"containers": [{"name": "c"}]}}
    )
    return [build.node(node), pod]


def test_the_fit_and_first_fit_ask_it() -> None:
    node, pod = _objects()
    assert isinstance(node, Node)
    assert isinstance(pod, Pod)
    model = placeable_model([node])
    refusal = fits(pod, "n1", model)
    assert refusal == FilterRefusal("Maintenance", ("node(s) were in maintenance",), code=MAINTENANCE)
    outcome = place(pod, model)
    assert isinstance(outcome, Unplaced)
    assert outcome.message == "0/1 nodes can allocate: 1 node(s) were in maintenance"


def test_explain_says_its_reason() -> None:
    objects = _objects()
    state = ClusterState.of(objects)
    answer = answered(find_subject("pod", "wanted", "default", state.model), state, lambda done, total: None)
    assert (answer.verdict, answer.reason) == (WAITS, MAINTENANCE)
