"""Claims that wait for their pod's node get the volume that a plain reading of the rules gives them, and a node costs
no more with the volumes of other nodes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sampling import sample
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.policies.node_selection import NodeMatcher
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.scheduling.filters.volume_binding import KnownVolumes, VolumeBinding
from virt_dra.scheduling.framework.node_table import NodeState
from virt_dra.scheduling.framework.plugin import PluginAttempt

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
LOCAL = StorageClass.from_wire({
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
})  # fmt: skip


def node(number: int) -> Node:
    labels = {HOST: f"n{number}", ZONE: "ab"[number % 2]}
    return Node.from_wire({"metadata": {"name": f"n{number}", "labels": labels}})


def volume(number: int, size: int, terms: list[dict[str, Any]] | None, **spec: Any) -> PersistentVolume:
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    return PersistentVolume.from_wire({
        "metadata": {"name": f"pv-{number}", "uid": f"pv-{number}"},
        "spec": {
            "capacity": {"storage": f"{size}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            **affinity,
            **spec,
        },
        "status": {"phase": "Available"},
    })  # fmt: skip


def claim(name: str, size: int) -> PersistentVolumeClaim:
    return PersistentVolumeClaim.from_wire({
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{size}Gi"}},
        },
    })  # fmt: skip


def at(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def attempt(claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume]) -> PluginAttempt:
    pod = Pod.from_wire({
        "metadata": {"name": "pod", "namespace": "team"},
        "spec": {
            "volumes": [{"name": c.name, "persistentVolumeClaim": {"claimName": c.name}} for c in claims],
        },
    })  # fmt: skip
    of_cluster = KnownVolumes(
        {c.key: c for c in claims},
        {v.name: v for v in volumes},
        {"local": LOCAL},
        lambda name: volumes if name == "local" else (),
    )
    made = VolumeBinding(of_cluster).attempt(pod)
    assert isinstance(made, PluginAttempt)
    return made


def fits_plainly(claims: list[PersistentVolumeClaim], volumes: list[PersistentVolume], place: Node) -> bool:
    """Claims by size, each with the smallest volume that is left: kube-scheduler's rule, volume by volume."""
    taken: set[str] = set()
    for wanted in sorted(claims, key=lambda c: c.spec.resources.requests["storage"]):
        size = wanted.spec.resources.requests["storage"]
        large = [v for v in volumes if v.spec.capacity["storage"] >= size and v.name not in taken]
        named = [v for v in large if v.spec.claim_ref is not None and v.spec.claim_ref.name == wanted.name]
        free = [v for v in large if v.spec.claim_ref is None and admits(v, place)]
        free.sort(key=lambda v: v.spec.capacity["storage"])
        if named and not admits(named[0], place):
            return False
        best = next(iter(named or free), None)
        if best is None:
            return False
        taken.add(best.name)
    return True


def admits(of: PersistentVolume, place: Node) -> bool:
    affinity = of.spec.node_affinity
    return affinity is None or affinity.required is None or NodeMatcher(affinity.required).matches(place)


TERMS: tuple[list[dict[str, Any]] | None, ...] = (
    None,
    [at(HOST, "n0")],
    [at(HOST, "n1"), at(HOST, "n2")],
    [at(ZONE, "a")],
    [at(ZONE, "b", "a")],
    [at(HOST, "n3"), {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}],
    [{"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": ["n0"]}]}],
    [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}],
    [{"matchExpressions": [*at(ZONE, "a")["matchExpressions"], *at(HOST, "n2")["matchExpressions"]]}],
)


@pytest.mark.parametrize("seed", range(sample(200)))
def test_claims_get_what_a_plain_reading_of_the_rules_gives_them(seed: int) -> None:
    dice = random.Random(seed)
    claims = [claim(f"c{number}", dice.randint(1, 4)) for number in range(dice.randint(1, 3))]
    names = dice.sample([c.name for c in claims] + ["other"], 2)
    volumes = [
        volume(number, dice.randint(1, 5), dice.choice(TERMS), **reference)
        for number in range(dice.randint(1, 6))
        for reference in [
            {"claimRef": {"namespace": "team", "name": names[number]}} if number < dice.choice((0, 2)) else {}
        ]
    ]
    asked = attempt(claims, volumes)
    for number in range(4):
        refusal = asked.filter(NodeState(node(number)))
        assert (refusal is None) == fits_plainly(claims, volumes, node(number)), f"{volumes}\n{claims}\n{number}"


def test_a_node_costs_no_more_with_the_disks_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    volumes = [volume(number, 10, [at(HOST, f"n{number % 500}")]) for number in range(2_000)]
    asked = attempt([claim("c", 20), claim("d", 5)], [*volumes, volume(9_999, 30, [at(HOST, "n7")])])
    tried: list[str] = []
    matches = NodeMatcher.matches

    def counted(self: NodeMatcher, place: Node) -> bool:
        tried.append(place.name)
        return matches(self, place)

    monkeypatch.setattr(NodeMatcher, "matches", counted)
    fitting = [number for number in range(500) if asked.filter(NodeState(node(number))) is None]
    assert fitting == [7]
    assert len(tried) < 3 * 500
