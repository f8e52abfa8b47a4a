"""What is found on one node stands for others only where searching them finds the same: random clusters, judged
together and one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sampling import sample
from tests.simulator.explaining.clusters import NAMESPACE, claim, gpu, node, objects, pod, user
from virt_dra.allocator import Explanation
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.model.feeds.files import placeable_model
from virt_dra.scheduling.dynamic_resources.pod_devices import PodDevices
from virt_dra.scheduling.why.judging import judged
from virt_dra.simulator.explaining.state import ClusterState, Wish
from virt_dra.simulator.explaining.subject import find_subject

MODELS = ("H100", "L40S")
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}


def _device(chance: random.Random, name: str) -> dict[str, Any]:
    taints = {"taints": [TAINT]} if chance.random() < 0.15 else {}
    device = gpu(name, chance.choice(MODELS), root=f"pci0000:{chance.randrange(2)}", **taints)
    device["attributes"]["uuid"] = {"string": f"{chance.getrandbits(64):x}"}
    if chance.random() < 0.1:
        del device["attributes"]["model"]
    return device


def _cluster(chance: random.Random) -> list[Any]:
    """Few kinds of nodes, so that many are alike; and a pod that wants more than most have."""
    kinds = [[_device(chance, f"gpu-{number}") for number in range(chance.randrange(1, 4))] for _ in range(3)]
    parts: list[Any] = []
    for number in range(12):
        devices = [
            {**kind, "attributes": {**kind["attributes"], "uuid": {"string": f"u{number}"}}}
            for kind in chance.choice(kinds)
        ]
        name = f"node-{number}"
        parts.append(node(name, devices, memory=chance.choice(("64Gi", "2Gi"))))
        held = [device["name"] for device in devices if chance.random() < 0.4]
        if held:
            parts.append(user(f"user-{number}", name, *held, memory="1Gi"))
    selectors = chance.choice(((), ('device.attributes["gpu.example.com"].?model.orValue("") == "H100"',)))
    constraints = chance.choice(((), ({"matchAttribute": "resource.kubernetes.io/pcieRoot"},)))
    wanted = claim("wanted", count=chance.randrange(1, 4), selectors=selectors, constraints=constraints)
    return objects(*parts, wanted, pod("late", ["wanted"]))


def _wish(objects: list[TypedObject]) -> Wish:
    wish = find_subject("pod", "late", NAMESPACE, placeable_model(objects)).wish
    assert wish is not None
    return wish


@pytest.mark.parametrize("seed", range(sample(60)))
def test_nodes_judged_together_are_judged_as_each_alone(seed: int) -> None:
    objects = _cluster(random.Random(seed))
    state = ClusterState.from_objects(objects)
    wish, names = _wish(objects), sorted(state.nodes)
    assert list(judged(state.fit(wish), names)) == [next(iter(judged(state.fit(wish), [name]))) for name in names]


def test_nodes_that_are_alike_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    explain = PodDevices.explain

    def counted(devices: PodDevices, node: Node) -> Explanation:
        searched.append(node.name)
        return explain(devices, node)

    monkeypatch.setattr(PodDevices, "explain", counted)
    nodes = [node(f"node-{number:02}", [gpu("gpu-0"), gpu("gpu-1", "L40S")]) for number in range(50)]
    selector = 'device.attributes["gpu.example.com"].model == "H200"'
    dump = objects(
        *nodes, user("user", "node-07", "gpu-0"), claim("wanted", selectors=(selector,)), pod("late", ["wanted"])
    )
    state = ClusterState.from_objects(dump)
    misses = [node.blocking for node in state.judged(state.fit(_wish(dump)))]
    assert searched == ["node-00", "node-07"]
    assert [[str(miss.device) for miss in request.devices] for request in misses[:2] if request is not None] == [
        ["gpu.example.com/node-00/gpu-0", "gpu.example.com/node-00/gpu-1"],
        ["gpu.example.com/node-01/gpu-0", "gpu.example.com/node-01/gpu-1"],
    ]
