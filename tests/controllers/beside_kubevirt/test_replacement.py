"""A launcher pod that was made before its driver was known, and that clashes with it, is replaced where KubeVirt makes
another VMI (K-12.10)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from tests.controllers.beside_kubevirt.test_readiness import RECORD, recorded, shim
from tests.controllers.published_world import NOW, POD, World
from virt_dra.cluster.port import NotFound

OWNER: Final = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "fedora", "controller": True}
WRITES: Final = [{"metadata": {"name": "c", "annotations": {"virt-dra.io/writes-metadata": "gpu.example.com"}}}]


def clashing(**spec: Any) -> dict[str, Any]:
    """A VM's pod, made without knowing the driver, which writes metadata."""
    return {
        "vm": {"metadata": {"name": "fedora", "namespace": "lab", "uid": "vm-1"}, "spec": spec},
        "vmi.metadata.ownerReferences": [{**OWNER, "uid": "vm-1"}],
        "vmi.status": {"phase": "Scheduling"},
        RECORD: recorded(shim()),
        "classes": WRITES,
    }


@pytest.mark.parametrize("spec", [{"runStrategy": "Always"}, {"runStrategy": "RerunOnFailure"}, {"running": True}])
@pytest.mark.parametrize("node", ["node-a", None])
async def test_the_pod_is_deleted_and_the_vm_says_so(spec: dict[str, Any], node: str | None) -> None:
    world = World.with_changes(clashing(**spec) | ({} if node else {"pod.spec.nodeName": None}))
    events = (await world.reconcile()).events
    with pytest.raises(NotFound):
        await world.pod()
    (said,) = [event for event in events if event.reason == "PodReplaced"]
    assert (said.regarding.kind, said.regarding.name, said.type) == ("VirtualMachine", "fedora", "Normal")
    assert said.message == (
        f"pod {POD} is deleted, so that KubeVirt makes another: it was made before the driver of gpus/g0 was known, "
        "which mounts a metadata file of its own"
    )


REPLICA_SET: Final = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstanceReplicaSet",
    "name": "fedoras",
    "uid": "rs-1",
    "controller": True,
}


def replica(created: str, **owner: str) -> dict[str, Any]:
    """A replica's pod, made then without knowing the driver, which writes metadata."""
    return {
        **{key: value for key, value in clashing().items() if key != "vm"},
        "vmi.metadata.ownerReferences": [REPLICA_SET | owner],
        "pod.metadata.creationTimestamp": created,
    }


async def test_the_pod_of_a_replica_is_deleted_and_the_vmi_says_so() -> None:
    world = World.with_changes(replica("2026-11-21T08:59:30Z"))
    (said,) = [event for event in (await world.reconcile()).events if event.reason == "PodReplaced"]
    with pytest.raises(NotFound):
        await world.pod()
    assert (said.regarding.kind, said.regarding.name, said.type) == ("VirtualMachineInstance", "fedora", "Normal")


async def test_pods_of_a_replica_set_are_not_replaced_in_a_tight_loop() -> None:
    """It makes the next VMI at once, and that one's pod may be made in the same way."""
    world = World.with_changes(replica("2026-11-21T08:59:31Z"))
    reconciled = await world.reconcile()
    assert (await world.pod()).name == POD
    assert [event for event in reconciled.events if event.reason == "PodReplaced"] == []
    assert reconciled.requeue_at == NOW + timedelta(seconds=1)


KEPT: Final[dict[str, dict[str, Any]]] = {
    "KubeVirt makes no other VMI of this VM": clashing(runStrategy="Once"),
    "the VM is stopped": clashing(runStrategy="Halted"),
    "the VMI is of another VM": clashing(runStrategy="Always")
    | {"vmi.metadata.ownerReferences": [{**OWNER, "uid": "vm-0"}]},
    "there is no VM": {key: value for key, value in clashing().items() if key != "vm"},
    "the owner is nothing of KubeVirt's": replica("2026-11-21T08:00:00Z", apiVersion="example.com/v1"),
    "the replica set doesn't manage the VMI": replica("2026-11-21T08:00:00Z")
    | {"vmi.metadata.ownerReferences": [REPLICA_SET | {"controller": False}]},
    "the user asked for this path": clashing(runStrategy="Always") | {RECORD: recorded(shim(reason="AskedFor"))},
    "other drivers were known": clashing(runStrategy="Always")
    | {RECORD: recorded(shim(reason="DriverWritesNoMetadata"))},
    "KubeVirt 1.8.0 looks elsewhere": clashing(runStrategy="Always")
    | {RECORD: recorded(shim(layout="KubeVirt-1.8.0"))},
    "the driver writes nothing": clashing(runStrategy="Always") | {"classes": []},
    "the container runs": clashing(runStrategy="Always") | {"pod.status.phase": "Running"},
    "the pod is going": clashing(runStrategy="Always") | {"pod.metadata.deletionTimestamp": "2026-11-21T08:59:00Z"},
    "nothing is allocated yet": clashing(runStrategy="Always") | {"claims.0.status": {}},
}


@pytest.mark.parametrize("case", KEPT)
async def test_any_other_pod_stays(case: str) -> None:
    world = World.with_changes(KEPT[case])
    events = (await world.reconcile()).events
    assert (await world.pod()).name == POD
    assert [event for event in events if event.reason == "PodReplaced"] == []
