"""What a placer chooses is what evaluating every node anew for every VM chooses: nothing that it keeps (offers, scores,
rankings, the typical workload) outlives what it depends on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import DEFAULT, Allocator, Snapshot
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceSlice
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling.fit import fit
from virt_dra.scheduling.policies.catalog import POLICIES, policy_named
from virt_dra.scheduling.policies.fragmentation import TypicalWorkload
from virt_dra.scheduling.policies.offer import Offer
from virt_dra.scheduling.policies.placer import PlacedVm, PolicyPlacer, VmShape, card_catalog, room_of
from virt_dra.scheduling.policies.policy import Policy, Score
from virt_dra.scheduling.policies.typical import TypicalVms

Json = dict[str, Any]
_SHARED: Json = {"allowMultipleAllocations": True}
_LISTED = frozenset({"cpu", "memory", "pods"})


def _node(random: Random, number: int) -> Node:
    offered = {"cpu": random.choice(("8", "16")), "memory": random.choice(("32Gi", "64Gi")), "pods": "12"}
    return build.node({"name": f"n{number}", "status": {"allocatable": offered}})


def _slices(random: Random, node: str) -> list[ResourceSlice]:
    """Devices that one VM has alone, shared ones with and without an amount, or partitions."""
    common: Json = {"pool": node, "node": node, "name": f"{node}-devices"}
    match random.randrange(5):
        case 0:
            devices = [{"name": f"d{i}", "attributes": {"numaNode": i // 2}} for i in range(random.choice((2, 4)))]
        case 1:
            share = {"capacity": {"share": {"value": "1000"}}}
            devices = [{**_SHARED, **share, "name": f"d{i}"} for i in range(random.randint(1, 3))]
        case 2:
            devices = [{**_SHARED, "name": f"d{i}"} for i in range(2)]
        case 3:
            counters = build.slice_({**common, "name": f"{node}-counters", "counters": {"card": {"m": 40}}, "count": 2})
            devices = [{"name": f"p{i}", "takes": {"card": {"m": amount}}} for i, amount in enumerate((10, 20, 40))]
            return [counters, build.slice_({**common, "devices": devices, "count": 2})]
        case _:
            return []
    return [build.slice_({**common, "devices": devices})]


def _shapes() -> list[VmShape]:
    requests: list[Json] = [
        {},
        {"count": 2},
        {"capacity": {"requests": {"share": "0"}}},
        {"capacity": {"requests": {"share": "300"}}},
        {"first": [{"count": 3}, {"count": 1}]},
    ]
    shapes = []
    for number, request in enumerate([None, *requests]):
        wanted = {"cpu": str(number % 3), "memory": f"{1 + number % 2}Gi"}
        pod = Pod.from_wire({"spec": {"containers": [{"name": "c", "resources": {"requests": wanted}}]}})
        claims = () if request is None else (build.claim({"name": "claim", "requests": [request]}),)
        shapes.append(VmShape(f"shape-{number}", pod, claims))
    return shapes


@dataclass
class _World:
    """What the placer is told, kept apart from it."""

    nodes: list[Node]
    slices: list[ResourceSlice]
    shapes: list[VmShape] = field(default_factory=_shapes)
    running: dict[str, PlacedVm] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    tainted: tuple[str, ...] = ()

    @property
    def published(self) -> list[Any]:
        taint = {"key": "k", "effect": "NoSchedule"}
        rules = [
            {"metadata": {"name": pool}, "spec": {"deviceSelector": {"pool": pool}, "taint": taint}}
            for pool in self.tainted
        ]
        return [*self.slices, build.device_class("gpu"), *map(DeviceTaintRule.from_wire, rules)]

    def model(self) -> ClusterModel:
        objects = [*self.nodes, *self.published]
        for name, placed in self.running.items():
            pod = placed.shape.pod
            spec = pod.spec.with_(node_name=self.nodes[placed.node].name)
            objects.append(pod.with_(metadata=pod.metadata.with_(name=name, namespace="ns", uid=name), spec=spec))
            for claim, result in zip(placed.shape.claims_of(name), placed.results, strict=True):
                objects.append(claim.with_(status=claim.status.with_(allocation=result)))
        return ClusterModel(objects)

    def workload(self, snapshot: Snapshot) -> TypicalWorkload:
        weights = {shape: 1 + number for number, shape in enumerate(self.shapes)}
        return TypicalVms(weights, self.nodes, snapshot, card_catalog(snapshot), DEFAULT).workload

    def placer(self, policy: str) -> PolicyPlacer:
        snapshot = snapshot_of(ClusterModel(self.published))
        return PolicyPlacer(snapshot, self.nodes, self.policy(policy, snapshot), card_catalog(snapshot))

    def policy(self, name: str, snapshot: Snapshot) -> Policy:
        return policy_named(name, lambda: self.workload(snapshot), Random(1).random)

    def _size(self, placed: PlacedVm) -> int:
        """The number of cards, and 0 for a part of one."""
        devices = [device for result in placed.results for device in result.devices.results]
        parts = {(part.spec.pool.name, device.name): device for part in self.slices for device in part.spec.devices}
        if len(devices) != 1:
            return len(devices)
        published = parts[devices[0].pool, devices[0].device]
        if published.consumes_counters:
            return int(published.consumes_counters[0].counters["m"].value == Quantity("40"))
        share = devices[0].consumed_capacity.get("share")
        return int(share == Quantity("1000") if published.allow_multiple_allocations else True)

    def best_by_node(self, shape: VmShape, policy: str) -> list[tuple[Score, tuple[str, ...]] | None]:
        """By node, the score and the devices of the best offer, from the beginning; None where the VM doesn't fit."""
        model = self.model()
        entries = [{"name": claim.name, "resourceClaimName": "asked"} for claim in shape.claims]
        asked = [claim.with_(metadata=claim.metadata.with_(name="asked", uid="asked")) for claim in shape.claims]
        wire = {**shape.pod.to_wire(), "metadata": {"name": "asking", "namespace": "ns", "uid": "asking"}}
        wanted = fit(Pod.from_wire({**wire, "spec": {**wire["spec"], "resourceClaims": entries}}), model.changed(asked))
        offers: list[tuple[Score, tuple[str, ...]] | None] = []
        for number, node in enumerate(self.nodes):
            refused = number in self.closed or wanted.refusal(wanted.state(node.name)) is not None
            offers.append(None if refused else self._best_offer(shape, number, policy, model))
        return offers

    def _best_offer(
        self, shape: VmShape, number: int, name: str, model: ClusterModel
    ) -> tuple[Score, tuple[str, ...]] | None:
        snapshot = snapshot_of(ClusterModel(model.objects))
        node, catalog, allocator = self.nodes[number], card_catalog(snapshot), Allocator(snapshot, shape.claims)
        policy = self.policy(name, snapshot)
        room = room_of(node, _LISTED)
        for placed in self.running.values():
            if placed.node == number:
                room = room.less(placed.shape.cpu, placed.shape.memory)
                room = room.with_size(self._size(placed), 1) if policy.distinguishes_sizes and placed.results else room
        reachable = allocator.reachable(node)
        cards, state = catalog.of(reachable), catalog.state(reachable, snapshot.used)
        offers: list[tuple[Score, tuple[str, ...]]] = []
        for order in policy.orders(cards.layout, state):
            picks, taken = [], []
            solution = allocator.decide(node, order).solution if shape.claims else None
            for request, position in (pick for picked in solution.picks for pick in picked) if solution else ():
                picks.append(position)
                for part in cards.layout.parts[position]:
                    amount = catalog.taken(request, reachable.devices[position], part)
                    taken += [] if amount is None else [(part.card, amount)]
            offer = Offer.from_picks(cards, state, picks, taken, order)
            score = policy.score(offer, policy.device_score(offer), room, room.less(shape.cpu, shape.memory))
            offers.append((score, tuple(reachable.devices[position].id.device for position in picks)))
        return min(offers, key=lambda offer: offer[0], default=None)


