"""Affinity, spreading and ports on nodes as they are, and as they would be without some of their pods (preemption asks
so)."""

from __future__ import annotations

from typing import Any

import pytest

from devtools.allocator import build
from tests.scheduling.build import pod
from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.filters.host_ports import NodePorts
from virt_dra.scheduling.filters.pod_affinity import InterPodAffinity
from virt_dra.scheduling.filters.topology_spread import PodTopologySpread
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.framework.plugin import SchedulingPlugin

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"


def _pod(name: str, labels: Json | None = None, **spec: Any) -> Pod:
    made = pod(name, spec={"containers": [{"name": "c"}], **spec})
    return made.with_(metadata=made.metadata.with_(labels=labels or {}))


def _table(*names: str) -> NodeTable:
    table = NodeTable()
    for name in names:
        table.put(build.node({"name": name, "labels": {HOST: name, "zone": name}}))
    return table


def _refusals(
    plugin: SchedulingPlugin, table: NodeTable, asking: Pod, without: Pod | None = None
) -> dict[str, str | None]:
    """By node, the text of its refusal. ``without``: a pod that is supposed to be gone."""
    attempt = plugin.attempt(asking)
    assert attempt is not None
    answers: dict[str, str | None] = {}
    for state in table.states:
        there = {uid: pod for uid, pod in state.pods.items() if pod is not without}
        refusal = attempt.filter(state if without is None else state.supposing(there))  # type: ignore[union-attr]
        answers[state.name] = None if refusal is None else refusal.reasons[0]
    return answers


def _anti(labels: Json) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _want(labels: Json) -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_an_avoided_pod_that_is_supposed_to_be_gone() -> None:
    table = _table("a", "b")
    there = _pod("there", {"app": "x"})
    table.assign(there, "a")
    asking = _pod("asking", affinity=_anti({"app": "x"}))
    plugin = InterPodAffinity(table, lambda namespace: {})
    text = "node(s) didn't match pod anti-affinity rules"
    assert _refusals(plugin, table, asking) == {"a": text, "b": None}
    assert _refusals(plugin, table, asking, without=there) == {"a": None, "b": None}
    assert _refusals(plugin, table, asking) == {"a": text, "b": None}


def test_a_pod_that_avoids_and_goes() -> None:
    table = _table("a", "b")
    there = _pod("there", affinity=_anti({"app": "x"}))
    asking = _pod("asking", {"app": "x"})
    plugin = InterPodAffinity(table, lambda namespace: {})
    assert plugin.attempt(asking) is None
    table.assign(there, "a")
    text = "node(s) didn't satisfy existing pods anti-affinity rules"
    assert _refusals(plugin, table, asking) == {"a": text, "b": None}
    assert _refusals(plugin, table, asking, without=there) == {"a": None, "b": None}
    table.unassign(there.metadata.uid)
    assert plugin.attempt(asking) is None


def test_a_wanted_pod_that_is_supposed_to_be_gone() -> None:
    table = _table("a", "b")
    there = _pod("there", {"app": "x"})
    table.assign(there, "a")
    plugin = InterPodAffinity(table, lambda namespace: {})
    text = "node(s) didn't match pod affinity rules"
    assert _refusals(plugin, table, _pod("asking", affinity=_want({"app": "x"}))) == {"a": None, "b": text}
    assert _refusals(plugin, table, _pod("asking", affinity=_want({"app": "x"})), without=there) == {
        "a": text,
        "b": text,
    }


def test_the_skew_without_a_pod() -> None:
    table = _table("a", "b")
    there = _pod("there", {"app": "x"})
    table.assign(there, "a")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    asking = _pod("asking", {"app": "x"}, topologySpreadConstraints=[constraint])
    plugin = PodTopologySpread(table)
    assert _refusals(plugin, table, asking) == {"a": "node(s) didn't match pod topology spread constraints", "b": None}
    assert _refusals(plugin, table, asking, without=there) == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
    ],
)
def test_host_ports(used: Json, wanted: Json, free: bool) -> None:
    table = _table("a")
    there = _pod("there", containers=[{"name": "c", "ports": [{"containerPort": 1, **used}]}])
    table.assign(there, "a")
    asking = _pod("asking", containers=[{"name": "c", "ports": [{"containerPort": 1, **wanted}]}])
    text = None if free else "node(s) didn't have free ports for the requested pod ports"
    assert _refusals(NodePorts(), table, asking) == {"a": text}
    assert _refusals(NodePorts(), table, asking, without=there) == {"a": None}
