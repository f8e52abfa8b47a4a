"""NodeResourcesFit: what of a node's resources is left for a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.quantity import Quantity
from virt_dra.scheduling.filters.node_resources import (
    BalancedAllocation,
    NodeResourcesFit,
    NodeUsages,
    amount_in_words,
    amount_text,
)
from virt_dra.scheduling.framework.node_table import NodeTable
from virt_dra.scheduling.pod_requests import pod_requests

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "node_resources.yaml").read_text())


def pod(name: str, spec: dict[str, Any]) -> Pod:
    return Pod.from_wire({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec})


def node(allocatable: dict[str, str]) -> Node:
    return Node.from_wire({"metadata": {"name": "n1"}, "status": {"allocatable": allocatable}})


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_resources_of_a_node(case: dict[str, Any]) -> None:
    """C-7.9: every missing resource has its text; evicting pods helps only where the node alone could serve the pod."""
    table = NodeTable()
    table.put(node(case["node"]))
    for number, spec in enumerate(case.get("others", ())):
        table.assign(pod(f"other{number}", spec), "n1")
    served = case.get("dra", ())
    refusal = (
        NodeResourcesFit(NodeUsages(), lambda name: name in served)
        .attempt(pod("new", case["pod"]))
        .filter(table.states[0])
    )
    assert list(refusal.reasons if refusal else ()) == case.get("reasons", [])
    assert refusal is None or refusal.resolvable == case.get("resolvable", False)


def test_a_nodes_usage_follows_its_pods() -> None:
    table = NodeTable()
    table.put(node({"cpu": "1", "pods": "10"}))
    spec = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    attempt = NodeResourcesFit(NodeUsages(), lambda name: False).attempt(pod("new", spec))
    assert attempt.filter(table.states[0]) is None
    table.assign(pod("other", spec), "n1")
    refusal = attempt.filter(table.states[0])
    assert refusal is not None
    assert refusal.reasons == ("Insufficient cpu",)
    table.unassign("other")
    assert attempt.filter(table.states[0]) is None


def test_the_node_with_more_left_has_the_higher_score() -> None:
    """LeastAllocated: 100 mCPU and 200 MiB are what a container without requests counts as."""
    table = NodeTable()
    for name, cpu, memory in (("n1", "1", "1000Mi"), ("n2", "2", "4000Mi"), ("n3", "0", "0")):
        allocatable = {"cpu": cpu, "memory": memory, "pods": "10"}
        table.put(Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
    table.assign(pod("other", {"containers": [{"resources": {"requests": {"cpu": "400m"}}}]}), "n1")
    attempt = NodeResourcesFit(NodeUsages(), lambda name: False).attempt(pod("new", {"containers": [{}]}))
    # n1: 500 of 1000 mCPU and 600 of 1000 MiB are left; n2: 1900 of 2000 mCPU and 3800 of 4000 MiB.
    assert attempt.scores(table.states) == [55, 95, 0]


def test_a_node_that_becomes_more_even_is_preferred() -> None:
    """BalancedAllocation: half the pod's request of cpu on an empty node unbalances it; on one with memory in use it
    balances it."""
    table = NodeTable()
    for name in ("n1", "n2"):
        allocatable = {"cpu": "2", "memory": "2Gi", "pods": "10"}
        table.put(Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": allocatable}}))
    table.assign(pod("other", {"containers": [{"resources": {"requests": {"memory": "1Gi"}}}]}), "n2")
    new = pod("new", {"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    attempt = BalancedAllocation(NodeUsages()).attempt(new)
    assert attempt is not None
    assert attempt.scores(table.states) == [62, 87]
    assert BalancedAllocation(NodeUsages()).attempt(pod("none", {"containers": [{}]})) is None


def test_requests_are_summed_before_they_are_rounded() -> None:
    """C-7.2: as kube-scheduler counts, two containers with a tenth of a thousandth of a CPU ask for one thousandth
    together."""
    container = {"image": "i", "resources": {"requests": {"cpu": "100u", "memory": "1500m"}}}
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [container | {"name": "a"}, container | {"name": "b"}]}}
    assert pod_requests(Pod.from_wire(raw)) == {"cpu": 1, "memory": 3}


def test_what_a_pod_asks_for_is_summed_once_until_the_pod_changes() -> None:
    """Preemption asks again for a node without this pod or that: a hundred nodes full of pods took ten seconds."""
    small, large = (
        pod("p", {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}) for cpu in "12"
    )
    table, usages = NodeTable(), NodeUsages()
    table.put(node({"cpu": "4", "pods": "10"}))
    table.assign(small, "n1")
    state = table.get("n1")
    assert state is not None
    assert usages.of(state).requested == {"cpu": 1000}
    assert usages.of(state.supposing({})).requested == {}
    assert usages.of(state.supposing({"p": large})).requested == {"cpu": 2000}


@pytest.mark.parametrize(
    ("resource", "number", "written", "said"),
    [
        ("cpu", 1500, "1500m", "1500m of a CPU"),
        ("cpu", 62_000, "62", "62 CPUs"),
        ("pods", 1, "1", "1 pod"),
        ("memory", 1, "1", "1 byte of memory"),
        ("memory", 1024, "1Ki", "1Ki of memory"),
        ("memory", 2 << 30, "2Gi", "2Gi of memory"),
        ("memory", 1536 << 20, "1536Mi", "1536Mi of memory"),
        ("memory", 930_599_168, "888Mi", "888Mi of memory"),
        ("memory", (2 << 30) + 1, "2.01Gi", "2.01Gi of memory"),
        ("memory", 1_035_532 << 20, "1012Gi", "1012Gi of memory"),
        ("hugepages-2Mi", 6 << 20, "6Mi", "6Mi of hugepages-2Mi"),
        ("ephemeral-storage", 100 * 10**9, "93.2Gi", "93.2Gi of ephemeral-storage"),
        ("example.com/gpu", 2048, "2048", "2048 of example.com/gpu"),
    ],
)
def test_an_amount_is_said_in_the_unit_of_its_size(resource: str, number: int, written: str, said: str) -> None:
    assert (amount_text(resource, number), amount_in_words(resource, number)) == (written, said)


@pytest.mark.parametrize("exponent", range(0, 90, 3))
def test_what_is_written_is_at_least_the_amount_and_hardly_more(exponent: int) -> None:
    for number in (2**exponent, 2**exponent + 1, 3**exponent):
        written = Quantity(amount_text("memory", number)).value()
        assert number <= written <= number + number // 99
