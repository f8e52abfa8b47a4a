"""What each policy chooses (cases/choices.yaml)."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from devtools.allocator import build
from virt_dra.allocator import DEFAULT, DeviceUse, Snapshot
from virt_dra.api.core_v1 import Pod
from virt_dra.api.quantity import Quantity
from virt_dra.scheduling.policies.catalog import POLICIES, policy_named
from virt_dra.scheduling.policies.placer import PolicyPlacer, VmShape, card_catalog
from virt_dra.scheduling.policies.typical import TypicalVms

Json = dict[str, Any]
CASES: list[Json] = yaml.safe_load((Path(__file__).parent / "cases" / "choices.yaml").read_text(encoding="utf-8"))
ALL = [(case, policy) for case in CASES for policy in case["want"]]


def shape(given: Json, name: str = "vm") -> VmShape:
    requests = {"cpu": str(given.get("cpu", 0)), "memory": str(given.get("memory", 0))}
    pod = Pod.from_wire(
        {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}
    )
    return VmShape(
        name, pod, (build.claim({"name": "claim", "requests": given["requests"]}),) if "requests" in given else ()
    )


def placer(case: Json, policy: str) -> PolicyPlacer:
    nodes = []
    for node in case["nodes"]:
        amounts = {"cpu": str(node.get("cpu", 64)), "memory": str(node.get("memory", "64Gi")), "pods": "110"}
        nodes.append(build.node({"name": node["name"], "status": {"allocatable": amounts}}))
    slices = []
    for node in case["nodes"]:
        common = {"pool": node["name"], "node": node["name"]}
        if "counters" in node:
            slices.append(
                build.slice_({**common, "name": f"{node['name']}-counters", "counters": node["counters"], "count": 2})
            )
        if node["devices"]:
            count = 2 if "counters" in node else 1
            slices.append(
                build.slice_({**common, "name": f"{node['name']}-devices", "devices": node["devices"], "count": count})
            )
    uses = []
    for number, used in enumerate(case.get("in_use", [])):
        key, share = (used, None) if isinstance(used, str) else next(iter(used.items()))
        pool, _, device = key.partition("/")
        if share is None:
            uses.append(DeviceUse(build.DRIVER, pool, device))
        else:
            uses.append(DeviceUse(build.DRIVER, pool, device, f"share-{number}", {"share": Quantity(share)}))
    snapshot = Snapshot.build(slices, [build.device_class("gpu")]).with_uses(uses)
    catalog = card_catalog(snapshot)
    weights = {shape(entry): entry["weight"] for entry in case.get("typical", [{**case["vm"], "weight": 1}])}
    typical = TypicalVms(weights, nodes, snapshot, catalog, DEFAULT)
    return PolicyPlacer(snapshot, nodes, policy_named(policy, lambda: typical.workload, Random(0).random), catalog)


@pytest.mark.parametrize(("case", "policy"), ALL, ids=[f"{case['name']}: {policy}" for case, policy in ALL])
def test_a_policy_chooses_node_and_devices(case: Json, policy: str) -> None:
    used = placer(case, policy)
    placed = used.place(shape(case["vm"]), "vm")
    assert (
        []
        if placed is None
        else [
            used.nodes[placed.node].name,
            *[device.device for result in placed.results for device in result.devices.results],
        ]
    ) == case["want"][policy]


def test_every_policy_has_a_case() -> None:
    assert {policy for _, policy in ALL} == POLICIES.keys() - {"random"}