def _changed(random: Random, world: _World, placer: PolicyPlacer) -> None:
    """A VM ends, a node is closed or opened, devices are tainted, or one of them is gone."""
    match random.randrange(8):
        case 0:
            number = random.randrange(len(world.nodes))
            world.closed ^= {number}
            placer.set_open(number, open=number not in world.closed)
        case 1 | 2:
            held = {
                (device.pool, device.device)
                for placed in world.running.values()
                for result in placed.results
                for device in result.devices.results
            }
            pools = [part.spec.pool.name for part in world.slices]
            world.tainted = tuple(random.sample(pools, min(len(pools), random.randrange(2))))
            for position, part in enumerate(world.slices):
                free = [device for device in part.spec.devices if (part.spec.pool.name, device.name) not in held]
                if free and random.random() < 0.3:
                    kept = tuple(device for device in part.spec.devices if device is not free[0])
                    world.slices[position] = part.with_(spec=part.spec.with_(devices=kept))
            snapshot = snapshot_of(ClusterModel(world.published))
            placer.replace_slices(snapshot, card_catalog(snapshot), world.policy(placer.policy.name, snapshot))
        case _ if world.running:
            placer.release(world.running.pop(random.choice(list(world.running))))


@pytest.mark.parametrize("seed", range(sample(12)))
@pytest.mark.parametrize("policy", POLICIES)
def test_a_placer_chooses_what_a_plain_evaluation_chooses(policy: str, seed: int) -> None:
    random = Random(seed)
    nodes = [_node(random, number) for number in range(random.randint(2, 5))]
    world = _World(nodes, [part for node in nodes for part in _slices(random, node.name)])
    placer = world.placer(policy)
    for step in range(40):
        if random.random() < 0.3:
            _changed(random, world, placer)
            continue
        shape = random.choice(world.shapes)
        by_node = world.best_by_node(shape, policy)
        scores = [None if best is None else best[0] for best in by_node]
        best_score = min((score for score in scores if score is not None), default=None)
        best = [number for number, score in enumerate(scores) if score is not None and score == best_score]
        drawn = placer.policy.draw is not None
        of_placer = placer.scores(shape, range(len(nodes)))
        assert [score and score[:-1] if drawn else score for score in of_placer] == scores
        placed = placer.place(shape, f"vm-{step}")
        if placed is None:
            assert best == []
            continue
        assert placed.node in (best if drawn else best[:1])
        devices = tuple(device.device for result in placed.results for device in result.devices.results)
        assert (best_score, devices) == by_node[placed.node]
        world.running[f"vm-{step}"] = placed


