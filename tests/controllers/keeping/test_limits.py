"""The keeper with KeepPolicies that come, change and go: they reach the VMs of their namespace."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import count
from typing import Any

from tests.controllers.keeping.stores import filled_stores
from tests.controllers.operator.ambient import ambient
from virt_dra.api.core_v1 import Node
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.operator.keeper_metrics import KeeperMetrics

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


class Lab:
    """A namespace with stopped VMs, each with a claim that it keeps, and a keeper that runs."""

    def __init__(self) -> None:
        names, uids = count(1), count(1)
        self.cluster = MemoryCluster(lambda: NOW, lambda: f"x{next(names)}", lambda: f"uid-{next(uids)}")
        self.metrics = KeeperMetrics()
        self.loop = KeepingLoop(self.cluster, KeeperSettings(), ambient(lambda: NOW), self.metrics)

    async def stopped_vm(self, name: str, since: str, namespace: str = "lab", devices: int = 1) -> None:
        metadata = {"name": name, "namespace": namespace, "annotations": {"virt-dra.io/keep-devices": "true"}}
        vm = await self.cluster.create(VirtualMachine.from_wire({"metadata": metadata, "spec": {"template": {}}}))
        owner = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": vm.metadata.uid}
        gpu = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": devices}}
        claim = ResourceClaim.from_wire({
            "metadata": {
                "name": f"{name}-gpu", "namespace": namespace, "labels": {"virt-dra.io/kept": "true"},
                "annotations": {"virt-dra.io/stopped-since": since}, "ownerReferences": [{**owner, "controller": True}],
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            },
            "spec": {"devices": {"requests": [gpu]}},
        })  # fmt: skip
        stored = await self.cluster.create(claim)
        results = [
            {"request": "gpu", "driver": "gpu.example.com", "pool": namespace, "device": f"{name}-{number}"}
            for number in range(devices)
        ]
        status = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [
                {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": name, "uid": vm.metadata.uid}
            ],
        }
        await self.cluster.update_status(ResourceClaim.from_wire({**stored.to_wire(), "status": status}))

    async def keeps(self) -> list[str]:
        """The VMs that have devices, once the keeper has nothing to do."""
        for _ in range(3):  # watch events, then the reconciles that they lead to
            await asyncio.sleep(0.02)
            await self.loop.until_idle()
        claims = (await self.cluster.list(ResourceClaim)).items
        return sorted(claim.key.removesuffix("-gpu") for claim in claims if claim.status.allocation is not None)

    async def policy(self, **spec: Any) -> None:
        wire = {"metadata": {"name": "team", "namespace": "lab"}, "spec": spec}
        await self.cluster.create(KeepPolicy.from_wire(wire))


async def test_a_new_policy_releases_what_stopped_last_and_nothing_in_other_namespaces() -> None:
    lab = Lab()
    await lab.cluster.create(Node.from_wire({"metadata": {"name": "node"}}))
    for name, since in (("a", "2026-11-26T09:00:00Z"), ("b", "2026-11-26T08:00:00Z"), ("c", "2026-11-26T10:00:00Z")):
        await lab.stopped_vm(name, since)
    await lab.stopped_vm("d", "2026-11-26T11:00:00Z", namespace="other")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lab.loop.run_informers()), group.create_task(lab.loop.run_workers())]
        assert await lab.keeps() == ["lab/a", "lab/b", "lab/c", "other/d"]
        await lab.policy(devices=2)
        assert await lab.keeps() == ["lab/a", "lab/b", "other/d"]
        await lab.cluster.patch(KeepPolicy, "team", "lab", merge={"spec": {"devices": 1}})
        assert await lab.keeps() == ["lab/b", "other/d"]
        await lab.cluster.delete(KeepPolicy, "team", "lab")
        await lab.stopped_vm("e", "2026-11-26T11:30:00Z")
        assert await lab.keeps() == ["lab/b", "lab/e", "other/d"]
        # Another keeper's clock was behind: who stopped earlier comes first, whenever it is seen.
        await lab.policy(devices=2)
        await lab.stopped_vm("f", "2026-11-26T07:00:00Z")
        assert await lab.keeps() == ["lab/b", "lab/f", "other/d"]
        for task in tasks:
            task.cancel()
    assert 'virt_dra_keeper_releases_total{reason="KeptOverLimit"} 3.0' in lab.metrics.exposition().decode()


async def test_a_vm_that_has_more_than_a_class_may_have_keeps_none_of_it() -> None:
    lab = Lab()
    await lab.stopped_vm("a", "2026-11-26T09:00:00Z", devices=3)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(lab.loop.run_informers()), group.create_task(lab.loop.run_workers())]
        assert await lab.keeps() == ["lab/a"]
        await lab.policy(classes=[{"deviceClassName": "gpu", "devices": 2}])
        assert await lab.keeps() == []
        for task in tasks:
            task.cancel()


async def test_a_mark_of_the_future_counts_from_its_time_on() -> None:
    """Somebody else's clock wrote it, and the keeper hasn't overwritten it: nothing changes, but time passes."""
    lab = Lab()
    await lab.stopped_vm("early", "2026-11-26T11:00:00Z")
    await lab.stopped_vm("late", "2026-11-26T12:30:00Z")
    await lab.policy(devices=1)
    kinds = (VirtualMachine, ResourceClaim, KeepPolicy)
    stores = filled_stores([obj for kind in kinds for obj in (await lab.cluster.list(kind)).items])
    over = {minute: stores.inputs("lab/late", NOW.replace(hour=12, minute=minute)).over for minute in (0, 29, 30, 31)}
    assert over == {
        0: "", 29: "",
        30: (limit := "KeepPolicy team lets stopped VMs keep 1 device; with these they would keep 2"), 31: limit,
    }  # fmt: skip
