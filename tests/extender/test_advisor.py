"""What the advisor prefers, assumes, and forgets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.extender.objects import GPU_CLASS, allocated, claim, gpus, node, pod
from virt_dra.allocator import DEFAULT, Snapshot
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderArguments
from virt_dra.scheduling.dynamic_resources.pod_devices import NO_DEVICES_FIT
from virt_dra.scheduling.policies.placer import VmShape, card_catalog
from virt_dra.scheduling.policies.typical import TypicalVms

NODES = ("a", "b", "c")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class World:
    """An advisor that knows three nodes of four GPUs."""

    def __init__(self, policy: str = "pack", *objects: TypedObject, devices: int = 4) -> None:
        self.clock = Clock()
        self.advisor = Advisor(policy, DEFAULT, self.clock, lambda: 0.5)
        for obj in (GPU_CLASS, *[node(name) for name in NODES], *[gpus(name, devices) for name in NODES], *objects):
            self.advisor.put(obj)
        self.advisor.prepare()

    def prefers(self, asking: Pod, *nodes: str) -> tuple[str, dict[str, int]]:
        advice, scores = self.advisor.prioritize(ExtenderArguments(asking, nodes or NODES))
        return advice.verdict, dict(scores)

    def best(self, asking: Pod, *nodes: str) -> str:
        verdict, scores = self.prefers(asking, *nodes)
        assert verdict == "scored"
        return next(name for name, priority in scores.items() if priority == 10)


def test_pack_prefers_the_node_that_is_used_and_spread_one_that_is_not() -> None:
    used = allocated(claim("used"), "b", "gpu-0")
    assert World("pack", used, claim("c")).prefers(pod("p", "c")) == ("scored", {"a": 8, "b": 10, "c": 8})
    assert World("spread", used, claim("c")).prefers(pod("p", "c")) == ("scored", {"a": 10, "b": 8, "c": 9})


def test_a_pod_counts_as_placed_before_the_cluster_shows_it() -> None:
    world = World("spread", *[claim(f"c{number}") for number in range(4)])
    assert [world.best(pod(f"p{number}", f"c{number}")) for number in range(4)] == ["a", "b", "c", "a"]


def test_what_the_cluster_shows_takes_the_place_of_what_was_assumed() -> None:
    world = World("pack", claim("c0"), claim("c1", 4), claim("c2", 2))
    assert world.best(pod("p0", "c0")) == "a"
    world.advisor.put(allocated(claim("c0"), "c", "gpu-3"))  # kube-scheduler took another node
    world.advisor.put(pod("p0", "c0", on="c"))
    assert world.prefers(pod("p1", "c1")) == ("scored", {"a": 10, "b": 9, "c": 0})
    assert world.best(pod("p2", "c2")) == "c"


def test_an_assumption_is_over_after_a_while_and_when_the_pod_comes_again() -> None:
    world = World("pack", claim("c0", 4), claim("c1", 4))
    assert world.best(pod("p0", "c0")) == "a"
    assert world.best(pod("p0", "c0")) == "a"
    assert world.best(pod("p1", "c1")) == "b"
    world.clock.now += 11
    assert world.best(pod("p1", "c1")) == "a"


def test_released_devices_are_free_again() -> None:
    used = allocated(claim("used", 4), "a", *[f"gpu-{number}" for number in range(4)])
    world = World("pack", used, claim("c", 4))
    assert world.prefers(pod("p", "c"), "a") == ("scored", {"a": 0})
    world.advisor.remove(ResourceClaim, "vms/used")
    assert world.prefers(pod("p", "c"), "a") == ("scored", {"a": 10})


def test_a_claim_that_was_made_again_under_its_name_holds_nothing() -> None:
    used = allocated(claim("used", 4), "a", *[f"gpu-{number}" for number in range(4)])
    world = World("pack", used, claim("c", 4))
    again = claim("used", 4)
    world.advisor.put(again.with_(metadata=again.metadata.with_(uid="another")))
    assert world.prefers(pod("p", "c"), "a") == ("scored", {"a": 10})


def test_cpu_of_bound_pods_counts_and_that_of_ended_ones_does_not() -> None:
    world = World("pack", claim("c"), pod("busy", on="b", cpu="32"))
    assert world.best(pod("p", "c")) == "b"
    world.clock.now += 11
    ended = Pod.from_wire({**pod("busy", on="b", cpu="32").to_wire(), "status": {"phase": "Succeeded"}})
    world.advisor.put(ended)
    assert world.best(pod("p", "c")) == "a"
    world.advisor.remove(Pod, "vms/busy")
    assert world.best(pod("p", "c")) == "a"


def test_the_pods_annotation_goes_before_the_namespaces() -> None:
    used = allocated(claim("used"), "b", "gpu-0")
    namespace = Namespace.from_wire(
        {"metadata": {"name": "vms", "annotations": {"virt-dra.io/placement-policy": "spread"}}}
    )
    world = World("first-fit", used, claim("c"), claim("d"), claim("e"), namespace)
    assert world.best(pod("p", "c")) == "a"
    assert world.best(pod("q", "d", policy="pack")) in ("a", "b")
    assert world.prefers(pod("r", "e", policy="nonsense")) == ("unknown policy", dict.fromkeys(NODES, 0))
    world.advisor.remove(Namespace, "vms")
    assert world.best(pod("r", "e", policy="spread"), "b", "c") == "c"


@pytest.mark.parametrize(
    ("asking", "verdict"),
    [
        (pod("p"), "no claims"),
        (pod("p", "elsewhere"), "claims missing"),
        (pod("p", "used"), "claims allocated"),
        (pod("p", "broken"), "invalid claims"),
    ],
)
def test_without_a_preference_all_nodes_get_0_and_none_is_refused(asking: Pod, verdict: str) -> None:
    world = World("pack", allocated(claim("used"), "b", "gpu-0"), claim("broken", selector="device.driver =="))
    assert world.prefers(asking) == (verdict, dict.fromkeys(NODES, 0))
    advice, refused = world.advisor.filter(ExtenderArguments(asking, NODES))
    assert (advice.verdict, refused) == (verdict, {})


def test_claims_of_templates_are_known_by_the_pods_status() -> None:
    world = World("pack", claim("vm-gpu-x7"))
    wire = pod("p").to_wire()
    wire["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    assert world.prefers(Pod.from_wire(wire))[0] == "claims missing"
    wire["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "vm-gpu-x7"}]}
    assert world.best(Pod.from_wire(wire)) == "a"


def test_filter_refuses_nodes_without_devices_and_assumes_the_only_one() -> None:
    full = [allocated(claim(name, 4), name, *[f"gpu-{number}" for number in range(4)]) for name in ("a", "c")]
    world = World("pack", *full, claim("d", 2), claim("e", 3))
    _, refused = world.advisor.filter(ExtenderArguments(pod("p", "d"), (*NODES, "unknown")))
    assert refused == {"a": NO_DEVICES_FIT, "c": NO_DEVICES_FIT}
    _, refused = world.advisor.filter(ExtenderArguments(pod("p", "d"), NODES))
    assert refused == {"a": NO_DEVICES_FIT, "c": NO_DEVICES_FIT}
    assert world.advisor.filter(ExtenderArguments(pod("q", "e"), ("b",)))[1] == {"b": NO_DEVICES_FIT}  # p is there


def test_nodes_that_are_not_known_get_0() -> None:
    assert World("pack", claim("c")).prefers(pod("p", "c"), "unknown", "b") == ("scored", {"unknown": 0, "b": 10})
    assert World("pack", claim("c")).prefers(pod("p", "c"), "unknown") == ("scored", {"unknown": 0})


def test_new_slices_count_once_they_are_taken_into_account() -> None:
    world = World("spread", claim("c", 8))
    assert world.prefers(pod("p", "c"))[1] == dict.fromkeys(NODES, 0)
    world.advisor.put(gpus("c", 8))
    assert world.prefers(pod("p", "c"))[1] == dict.fromkeys(NODES, 0)
    world.clock.now += 60
    world.advisor.prepare()
    assert world.best(pod("p", "c")) == "c"
    world.advisor.remove(ResourceSlice, "c")
    world.clock.now += 60
    world.advisor.prepare()
    assert world.prefers(pod("p", "c"))[1] == dict.fromkeys(NODES, 0)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    """A tenant's selector can cost much on every device of every node."""
    expensive = " || ".join(["device.attributes['x.io'].all(k, device.attributes['x.io'].all(l, k == l + 'n'))"] * 20)
    world = World("pack", claim("c", selector=expensive), devices=8)
    ticks = iter(range(10**9))
    world.advisor = Advisor("pack", DEFAULT, lambda: float(next(ticks)), lambda: 0.5, seconds=3)
    for obj in (GPU_CLASS, *map(node, NODES), *[gpus(name, 8) for name in NODES], claim("c", selector=expensive)):
        world.advisor.put(obj)
    assert world.prefers(pod("p", "c")) == ("too slow", dict.fromkeys(NODES, 0))


