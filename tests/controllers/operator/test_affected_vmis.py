"""Sources over informers' stores answer as lists do, and say every VMI that a change concerns, and hardly any other."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.controllers.operator.watched_stores import Stores
from tests.sampling import sample
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.controllers.beside_kubevirt import publication as device_publication
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.devices import inputs as device_inputs
from virt_dra.controllers.operator.affected_vmis import affected_by_vm
from virt_dra.controllers.sources import Sources
from virt_dra.controllers.writes import Create, Update

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
DRIVERS = ("gpu.example.com", "nic.example.com")


def vmi(number: int, **status: Any) -> VirtualMachineInstance:
    return VirtualMachineInstance.from_wire({
        "metadata": {"name": f"vm{number}", "namespace": "lab", "uid": f"uid-{number}"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": f"claim{number}"}],
                 "domain": {"devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": "r"}]}}},
        "status": status,
    })  # fmt: skip


def pod(number: int, node: str | None, claim: int | None = None) -> Pod:
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": f"vm{number}",
        "uid": f"uid-{number}",
        "controller": True,
    }
    spec: Json = {"resourceClaims": [{"name": "c", "resourceClaimName": f"claim{number if claim is None else claim}"}]}
    pair = {"claim": "c", "request": "r", "path": "metadata-shim", "layout": "KEP-5304"}
    return Pod.from_wire({
        "metadata": {"name": f"pod{number}", "namespace": "lab", "uid": f"pod-{number}", "ownerReferences": [owner],
                     "annotations": {"virt-dra.io/integration": json.dumps({"format": 1, "pairs": [pair]})}},
        "spec": spec | ({"nodeName": node} if node else {}), "status": {"phase": "Pending"},
    })  # fmt: skip


def claim(number: int, *devices: tuple[str, str, str], reserved: bool = True) -> ResourceClaim:
    results = [{"request": "r", "driver": driver, "pool": pool, "device": device} for driver, pool, device in devices]
    status: Json = {"allocation": {"devices": {"results": results}}} if devices else {}
    if reserved:
        status["reservedFor"] = [{"resource": "pods", "name": f"pod{number}", "uid": f"pod-{number}"}]
    return ResourceClaim.from_wire(
        {"metadata": {"name": f"claim{number}", "namespace": "lab", "uid": f"claim-{number}"}, "status": status}
    )


def slice_of(
    name: str, driver: str, pool: str, generation: int, devices: dict[str, str], count: int = 1
) -> ResourceSlice:
    listed = [
        {"name": device, "attributes": {"pciAddress": {"string": address}}} for device, address in devices.items()
    ]
    told = {"name": pool, "generation": generation, "resourceSliceCount": count}
    return ResourceSlice.from_wire(
        {"metadata": {"name": name}, "spec": {"driver": driver, "pool": told, "nodeName": pool, "devices": listed}}
    )


def rule(name: str, **selector: str) -> DeviceTaintRule:
    spec = {"deviceSelector": selector, "taint": {"key": "k", "effect": "NoExecute"}}
    return DeviceTaintRule.from_wire({"metadata": {"name": name}, "spec": spec})


def device_class(name: str, *writers: str) -> DeviceClass:
    annotations = {"virt-dra.io/writes-metadata": ",".join(writers)} if writers else {}
    return DeviceClass.from_wire({"metadata": {"name": name, "annotations": annotations}})


def devices_of(stores: Stores, key: str) -> VirtualMachineInstanceDevices | None:
    """What would be published of a VMI now."""
    inputs = device_inputs.gather(stores.sources, key, NOW)
    made = device_publication.plan(inputs).actions if inputs is not None else ()
    written = next((action.obj for action in made if isinstance(action, Create | Update)), None)
    return written if isinstance(written, VirtualMachineInstanceDevices) else None


# --- everything, at random ---


def random_object(chance: random.Random, stores: Stores) -> tuple[type[TypedObject], str, str, TypedObject | None]:
    """A kind, name, namespace, and what shall stand there."""
    number, other = chance.randrange(4), chance.randrange(4)
    device = (chance.choice(DRIVERS), chance.choice("ab"), f"d{chance.randrange(3)}")
    gone = chance.random() < 0.2
    match chance.randrange(7):
        case 0:
            phase = chance.choice([{}, {"phase": "Running"}, {"phase": "Failed"}])
            return VirtualMachineInstance, f"vm{number}", "lab", None if gone else vmi(number, **phase)
        case 1:
            return Pod, f"pod{number}", "lab", None if gone else pod(number, chance.choice(["a", "b", None]), other)
        case 2:
            taken = [device] if chance.random() < 0.8 else []
            return (
                ResourceClaim,
                f"claim{number}",
                "lab",
                None if gone else claim(number, *taken, reserved=chance.random() < 0.8),
            )
        case 3:
            name = f"slice{chance.randrange(4)}"
            listed = {f"d{n}": f"0000:0{chance.randrange(3)}:00.0" for n in range(chance.randrange(4))}
            return (
                ResourceSlice,
                name,
                "",
                None if gone else slice_of(name, *device[:2], chance.randrange(2), listed, chance.randrange(1, 3)),
            )
        case 4:
            selector = dict(zip(("driver", "pool", "device"), device, strict=True))
            kept = {key: value for key, value in selector.items() if chance.random() < 0.6}
            return DeviceTaintRule, f"rule{number % 2}", "", None if gone else rule(f"rule{number % 2}", **kept)
        case 5:
            name = f"class{number % 2}"
            writers = [driver for driver in DRIVERS if chance.random() < 0.5]
            return DeviceClass, name, "", None if gone else device_class(name, *writers)
        case _:
            made = devices_of(stores, f"lab/vm{number}")
            return VirtualMachineInstanceDevices, f"vm{number}", "lab", None if gone else made


@pytest.mark.parametrize("seed", range(sample(10)))
def test_every_vmi_whose_plan_may_change_is_among_the_affected(seed: int) -> None:
    chance, stores = random.Random(seed), Stores()
    keys = [f"lab/vm{number}" for number in range(4)]

    def planned(sources: Sources) -> dict[str, beside_kubevirt.BesideKubevirtPlan | None]:
        inputs = {key: device_inputs.gather(sources, key, NOW) for key in keys}
        return {key: None if input_ is None else beside_kubevirt.plan(input_) for key, input_ in inputs.items()}

    before = planned(stores.sources)
    for _ in range(100):
        affected = stores.change(*random_object(chance, stores))
        after = planned(stores.sources)
        assert {key for key in keys if before[key] != after[key]} <= affected
        assert after == planned(stores.listed())
        before = after


# --- hardly any other ---


def two_vms() -> Stores:
    stores = Stores()
    for number, node in ((0, "a"), (1, "b")):
        stores.put(vmi(number), pod(number, node), claim(number, (DRIVERS[0], node, "d0")))
        stores.put(slice_of(f"slice-{node}", DRIVERS[0], node, 1, {"d0": "0000:01:00.0", "d1": "0000:02:00.0"}))
    return stores


def test_a_slice_concerns_those_whose_device_it_has() -> None:
    stores = two_vms()
    slice_a = stores.by_kind[ResourceSlice].get("slice-a")
    other_address = slice_of("slice-a", DRIVERS[0], "a", 1, {"d0": "0000:01:00.0", "d1": "0000:09:00.0"})
    assert stores.change(ResourceSlice, "slice-a", "", other_address) == set()
    new_generation = slice_of("slice-a", DRIVERS[0], "a", 2, {"d0": "0000:01:00.0"})
    assert stores.change(ResourceSlice, "slice-a", "", new_generation) == {"lab/vm0"}
    assert stores.change(ResourceSlice, "slice-a", "", None) == {"lab/vm0"}
    assert stores.change(ResourceSlice, "slice-a", "", slice_a) == {"lab/vm0"}
    moved = slice_of("slice-a", DRIVERS[0], "b", 1, {"d0": "0000:01:00.0"})
    assert stores.change(ResourceSlice, "slice-a", "", moved) == {"lab/vm0", "lab/vm1"}


def test_a_rule_concerns_those_whose_device_it_selects() -> None:
    stores = two_vms()
    assert stores.change(DeviceTaintRule, "r", "", rule("r", driver=DRIVERS[0], pool="a")) == {"lab/vm0"}
    assert stores.change(DeviceTaintRule, "r", "", rule("r", pool="b", device="d0")) == {
        "lab/vm0",
        "lab/vm1",
    }  # the old one is undone
    assert stores.change(DeviceTaintRule, "s", "", rule("s", device="d1")) == set()
    assert stores.change(DeviceTaintRule, "t", "", rule("t", driver=DRIVERS[1])) == set()
    assert stores.change(DeviceTaintRule, "u", "", rule("u")) == {"lab/vm0", "lab/vm1"}


def test_a_driver_that_writes_metadata_concerns_those_that_have_its_devices() -> None:
    stores = two_vms()
    assert stores.change(DeviceClass, "c", "", device_class("c", DRIVERS[1])) == set()
    assert stores.change(DeviceClass, "c", "", device_class("c", *DRIVERS)) == {"lab/vm0", "lab/vm1"}
    assert stores.change(DeviceClass, "d", "", device_class("d", DRIVERS[0])) == set()
    assert stores.change(DeviceClass, "c", "", None) == set()
    assert stores.change(DeviceClass, "d", "", device_class("d")) == {"lab/vm0", "lab/vm1"}


def test_a_claim_concerns_its_pods_vmi_unless_nothing_that_is_read_changed() -> None:
    stores = two_vms()
    stored = stores.by_kind[ResourceClaim].get("claim0", "lab")
    assert stored is not None
    assert (
        stores.change(ResourceClaim, "claim0", "lab", stored.with_(metadata=stored.metadata.with_(finalizers=("x",))))
        == set()
    )
    assert stores.change(ResourceClaim, "claim0", "lab", claim(0)) == {"lab/vm0"}
    assert stores.change(ResourceClaim, "claim9", "lab", claim(9)) == set()


def test_a_pod_of_nobody_concerns_nobody() -> None:
    assert Stores().change(Pod, "pod0", "lab", pod(0, None)) == set()


def test_an_object_of_ours_concerns_its_vmi_and_who_shares_its_addresses() -> None:
    stores = two_vms()
    stores.put(pod(1, "a"), claim(1, (DRIVERS[0], "a", "d0")))
    for number in (0, 1):
        made = devices_of(stores, f"lab/vm{number}")
        affected = stores.change(VirtualMachineInstanceDevices, f"vm{number}", "lab", made)
    assert affected == {"lab/vm0", "lab/vm1"}
    assert made is not None
    assert [device.reason for device in made.status.devices] == ["SharedAddress"]


def test_a_vmi_that_begins_to_end_concerns_who_shares_its_addresses() -> None:
    stores = two_vms()
    stores.put(pod(1, "a"), claim(1, (DRIVERS[0], "a", "d0")))
    for number in (0, 1):
        stores.change(VirtualMachineInstanceDevices, f"vm{number}", "lab", devices_of(stores, f"lab/vm{number}"))
    vm = stores.by_kind[VirtualMachineInstance].get("vm0", "lab")
    assert vm is not None
    ending = vm.with_(metadata=vm.metadata.with_(deletion_timestamp="2026-01-01T00:00:00Z"))
    assert stores.change(
        VirtualMachineInstance, "vm0", "lab", vm.with_(metadata=vm.metadata.with_(finalizers=("x",)))
    ) == {"lab/vm0"}
    assert stores.change(VirtualMachineInstance, "vm0", "lab", ending) == {"lab/vm0", "lab/vm1"}
    assert stores.change(VirtualMachineInstance, "vm0", "lab", None) == {"lab/vm0"}


def test_vms_are_affected_by_themselves_their_vmi_and_its_pods() -> None:
    vm = VirtualMachine.from_wire({"metadata": {"name": "vm0", "namespace": "lab"}})
    assert (
        affected_by_vm(None, vm)
        == affected_by_vm(vmi(0), None)
        == affected_by_vm(pod(0, None), pod(0, "a"))
        == {"lab/vm0"}
    )
    assert affected_by_vm(claim(0), None) == set()


def test_leftovers_are_pods_of_an_earlier_vmi_of_that_name() -> None:
    stores = two_vms()
    for sources in (stores.sources, stores.listed()):
        assert sources.leftovers("lab/vm0", "uid-0") == ()
        assert sources.leftovers("lab/vm0", "uid-new") == ("pod0",)


def test_a_vmi_whose_own_status_tells_an_address_concerns_who_has_it_too() -> None:
    def told(number: int, mdev: str = "", **more: str) -> VirtualMachineInstance:
        attributes = {"mDevUUID": mdev} if mdev else {"pciAddress": "0000:0A:00.0"}
        entry = {"name": "g", "deviceResourceClaimStatus": {"attributes": attributes}}
        return vmi(number, nodeName="a", deviceStatus={"gpuStatuses": [entry]}, **more)

    stores = Stores()
    assert stores.change(VirtualMachineInstance, "vm0", "lab", told(0)) == {"lab/vm0"}
    assert stores.change(VirtualMachineInstance, "vm1", "lab", told(1)) == {"lab/vm0", "lab/vm1"}
    assert stores.change(VirtualMachineInstance, "vm1", "lab", told(1, phase="Running")) == {"lab/vm1"}
    for sources in (stores.sources, stores.listed()):
        assert [vmi.name for vmi in sources.instances_at("a: PCI 0000:0a:00.0")] == ["vm0", "vm1"]
        assert sources.instances_at("b: PCI 0000:0a:00.0") == ()
    assert stores.change(VirtualMachineInstance, "vm1", "lab", told(1, phase="Succeeded")) == {"lab/vm0", "lab/vm1"}
    assert stores.change(
        VirtualMachineInstance, "vm1", "lab", told(1, mdev="12345678-9abc-def0-1234-56789abcdef0")
    ) == {"lab/vm1"}


def test_a_change_in_a_pool_of_thousands_of_slices_costs_what_its_slice_holds() -> None:
    """A hundred thousand devices of one driver, in one pool, were sorted anew with each change of one of them."""
    took: dict[int, float] = {}
    for number in (250, 4_000):
        stores = Stores()
        stores.put(*(_part(n, number, "0") for n in range(number)))
        pool = stores.sources.pool(DRIVERS[0], "all")
        assert pool is not None
        assert pool.complete
        began = time.process_time()
        for n in range(100):
            stores.change(ResourceSlice, f"part-{n}", "", _part(n, number, str(n % 8)))
            published = stores.sources.pool(DRIVERS[0], "all")
            assert published is not None
            assert published.complete
            (device,) = published.devices(f"d-{n}")
            assert device.device.attributes[ADDRESS].string == f"0000:01:00.{n % 8}"
        took[number] = time.process_time() - began
    assert took[4_000] < 4 * took[250] + 0.05


ADDRESS = "resource.kubernetes.io/pciBusID"


def _part(number: int, of: int, function: str) -> ResourceSlice:
    pool = {"name": "all", "generation": 1, "resourceSliceCount": of}
    devices = [{"name": f"d-{number}", "attributes": {ADDRESS: {"string": f"0000:01:00.{function}"}}}]
    return ResourceSlice.from_wire(
        {
            "metadata": {"name": f"part-{number}"},
            "spec": {"driver": DRIVERS[0], "allNodes": True, "pool": pool, "devices": devices},
        }
    )
