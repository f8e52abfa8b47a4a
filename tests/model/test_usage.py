"""Who holds a device, since when, and what of that isn't known."""

from __future__ import annotations

import pytest

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.unknown import unknown_facts
from virt_dra.model.usage import DeviceHolder, holders

CREATED, STARTED, ALLOCATED = (f"2026-01-0{day}T00:00:00Z" for day in (1, 2, 3))
RESULT: Json = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}


def holder(allocation: Json, *users: Json, created: str | None = CREATED, pod: Json | None = None) -> DeviceHolder:
    meta = {"name": "c", "namespace": "t", "creationTimestamp": created}
    status = {"allocation": {"devices": {"results": [RESULT]}, **allocation}, "reservedFor": list(users)}
    objects: list[ResourceClaim | Pod] = [ResourceClaim.from_wire({"metadata": meta, "status": status})]
    if pod is not None:
        objects.append(Pod.from_wire(pod))
    ((id, (holder,)),) = holders(ClusterModel(objects)).items()
    assert id == DeviceId("d", "p", "gpu-0")
    return holder


def launcher(uid: str = "u", **status: str) -> Json:
    owners = [{"kind": "VirtualMachineInstance", "name": "vm", "controller": True}]
    meta = {"name": "pod", "namespace": "t", "uid": uid, "ownerReferences": owners}
    return {"metadata": meta, "spec": {"nodeName": "node-1"}, "status": status}


USER: Json = {"resource": "pods", "name": "pod", "uid": "u"}


@pytest.mark.parametrize(
    ("allocation", "pod", "created", "since"),
    [
        ({"allocationTimestamp": ALLOCATED}, launcher(startTime=STARTED), CREATED, ALLOCATED),
        ({}, launcher(startTime=STARTED), CREATED, STARTED),
        ({}, launcher(), CREATED, CREATED),
        ({}, None, CREATED, CREATED),
        ({}, launcher("another", startTime=STARTED), CREATED, CREATED),
        ({}, None, None, ""),
    ],
    ids=["allocation", "pod's start", "pod without a start", "no pod", "a later pod of the name", "nothing"],
)
def test_since_is_the_first_time_that_is_known(
    allocation: Json, pod: Json | None, created: str | None, since: str
) -> None:
    assert holder(allocation, USER, created=created, pod=pod).since == since


def test_a_holder_is_called_by_its_vm_else_its_only_pod_else_its_claim() -> None:
    assert holder({}, USER, pod=launcher()).description == f"VM t/vm (claim c) since {CREATED}"
    assert holder({}, USER).description == f"pod t/pod (claim c) since {CREATED}"
    assert holder({}, USER, {**USER, "name": "other"}).description == f"claim t/c since {CREATED}"
    assert holder({}, {**USER, "name": "virt-launcher-vm-7k2px"}, created=None).description == "VM t/vm (claim c)"
    assert holder({}, created=None).description == "claim t/c"


def test_what_is_not_known_is_said_once_and_for_all() -> None:
    sized, bare = (
        Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": offered}})
        for name, offered in (("sized", {"cpu": "4"}), ("bare", {}))
    )
    facts = {
        (fact.code, fact.subject): fact.text
        for model in (
            ClusterModel([sized, bare]),
            ClusterModel([bare]),
            ClusterModel([bare], unread=[Node], partial=[Pod]),
        )
        for fact in unknown_facts(model, ["cpu", "example.com/gpu"])
    }
    assert facts == {
        ("RoomNotKnown", "bare"): "status.allocatable of the nodes isn't given: whether there is room isn't checked",
        ("ResourceNotListed", "example.com/gpu"): "no node lists example.com/gpu: whether there is any isn't checked",
        (
            "NodesNotGiven",
            "Node",
        ): "Nodes aren't given or readable: those that ResourceSlices name, or a single one, "
        "are assumed, with room for all and without taints",
        ("PodsNotGiven", "Pod"): "Pods aren't given or readable: the room that they use and who runs beside whom "
        "isn't known",
    }
    assert unknown_facts(ClusterModel([sized]), ["cpu"]) == ()


def test_a_stopped_vm_that_keeps_a_device_is_its_holder() -> None:
    """Kept devices, P-1: while the VM runs, its pod is the user as of any other VM."""
    keeper: Json = {"apiGroup": "kubevirt.io", "resource": "virtualmachines", "name": "vm", "uid": "vm-1"}
    stopped, running = holder({}, keeper), holder({}, keeper, USER, pod=launcher())
    assert (stopped.user, str(stopped), stopped.kept_by, stopped.vm) == ("VM t/vm", "VM t/vm (stopped)", "vm", "vm")
    assert stopped.description == f"VM t/vm (claim c) since {CREATED}, kept while the VM is stopped"
    assert (str(running), running.kept_by) == ("VM t/vm", "")
    assert [user.resource for user in running.users] == ["pods"]
