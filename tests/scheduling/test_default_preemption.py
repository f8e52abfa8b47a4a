"""DefaultPreemption (C-5.6, C-2.2): whom kube-scheduler evicts, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.scheduling.default_preemption import NoVictims, Victims, choose_victims
from virt_dra.scheduling.filters.node_resources import NodeResourcesFit, NodeUsages
from virt_dra.scheduling.framework.cycle import FoundNode, NotFitting, SchedulingCycle
from virt_dra.scheduling.framework.node_table import NodeTable

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def pod(name: str, cpu: str, priority: int = 0, **status: Any) -> Pod:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if status.pop("deleted", False) else {}
    return Pod.from_wire({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "uid": f"uid-{name}", "labels": {"app": name}, **deleted},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **status.pop("spec", {})},
        "status": status,
    })  # fmt: skip


def table(*nodes: tuple[str, Sequence[Pod]]) -> NodeTable:
    result = NodeTable()
    for name, pods in nodes:
        result.put(Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": ROOM}}))
        for pod in pods:
            result.assign(pod, name)
    return result


def chosen(preemptor: Pod, cluster: NodeTable, *budgets: PodDisruptionBudget) -> Victims | NoVictims:
    outcome = SchedulingCycle([NodeResourcesFit(NodeUsages(), lambda name: False)], cluster).find(preemptor)
    assert isinstance(outcome, NotFitting)
    return choose_victims(preemptor, outcome, cluster, budgets)


def names(decision: Victims | NoVictims) -> tuple[str, list[str]]:
    assert isinstance(decision, Victims)
    return decision.node, [pod.name for pod in decision.pods]


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    return PodDisruptionBudget.from_wire({
        "metadata": {"name": app, "namespace": "lab"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    })  # fmt: skip


def test_the_most_important_pods_are_spared() -> None:
    """C-5.6: all pods of lower priority are left out, then as many as possible come back, the most important first."""
    victims = chosen(pod("p", "2", 9), table(("n1", [pod("a", "2", 3), pod("b", "1", 1), pod("c", "1", 2)])))
    assert names(victims) == ("n1", ["c", "b"])
    assert isinstance(victims, Victims)
    assert victims.text == "preemption: found a potential placement for pod on node n1, preempting 2 victims"


def test_pods_that_started_later_go_first() -> None:
    old, young = (
        pod(name, "2", startTime=f"2026-01-01T00:0{number}:00Z") for number, name in enumerate(("old", "young"))
    )
    assert names(chosen(pod("p", "2", 9), table(("n1", [young, old])))) == ("n1", ["young"])


def test_the_node_with_the_least_harm_is_chosen() -> None:
    """C-5.6: fewest violated budgets, lowest highest priority, lowest sum, fewest pods, then the first."""
    two = [pod("a", "2", 1), pod("b", "2", 1)]
    assert names(chosen(pod("p", "4", 9), table(("n1", two), ("n2", [pod("c", "4", 1)])))) == ("n2", ["c"])
    assert names(chosen(pod("p", "4", 9), table(("n1", [pod("c", "4", 2)]), ("n2", two))))[0] == "n2"
    protected = table(("n1", [pod("kept", "4", 1)]), ("n2", [pod("c", "4", 2)]))
    assert names(chosen(pod("p", "4", 9), protected, budget("kept", 0)))[0] == "n2"
    assert names(chosen(pod("p", "4", 9), protected, budget("kept", 1)))[0] == "n1"


def test_a_budget_is_violated_if_nothing_else_helps() -> None:
    assert names(chosen(pod("p", "4", 9), table(("n1", [pod("kept", "4")])), budget("kept", 0))) == ("n1", ["kept"])


def test_without_victims_every_node_says_why() -> None:
    """C-5.6: nobody of lower priority, too few of them, or a node that could never serve the pod."""
    cluster = table(("n1", [pod("a", "4", 9)]), ("n2", [pod("b", "3", 9), pod("c", "1", 1)]))
    assert chosen(pod("p", "2", 9), cluster) == NoVictims(
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.",
        hopeless=True,
    )
    assert chosen(pod("p", "5", 9), cluster) == NoVictims(
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.", hopeless=True
    )


def test_a_pod_may_be_forbidden_to_preempt_or_wait_for_its_victims() -> None:
    cluster = table(("n1", [pod("a", "4")]))
    assert chosen(pod("p", "4", 9, spec={"preemptionPolicy": "Never"}), cluster) == NoVictims(
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    going = table(("n1", [pod("a", "4", deleted=True, conditions=[mark])]))
    assert chosen(pod("p", "4", 9, nominatedNodeName="n1"), going) == NoVictims(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )


def test_a_place_is_kept_for_who_is_nominated() -> None:
    """C-5.6: pods of the same priority or less don't take the room that victims leave; those of a higher priority
    do."""
    cluster = table(("n1", []))
    cluster.nominations.nominate(pod("p", "4", 5), "n1")
    cycle = SchedulingCycle([NodeResourcesFit(NodeUsages(), lambda name: False)], cluster)
    assert isinstance(cycle.find(pod("q", "1", 5)), NotFitting)
    assert isinstance(cycle.find(pod("r", "1", 6)), FoundNode)
    cluster.nominations.forget("uid-p")
    assert isinstance(cycle.find(pod("q", "1", 5)), FoundNode)
