"""A migrating VMI beside KubeVirt: the target pod's devices are told separately until that pod is the current one
(K-10.3, K-10.5)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from typing import Any

import pytest

from tests.controllers.published_world import BASE, CLAIM, POD, World
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json

TARGET = "virt-launcher-fedora-new"


def target_pod(node: str | None = "node-b", claim: str = "target-gpus", **metadata: Any) -> Json:
    pod: Json = deepcopy(BASE["pod"])
    pod["metadata"] |= {"name": TARGET, "uid": "pod-2", "creationTimestamp": "2026-11-21T08:30:00Z", **metadata}
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "kubevirt.io/migrationJobUID": "job-1"}
    pod["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"} | (
        {"nodeName": node} if node else {}
    )
    pod["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": claim}]
    return pod


def migrating(**changes: Any) -> dict[str, Any]:
    claim = deepcopy(BASE["claims"][0])
    claim["metadata"] |= {"name": "target-gpus", "uid": "claim-2"}
    claim["metadata"]["ownerReferences"][0] |= {"name": TARGET, "uid": "pod-2"}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": TARGET, "uid": "pod-2"}]
    claim["status"]["allocation"]["devices"]["results"][0] |= {"pool": "node-b", "device": "d5"}
    published = deepcopy(BASE["slices"][0])
    published["metadata"]["name"] = "node-b-gpus"
    published["spec"] |= {"nodeName": "node-b", "pool": {"name": "node-b", "generation": 1, "resourceSliceCount": 1}}
    published["spec"]["devices"] = [
        {"name": "d5", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:0a:00.0"}}}
    ]
    running = {"phase": "Running", "nodeName": "node-a"}
    return {"vmi.status": running, "pod2": target_pod(), "claims.1": claim, "slices.1": published, **changes}


async def run(life: Callable[[World], Awaitable[None]], changes: dict[str, Any]) -> None:
    await _lived(life, World.with_changes(changes))


async def _lived(life: Callable[[World], Awaitable[None]], world: World) -> None:
    await life(world)


TARGETS: Json = {
    "name": "g0", "kind": "gpus", "claimName": "gpus", "requestName": "gpu", "integrationPath": "native",
    "resourceClaimName": "target-gpus",
    "driver": "gpu.example.com", "pool": "node-b", "device": "d5", "pciAddress": "0000:0a:00.0", "state": "Resolved",
}  # fmt: skip


async def test_source_and_target_are_told_separately_until_the_target_is_the_current_pod() -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        assert (status["podName"], status["nodeName"], status["devices"][0]["pciAddress"]) == (
            POD,
            "node-a",
            "0000:01:00.0",
        )
        assert status["migrationTarget"] == {
            "podName": TARGET, "podUID": "pod-2", "nodeName": "node-b", "ready": "1/1", "devices": [TARGETS],
        }  # fmt: skip
        annotated = json.loads((await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION])
        assert annotated["gpuStatuses"][0]["deviceResourceClaimStatus"]["name"] == "d0"
        version = world.memory.resource_version
        assert await world.told() == []
        assert world.memory.resource_version == version

        # It arrives; its claim is gone before anybody looked, and it keeps what it was started with.
        vmi = await world.vmi()
        await world.memory.update(vmi.with_(status=vmi.status.with_(node_name="node-b")))
        await world.memory.delete(ResourceClaim, "target-gpus", "lab")
        assert [reason for _, reason, _ in await world.told()] == ["ClaimMissing"]
        status = await world.status()
        arrived = {key: value for key, value in status["devices"][0].items() if key not in ("reason", "message")}
        assert (status["podName"], status["nodeName"], arrived, "migrationTarget" in status) == (
            TARGET,
            "node-b",
            TARGETS,
            False,
        )
        annotated = json.loads((await world.vmi()).metadata.annotations[DEVICE_STATUS_ANNOTATION])
        assert annotated["gpuStatuses"][0]["deviceResourceClaimStatus"]["name"] == "d5"

    await run(life, migrating())


@pytest.mark.parametrize("end", ["Failed", "Succeeded", "deleted"])
async def test_a_migration_that_comes_to_nothing_leaves_the_source_as_it_was(end: str) -> None:
    async def life(world: World) -> None:
        await world.reconcile()
        before = await world.status()
        if end == "deleted":
            await world.memory.delete(Pod, TARGET, "lab")
        else:
            await world.memory.patch(Pod, TARGET, "lab", merge={"status": {"phase": end}}, subresource="status")
        assert await world.told() == []
        assert await world.status() == {key: value for key, value in before.items() if key != "migrationTarget"}

    await run(life, migrating())


@pytest.mark.parametrize(
    ("changes", "ready", "state", "reason", "told"),
    [
        pytest.param({"pod2": target_pod(node=None), "claims.1.status": None}, "0/1", "Pending", "NotAllocated", [],
            id="no node yet"),
        pytest.param(
            {"pod2": target_pod(claim=CLAIM)}, "0/1", "Error", "ClaimForeign",
            [(
                "ClaimForeign",
                f"migration target {TARGET}: gpus/g0: ResourceClaim lab/{CLAIM} was not "
f"created for Pod lab/{TARGET} (Pod is not owner); "
                "the status of the pod is stale or the claim was replaced: recreate the pod",
            )],
            id="the source's claim",
        ),
    ],
)  # fmt: skip
async def test_what_the_target_lacks_is_its_own_matter(
    changes: dict[str, Any], ready: str, state: str, reason: str, told: list[tuple[str, str]]
) -> None:
    async def life(world: World) -> None:
        events = await world.told()
        assert [(reason, message) for _, reason, message in events if reason != "DevicesResolved"] == told
        status = await world.status()
        (device,) = status["migrationTarget"]["devices"]
        assert (status["ready"], status["migrationTarget"]["ready"]) == ("1/1", ready)
        assert (device["state"], device["reason"]) == (state, reason)
        assert (await world.conditions())["DevicesResolved"] == ("True", "AllDevicesResolved")
        assert await world.told() == []

    await run(life, migrating(**changes))


async def test_a_direct_claim_must_fit_both_nodes() -> None:
    """K-10.3: one claim, two pods; the device is where it is."""
    entry = {"name": "gpus", "resourceClaimName": CLAIM}
    pod = target_pod()
    pod["spec"]["resourceClaims"] = [entry]
    pod["status"] = {"phase": "Pending"}
    direct = {
        "vmi.spec.resourceClaims": [entry], "pod.spec.resourceClaims": [entry],
        "pod.status.resourceClaimStatuses": None, "pod2": pod,
    }  # fmt: skip

    async def waits(world: World) -> None:
        await world.reconcile()
        (device,) = (await world.status())["migrationTarget"]["devices"]
        assert (device["state"], device["reason"]) == ("Pending", "NotReserved")

    async def elsewhere(world: World) -> None:
        await world.reconcile()
        (device,) = (await world.status())["migrationTarget"]["devices"]
        assert (device["state"], device["reason"]) == ("Error", "NodeMismatch")

    async def everywhere(world: World) -> None:
        await world.reconcile()
        status = await world.status()
        assert (status["ready"], status["migrationTarget"]["ready"]) == ("1/1", "1/1")

    both = [{"resource": "pods", "name": name, "uid": uid} for name, uid in ((POD, "pod-1"), (TARGET, "pod-2"))]
    await run(waits, migrating(**direct))
    await run(elsewhere, migrating(**direct, **{"claims.0.status.reservedFor": both}))
    shared = {"slices.0.spec.nodeName": None, "slices.0.spec.allNodes": True}
    await run(everywhere, migrating(**direct, **shared, **{"claims.0.status.reservedFor": both}))


async def test_of_two_targets_the_newest_counts_and_one_that_goes_does_not() -> None:
    older = target_pod(node="node-a", name="older", uid="pod-3", creationTimestamp="2026-11-21T08:10:00Z")
    going = target_pod(name="going", uid="pod-4", creationTimestamp="2026-11-21T08:50:00Z",
        deletionTimestamp="2026-11-21T08:55:00Z",
                       finalizers=["x.example.com/y"])  # fmt: skip

    async def life(world: World) -> None:
        older["spec"]["nodeName"] = "node-c"
        world.memory.load([Pod.from_wire(older), Pod.from_wire(going)])
        await world.reconcile()
        assert (await world.status())["migrationTarget"]["podName"] == TARGET

    await run(life, migrating())
