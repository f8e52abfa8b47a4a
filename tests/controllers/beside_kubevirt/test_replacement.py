"""A launcher pod that was made before its driver was known, and that clashes with it, is replaced where KubeVirt makes
another VMI (K-12.10)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.controllers.beside_kubevirt.test_readiness import RECORD, recorded, shim
from tests.controllers.published_world import POD, World
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


KEPT: Final[dict[str, dict[str, Any]]] = {
    "KubeVirt makes no other VMI of this VM": clashing(runStrategy="Once"),
    "the VM is stopped": clashing(runStrategy="Halted"),
    "the VMI is of another VM": clashing(runStrategy="Always")
    | {"vmi.metadata.ownerReferences": [{**OWNER, "uid": "vm-0"}]},
    "there is no VM": {key: value for key, value in clashing().items() if key != "vm"},
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
