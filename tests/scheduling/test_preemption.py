"""Whom preemption evicts, and whom it doesn't: whole clusters, each plan proved by placing the pod without the
victims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

import pytest

from devtools.allocator import build
from tests.sampling import sample
from tests.scheduling.build import Json, claim, cluster, on_each_node, pod, with_status
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimStatus, ResourceSlice
from virt_dra.api.scheduling_v1 import PodDisruptionBudget
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling.placement import Placement, place
from virt_dra.scheduling.preemption import (
    DEFAULT_BUDGET,
    LOWEST_PRIORITY,
    NoPreemption,
    PreemptionPlan,
    planning,
    still_helps,
)
from virt_dra.scheduling.preemption_trial import TrialCluster

DRIVER = build.DRIVER


def plan_preemption(
    pod: Pod, cluster: TrialCluster, budgets: Sequence[PodDisruptionBudget] = (), *, budget: int = DEFAULT_BUDGET
) -> PreemptionPlan | NoPreemption:
    """The plan, all its steps at once."""
    steps = planning(pod, cluster, budgets, budget=budget)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: PreemptionPlan | NoPreemption = end.value
            return outcome


@dataclass
class Lab:
    """A cluster of nodes with GPUs, and the VMs on it."""

    nodes: Sequence[str]
    gpus: Sequence[str] = ("d0",)
    slices: Sequence[ResourceSlice] | None = None
    pods: list[Pod] = field(default_factory=list)
    claims: list[ResourceClaim] = field(default_factory=list)

    def vm(
        self,
        name: str,
        node: str,
        *devices: str,
        priority: int = 0,
        at: str = "12:00",
        labels: Mapping[str, str] | None = None,
        **more: Json,
    ) -> None:
        """A running VM with devices of its node's pool, or ``pool/device``."""
        vm = pod(name, f"{name}-claim", spec={"nodeName": node, "priority": priority})
        metadata: Json = vm.metadata.to_wire() | {
            "labels": dict(labels or {}),
            "creationTimestamp": f"2026-11-22T{at}:00Z",
        }
        self.pods.append(
            Pod.from_wire(
                vm.to_wire() | {"metadata": metadata | more.get("metadata", {}), "status": more.get("status", {})}
            )
        )
        self.claims.append(self._allocated(f"{name}-claim", node, devices, [name]))

    def shared(self, name: str, node: str, device: str, *consumers: str, priority: int = 0) -> None:
        """A claim that several pods use, on its node each."""
        for consumer in consumers:
            self.pods.append(pod(consumer, name, spec={"nodeName": node, "priority": priority}))
        self.claims.append(self._allocated(name, node, [device], consumers))

    def _allocated(self, name: str, node: str, devices: Sequence[str], consumers: Sequence[str]) -> ResourceClaim:
        results = [device if "/" in device else f"{node}/{device}" for device in devices]
        allocated = claim(
            name, {"count": max(len(devices), 1)}, allocated=[f"{DRIVER}/{result}" for result in results]
        ).to_wire()
        if not any("/" in device for device in devices):
            field_ = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocated["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        reserved = [{"resource": "pods", "name": consumer, "uid": f"uid-{consumer}"} for consumer in consumers]
        return with_status(ResourceClaim.from_wire(allocated), allocated["status"] | {"reservedFor": reserved})

    def model(self, wanted: int = 1) -> ClusterModel:
        slices = on_each_node(self.nodes, self.gpus) if self.slices is None else self.slices
        return cluster(self.nodes, [*self.claims, claim("wanted", {"count": wanted})], slices)

    def cluster(self, wanted: int = 1) -> TrialCluster:
        model = self.model(wanted)
        return TrialCluster(model.of(Node), model.claims, snapshot_of(model), tuple(self.pods))


def urgent(priority: int = 100, **spec: str) -> Pod:
    return pod("urgent", "wanted", spec={"priority": priority, **spec})


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    wire = {
        "metadata": {"name": "budget", "namespace": "ns"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return PodDisruptionBudget.from_wire(wire)


def planned(outcome: PreemptionPlan | NoPreemption) -> tuple[str, list[str]]:
    assert isinstance(outcome, PreemptionPlan), outcome
    return outcome.node, [victim.name for victim in outcome.victims]


def refused(outcome: PreemptionPlan | NoPreemption) -> str:
    assert isinstance(outcome, NoPreemption), outcome
    return outcome.reason


def test_the_pod_with_the_lowest_priority_that_helps_is_evicted() -> None:
    lab = Lab(["n1", "n2"])
    lab.vm("dear", "n1", "d0", priority=50)
    lab.vm("cheap", "n2", "d0", priority=10)
    lab.vm("idle", "n1", priority=0)
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n2", ["cheap"])


def test_a_step_of_planning_is_one_placement() -> None:
    """So that a plan of 2,000 placements need not be one turn of an event loop."""
    lab = Lab([f"n{number}" for number in range(30)])
    for number in range(30):
        lab.vm(f"equal-{number}", f"n{number}", "d0", priority=100)
        lab.vm(f"idle-{number}", f"n{number}")
    outcome = plan_preemption(urgent(), lab.cluster())
    assert isinstance(outcome, NoPreemption)
    assert (len(list(planning(urgent(), lab.cluster()))), outcome.placements) == (30, 30)


def test_a_plan_holds_while_its_victims_are_there_and_the_pod_fits_without_them() -> None:
    lab = Lab(["n1", "n2"])
    lab.vm("low", "n1", "d0", priority=10)
    lab.vm("equal", "n2", "d0", priority=100)
    plan = plan_preemption(urgent(), lab.cluster())
    assert isinstance(plan, PreemptionPlan)
    assert still_helps(plan, urgent(), lab.cluster())
    assert not still_helps(plan, urgent(), lab.cluster(wanted=2))
    assert not still_helps(plan, urgent(priority=10), lab.cluster())
    assert not still_helps(plan, urgent(), Lab(["n2"], pods=lab.pods, claims=lab.claims).cluster())
    assert not still_helps(plan, urgent(), Lab(lab.nodes, pods=lab.pods[1:], claims=lab.claims).cluster())


def test_pods_of_equal_or_higher_priority_are_never_evicted() -> None:
    lab = Lab(["n1"])
    lab.vm("equal", "n1", "d0", priority=100)
    assert refused(plan_preemption(urgent(), lab.cluster())) == "PreemptionNotHelpful"


def test_a_pod_that_never_preempts_evicts_nobody() -> None:
    lab = Lab(["n1"])
    lab.vm("vm", "n1", "d0")
    outcome = plan_preemption(urgent(preemptionPolicy="Never"), lab.cluster())
    assert outcome == NoPreemption("PreemptionNever", "not eligible due to preemptionPolicy=Never.")


def test_nobody_is_evicted_where_it_would_not_help() -> None:
    """Two devices are wanted; one of the node's is held by a pod that must stay."""
    lab = Lab(["n1"], gpus=("d0", "d1"))
    lab.vm("low", "n1", "d0")
    lab.vm("high", "n1", "d1", priority=200)
    assert refused(plan_preemption(urgent(), lab.cluster(wanted=2))) == "PreemptionNotHelpful"


def test_as_few_as_needed_and_of_equals_the_youngest() -> None:
    lab = Lab(["n1"], gpus=("d0", "d1", "d2"))
    lab.vm("old", "n1", "d0", at="09:00")
    lab.vm("young", "n1", "d1", at="11:00")
    lab.vm("middle", "n1", "d2", at="10:00")
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n1", ["young"])
    assert planned(plan_preemption(urgent(), lab.cluster(wanted=2))) == ("n1", ["young", "middle"])


def test_the_highest_priority_counts_before_the_number() -> None:
    lab = Lab(["n1", "n2"], slices=[*on_each_node(["n1"], ("d0",)), *on_each_node(["n2"], ("d0", "d1"))])
    lab.vm("one", "n1", "d0", priority=20)
    lab.vm("two", "n2", "d0", priority=10)
    lab.vm("three", "n2", "d1", priority=10)
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n2", ["three"])
    assert planned(plan_preemption(urgent(), lab.cluster(wanted=2))) == ("n2", ["three", "two"])


def test_a_shared_claim_is_released_only_with_all_its_consumers() -> None:
    lab = Lab(["n1", "n2"])
    lab.shared("both", "n1", "d0", "a", "b", priority=5)
    lab.vm("single", "n2", "d0", priority=6)
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n1", ["a", "b"])
    lab.pods[1] = lab.pods[1].with_(spec=lab.pods[1].spec.with_(priority=500))
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n2", ["single"])


def test_a_claim_of_a_pod_group_isnt_released() -> None:
    lab = Lab(["n1"])
    lab.vm("member", "n1", "d0")
    wire = lab.claims[0].to_wire()
    wire["status"]["reservedFor"] = [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid"}
    ]
    lab.claims[0] = ResourceClaim.from_wire(wire)
    assert refused(plan_preemption(urgent(), lab.cluster())) == "PreemptionNotHelpful"


def test_devices_in_the_network_may_be_taken_from_pods_of_other_nodes() -> None:
    everywhere = build.slice_({"name": "net", "pool": "net", "allNodes": True, "devices": ["nic"]})
    lab = Lab(["n1", "n2"], slices=[everywhere])
    lab.vm("far", "n2", "net/nic")
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n1", ["far"])


def test_no_budget_is_violated() -> None:
    lab = Lab(["n1", "n2"], gpus=("d0", "d1"))
    for name in ("a", "b"):
        lab.vm(name, "n1", f"d{'ab'.index(name)}", labels={"app": "db"}, priority=1)
    lab.vm("c", "n2", "d0", priority=50)
    lab.vm("d", "n2", "d1", priority=50)
    assert planned(plan_preemption(urgent(), lab.cluster(), [budget(0, app="db")])) == ("n2", ["c"])
    assert planned(plan_preemption(urgent(), lab.cluster(), [budget(1, app="db")])) == ("n1", ["a"])
    assert planned(plan_preemption(urgent(), lab.cluster(2), [budget(1, app="db")])) == ("n2", ["c", "d"])
    assert planned(plan_preemption(urgent(), lab.cluster(2), [budget(2, app="db")])) == ("n1", ["a", "b"])
    assert planned(plan_preemption(urgent(), lab.cluster(), [budget(0, app="web")])) == ("n1", ["a"])


@pytest.mark.parametrize(
    ("selector", "concerned"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "db"}}, True),
        ({"matchLabels": {"app": "web"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
    ],
)
def test_a_budget_concerns_the_pods_that_it_selects(selector: Json | None, concerned: bool) -> None:
    lab = Lab(["n1"])
    lab.vm("vm", "n1", "d0", labels={"app": "db"})
    spec = {} if selector is None else {"selector": selector}
    wire = {"metadata": {"name": "budget", "namespace": "ns"}, "spec": spec, "status": {"disruptionsAllowed": 0}}
    assert PodDisruptionBudget.from_wire(wire).concerns(lab.pods[0]) == concerned
    elsewhere = PodDisruptionBudget.from_wire(wire | {"metadata": {"name": "budget", "namespace": "other"}})
    assert not elsewhere.concerns(lab.pods[0])
    counted = PodDisruptionBudget.from_wire(wire | {"status": {"disruptedPods": {"vm": "2026-11-22T12:00:00Z"}}})
    assert not counted.concerns(lab.pods[0])


def test_nobody_is_evicted_while_somebody_goes_whose_place_is_enough() -> None:
    lab = Lab(["n1", "n2"])
    lab.vm("low", "n1", "d0")
    lab.vm("going", "n2", "d0", priority=900, metadata={"deletionTimestamp": "2026-11-22T12:00:00Z"})
    assert refused(plan_preemption(urgent(), lab.cluster())) == "PreemptionNotNeeded"
    lab.pods[1] = lab.pods[1].with_(metadata=lab.pods[1].metadata.without("deletion_timestamp"))
    assert planned(plan_preemption(urgent(), lab.cluster())) == ("n1", ["low"])


def test_a_finished_pod_is_no_victim_but_about_to_release_its_devices() -> None:
    lab = Lab(["n1"])
    lab.vm("done", "n1", "d0", status={"phase": "Succeeded"})
    assert refused(plan_preemption(urgent(), lab.cluster())) == "PreemptionNotNeeded"


def test_other_filters_are_asked_with_the_pods_that_stay() -> None:
    """Such as resources: a pod without devices may be in the way."""
    lab = Lab(["n1"])
    lab.vm("busy", "n1", priority=3)
    lab.vm("lazy", "n1", priority=1)
    trials = lab.cluster()

    def only_beside_lazy(pod: Pod, node: Node, beside: Sequence[Pod]) -> bool:
        return {other.name for other in beside} <= {"lazy"}

    whole = replace(trials, other_filters=only_beside_lazy)
    assert planned(plan_preemption(urgent(), whole)) == ("n1", ["busy"])


def test_the_work_is_bounded() -> None:
    """Of 40 pods 20 are needed: more sets than anybody can try. What is left out one by one still leaves nobody in
    vain."""
    lab = Lab(["n1"], gpus=[f"d{number}" for number in range(40)])
    for number in range(40):
        lab.vm(f"vm-{number:02}", "n1", f"d{number}", priority=number % 4)
    outcome = plan_preemption(urgent(), lab.cluster(wanted=20))
    assert isinstance(outcome, PreemptionPlan)
    assert (len(outcome.victims), max(victim.priority for victim in outcome.victims)) == (20, 1)
    assert outcome.placements <= 260
    spent = plan_preemption(urgent(), lab.cluster(wanted=20), budget=50)
    assert spent == NoPreemption("PreemptionBudgetExhausted", "no victims found with 50 placements", 50)


@pytest.mark.parametrize("seed", range(sample(40)))
def test_a_plan_is_as_cheap_as_the_cheapest_of_all_sets(seed: int) -> None:
    """By trying every set of pods on every node."""
    chance = Random(seed)
    lab = Lab(["n1", "n2"], gpus=("d0", "d1", "d2"))
    for node in lab.nodes:
        for number in range(3):
            if chance.random() < 0.9:
                name = f"{node}-{number}"
                lab.vm(
                    name,
                    node,
                    f"d{number}",
                    priority=chance.choice([-5, 0, 0, 10, 150]),
                    at=f"{10 + chance.randrange(9)}:00",
                )
    wanted = chance.choice([1, 2, 2, 3])
    model = lab.model(wanted)
    free = place(urgent(), model)
    outcome = plan_preemption(urgent(), lab.cluster(wanted))
    if isinstance(free, Placement):
        return
    costs = []
    for node in lab.nodes:
        candidates = [pod for pod in lab.pods if pod.spec.node_name == node and pod.priority < 100]
        for size in range(1, len(candidates) + 1):
            for chosen in combinations(candidates, size):
                if _fits_without(model, node, chosen):
                    costs.append(_cost(chosen))
    if not costs:
        assert refused(outcome) == "PreemptionNotHelpful"
        return
    assert isinstance(outcome, PreemptionPlan)
    assert _cost(outcome.victims) == min(costs)
    assert _fits_without(model, outcome.node, outcome.victims)


def _fits_without(model: ClusterModel, node: str, victims: Sequence[Pod]) -> bool:
    gone = {victim.metadata.uid for victim in victims}
    freed = [
        allocated.with_(status=ResourceClaimStatus())
        for allocated in model.claims.values()
        if allocated.status.allocation is not None
        and all(consumer.uid in gone for consumer in allocated.status.reserved_for)
    ]
    return isinstance(place(urgent(), model.changed(freed), only_node=node), Placement)


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int, str]:
    priorities = [victim.priority for victim in victims]
    oldest = min(victim.metadata.creation_timestamp or "" for victim in victims)
    return (
        max(priorities),
        sum(priority - LOWEST_PRIORITY for priority in priorities),
        len(victims),
        _younger_first(oldest),
    )


def _younger_first(time: str) -> str:
    return "".join(chr(0x7F - ord(character)) for character in time)
