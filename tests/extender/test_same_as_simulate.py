"""The extender places pods as ``simulate --nodes-only`` does, while the cluster shows nothing yet of those before."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from devtools.allocator import build
from tests.extender.objects import GPU_CLASS, node
from virt_dra.allocator import DEFAULT
from virt_dra.api.core_v1 import Pod
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.extender.advisor import Advisor
from virt_dra.extender.protocol import ExtenderArguments, best_node
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.policies.catalog import POLICIES
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.model import Arrival, Experiment

PODS = 335
NODES = tuple(f"n{number:02}" for number in range(12))


def _gpus(name: str, number: int) -> ResourceSlice:
    """Four GPUs: of every third node whole ones, of the others shared ones, half of which have an amount."""
    shared = {} if number % 3 == 0 else {"allowMultipleAllocations": True}
    amount = {"capacity": {"share": {"value": "1000"}}} if number % 3 == 1 else {}
    devices = [{"name": f"gpu-{i}", **shared, **amount} for i in range(4)]
    return build.slice_({"name": name, "pool": name, "node": name, "devices": devices, "driver": "gpu.example.com"})


def _claim(name: str, share: str | None) -> ResourceClaim:
    capacity = {} if share is None else {"capacity": {"requests": {"share": share}}}
    made = build.claim({"name": name, "requests": [{"class": GPU_CLASS.name, **capacity}]})
    return made.with_(metadata=made.metadata.with_(namespace="vms"))


def _pod(name: str) -> Pod:
    requests = {"cpu": "100m", "memory": "64Mi"}
    spec = {
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
    }
    return Pod.from_wire({"metadata": {"name": name, "namespace": "vms", "uid": name}, "spec": spec})


_OTHERS: Final = {"random", "clustering"}
"""Policies that draw, or look at the sizes of VMs on a node, which the extender isn't told."""


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - _OTHERS))
def test_extender_and_simulate_agree_on_every_pod(policy: str) -> None:
    random = Random(7)
    shares = [random.choice((None, *("10", "20", "40", "80") * 8)) for _ in range(PODS)]
    pods = [_pod(f"p{number:03}") for number in range(PODS)]
    claims = [_claim(pod.name, share) for pod, share in zip(pods, shares, strict=True)]
    nodes = [node(name) for name in NODES]
    cluster = [GPU_CLASS, *nodes, *[_gpus(name, number) for number, name in enumerate(NODES)]]

    advisor = Advisor(policy, DEFAULT, lambda: 0.0, random.random, seconds=600.0)
    for obj in (*cluster, *claims, *pods):
        advisor.put(obj)
    advisor.prepare()
    advised: dict[str, str] = {}
    for pod in pods:
        advice, _ = advisor.prioritize(ExtenderArguments(pod, NODES))
        best = best_node(NODES, advice.scores or ())
        if best is not None:
            advised[pod.name] = best

    shapes = {share: VmShape(str(share), pods[0], (_claim("gpu", share),)) for share in dict.fromkeys(shares)}
    arrivals = [
        Arrival(float(number), shapes[share], pod.name)
        for number, (pod, share) in enumerate(zip(pods, shares, strict=True))
    ]
    simulation = Simulation(Experiment(ClusterModel(cluster), tuple(nodes), arrivals, nodes_only=True), policy)
    simulation.run()
    assert simulation.placements == advised
    assert len(advised) >= 300