def _same_node(nodes: list[int]) -> int:
    """How often a VM is on the node of the VM before."""
    return sum(a == b for a, b in pairwise(nodes))


def _twenty_nodes(devices: int) -> _World:
    nodes = [build.node({"name": f"n{number}", "status": {"allocatable": {"pods": "10000"}}}) for number in range(20)]
    names = [f"d{number}" for number in range(devices)]
    return _World(nodes, [build.slice_({"pool": node.name, "node": node.name, "devices": names}) for node in nodes])


@pytest.mark.parametrize("devices", [0, 128])
def test_random_draws_a_node_for_each_vm(devices: int) -> None:
    """On 20 nodes, one VM in 20 lands on the node of the VM before; bounds of four and a half standard deviations."""
    world = _twenty_nodes(devices)
    placer, wanted, nodes = world.placer("random"), world.shapes[1 if devices else 0], []
    for number in range(2000):
        placed = placer.place(wanted, f"vm-{number}")
        assert placed is not None
        nodes.append(placed.node)
    assert 56 <= _same_node(nodes) <= 144
    assert all(56 <= count <= 144 for count in Counter(nodes).values())
    assert len(Counter(nodes)) == 20


def test_random_draws_among_the_nodes_that_still_fit() -> None:
    """All of 60 devices are given, each node's share of them at any time in the draw's favour only."""
    world = _twenty_nodes(3)
    placer, nodes = world.placer("random"), list[int]()
    for number in range(61):
        placed = placer.place(world.shapes[1], f"vm-{number}")
        assert (placed is None) == (number == 60)
        nodes += [] if placed is None else [placed.node]
    assert Counter(nodes) == dict.fromkeys(range(20), 3)
    assert nodes != sorted(nodes)


def test_random_scores_are_drawn_for_each_question() -> None:
    """The extender asks for scores: the best of them is another node each time."""
    world = _twenty_nodes(3)
    placer, nodes = world.placer("random"), list[int]()
    for _ in range(2000):
        scores = placer.scores(world.shapes[1], range(20))
        nodes.append(min(range(20), key=lambda number: scores[number] or ()))
    assert 56 <= _same_node(nodes) <= 144
    assert all(56 <= count <= 144 for count in Counter(nodes).values())