def test_many_kinds_of_pods_do_not_grow_the_memory_without_bound() -> None:
    world = World("pack", *[claim(f"c{number}") for number in range(200)])
    for number in range(200):
        assert world.best(pod(f"p{number}", f"c{number}", cpu=f"{number + 1}m"), "a", "b", "c") in NODES
        world.advisor.put(pod(f"p{number}", f"c{number}", on=""))
        world.clock.now += 11
    assert len(world.advisor._shapes) <= 64
    assert len(world.advisor._assumed) <= 1


def test_least_fragmentation_learns_the_workload_from_the_pods() -> None:
    """Most VMs take four GPUs: a small one goes where a whole node is spoilt already."""
    big = [pod(f"big-{number}", f"big-{number}") for number in range(6)]
    used = allocated(claim("used"), "b", "gpu-0")
    world = World("least-fragmentation", used, claim("c"), *big, *[claim(f"big-{number}", 4) for number in range(6)])
    assert world.best(pod("small", "c")) == "b"


def test_a_tenants_selector_that_fails_leaves_others_their_preference() -> None:
    """Pods that are there are the typical workload, whoever made them."""
    broken = 'device.attributes["gpu.example.com"].nothing == "x"'
    others = [claim(f"broken-{number}", selector=broken) for number in range(5)]
    pods = [pod(f"broken-{number}", f"broken-{number}") for number in range(5)]
    world = World("least-fragmentation", *others, *pods, claim("c"))
    assert world.best(pod("p", "c")) == "a"


def test_a_typical_selector_that_takes_too_long_is_given_up_once() -> None:
    """The workload goes on without it: it counts as one that no node serves."""
    expensive = claim(
        "slow",
        selector="[1, 2, 3, 4, 5, 6, 7, 8].all(k, [1, 2, 3, 4, 5, 6, 7, 8].all(l, [1, 2, 3].all(m, k + l + m < 100)))",
    )
    snapshot = Snapshot.build([gpus(name, 4) for name in NODES], [GPU_CLASS])
    nodes, catalog = [node(name) for name in NODES], card_catalog(snapshot)
    polls: list[None] = []

    def ends() -> bool:
        polls.append(None)
        return True

    shape = VmShape("slow", pod("slow", "slow"), (expensive,))
    workload = TypicalVms({shape: 1}, nodes, snapshot, catalog, DEFAULT, ends).workload
    pools = snapshot.caches.pools(DEFAULT)
    usable = [workload.kind(catalog.of(pools.reachable(node))).usable((1000,) * 4) for node in nodes]
    assert usable == [(0,)] * 3
    assert len(polls) == 1
