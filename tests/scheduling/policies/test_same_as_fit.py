"""The placer's answers are those of the fit on the same cluster, whatever was placed, released and closed before."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from devtools.allocator import build
from tests.sampling import sample
from virt_dra.allocator import Snapshot
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.snapshots import snapshot_of
from virt_dra.scheduling.fit import fit
from virt_dra.scheduling.policies.catalog import policy_named
from virt_dra.scheduling.policies.placer import PlacedVm, PolicyPlacer, VmShape, card_catalog

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
APPS = ("a", "b")


def _nodes(random: Random) -> list[Node]:
    nodes = []
    for number in range(random.randint(1, 5)):
        offered: Json = {"cpu": random.choice(("4", "8")), "memory": "16Gi", "pods": random.choice(("3", "110"))}
        if random.random() < 0.5:
            offered["example.com/nic"] = "2"
        spec: Json = {}
        if random.random() < 0.3:
            spec["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
        status: Json = {} if random.random() < 0.1 else {"allocatable": offered}
        labels = {ZONE: random.choice(("z1", "z2"))} if random.random() < 0.9 else {}
        nodes.append(build.node({"name": f"n{number}", "labels": labels, "spec": spec, "status": status}))
    return nodes


def _shape(random: Random, name: str) -> VmShape:
    app = random.choice(APPS)
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": random.choice(APPS)}}}
    spec: Json = {}
    match random.randrange(7):
        case 0:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 1:
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case 2:
            spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**spread, "labelSelector": term["labelSelector"]}]
        case 3:
            spec["nodeSelector"] = {ZONE: "z1"}
    if random.random() < 0.6:
        spec["tolerations"] = [{"operator": "Exists"}]
    requests = {"cpu": random.choice(("0", "1", "3")), "memory": "1Gi"}
    if random.random() < 0.3:
        requests["example.com/nic"] = "1"
    ports = [{"containerPort": 1, "hostPort": 8080}] if random.random() < 0.2 else []
    spec["containers"] = [{"name": "c", "resources": {"requests": requests}, "ports": ports}]
    pod = Pod.from_wire({"metadata": {"name": name, "namespace": "ns", "labels": {"app": app}}, "spec": spec})
    claims = (build.claim({"name": "claim", "requests": [{}]}),) if random.random() < 0.5 else ()
    return VmShape(name, pod, claims)


def _model(nodes: list[Node], published: list[Any], running: dict[str, PlacedVm]) -> ClusterModel:
    """The cluster as it is while these run."""
    objects: list[Any] = [*nodes, *published]
    for name, placed in running.items():
        spec = placed.shape.pod.spec.with_(node_name=nodes[placed.node].name)
        metadata = placed.shape.pod.metadata.with_(name=name, uid=name)
        objects.append(placed.shape.pod.with_(metadata=metadata, spec=spec))
        for claim, result in zip(placed.shape.claims_of(name), placed.results, strict=True):
            objects.append(claim.with_(status=claim.status.with_(allocation=result)))
    return ClusterModel(objects)


def _codes(shape: VmShape, model: ClusterModel, nodes: list[Node]) -> list[str]:
    """By node, the reason code of the fit; "" where the pod fits."""
    claims: list[ResourceClaim] = []
    entries = []
    for claim in shape.claims:
        claims.append(claim.with_(metadata=claim.metadata.with_(namespace="ns", name="asked")))
        entries.append({"name": "c", "resourceClaimName": "asked"})
    wire = shape.pod.to_wire()
    pod = Pod.from_wire({**wire, "spec": {**wire["spec"], "resourceClaims": entries}})
    asked = fit(pod, model.changed(claims))
    refusals = [asked.refusal(asked.state(node.name)) for node in nodes]
    return ["" if refusal is None else refusal.code for refusal in refusals]


@pytest.mark.parametrize("seed", range(sample(60)))
def test_any_sequence_of_starts_and_ends_leaves_the_answers_of_the_fit(seed: int) -> None:
    random = Random(seed)
    nodes = _nodes(random)
    slices = [
        build.slice_({"name": node.name, "pool": node.name, "node": node.name, "devices": ["d0", "d1"]})
        for node in nodes
        if random.random() < 0.8
    ]
    published = [*slices, build.device_class("gpu")]
    snapshot = snapshot_of(ClusterModel(published))
    assert isinstance(snapshot, Snapshot)
    placer = PolicyPlacer(snapshot, nodes, policy_named("pack", lambda: None, random.random), card_catalog(snapshot))  # type: ignore[arg-type, return-value]  # pack expects no workload
    shapes = [_shape(random, f"shape-{number}") for number in range(6)]
    running: dict[str, PlacedVm] = {}
    for step in range(25):
        if running and random.random() < 0.3:
            placer.release(running.pop(random.choice(list(running))))
        else:
            shape = random.choice(shapes)
            fitting = {n for n, code in enumerate(_codes(shape, _model(nodes, published, running), nodes)) if not code}
            placed = placer.place(shape, f"vm-{step}")
            assert (placed is not None) == bool(fitting)
            if placed is not None:
                assert placed.node in fitting
                running[f"vm-{step}"] = placed
        model = _model(nodes, published, running)
        for shape in shapes:
            refusals = [placer.refusal(shape, number) for number in range(len(nodes))]
            codes = _codes(shape, model, nodes)
            assert ["" if refusal is None else refusal.code for refusal in refusals] == codes
            scored = placer.scores(shape, range(len(nodes)))
            assert [score is not None for score in scored] == [not code for code in codes]
