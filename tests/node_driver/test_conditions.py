"""What is wrong with devices, as taints and as health (D-37, D-38, D-42)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node_driver.conditions import (
    ConditionReason,
    DeviceCondition,
    Evaluation,
    NodeView,
    TaintEffect,
    driver_away,
    evaluate,
    health_reports,
    taints,
)
from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.hardware.inventory import Hardware, MdevType, MediatedDevice, PciFunction
from node_driver.state.records import ClaimRecord, DeviceRecord, Stage
from node_driver.wire.service import Health, HealthReport
from virt_dra.api.resource_v1 import DeviceAttribute, DeviceTaint

DRIVER = "passthrough.virt-dra.io"
PF, VF, NIC, OTHER = "0000:41:00.0", "0000:41:00.2", "0000:42:00.0", "0000:42:00.1"
UUID = "6b0d8f0a-0000-5000-8000-000000000001"


def functions(**drivers: str) -> Hardware:
    """A PF with a VF, and a card of two functions in one group. ``drivers`` by a name of the module."""
    bound = {"PF": "igb", "VF": "igbvf", "NIC": "e1000e", "OTHER": ""} | drivers
    entries = (
        PciFunction(PF, "8086", "1521", "020000", driver=bound["PF"], virtual_functions=(VF,)),
        PciFunction(VF, "8086", "1520", "020000", driver=bound["VF"], physical_function=PF, vf_index=0),
        PciFunction(NIC, "8086", "10d3", "020000", driver=bound["NIC"], iommu_group=7),
        PciFunction(OTHER, "8086", "10d3", "020000", driver=bound["OTHER"], iommu_group=7),
    )
    return Hardware({function.address: function for function in entries})


def without(hardware: Hardware, *addresses: str) -> Hardware:
    kept = {key: value for key, value in hardware.functions.items() if key not in addresses}
    return replace(hardware, functions=kept)


VF_DEVICE = PassthroughDevice("vf", DeviceKind.SRIOV, VF, (VF,))
GROUP_DEVICE = PassthroughDevice("nic", DeviceKind.VFIO, NIC, (NIC, OTHER), exclusive=("iommu-group-7",))
MDEV_DEVICE = PassthroughDevice("mdev", DeviceKind.MDEV, PF, type_id="t", counter_set="card", counters={"t": 1})


def claim(*devices: PassthroughDevice, stage: Stage = Stage.DONE, admin: bool = False) -> ClaimRecord:
    records = tuple(
        DeviceRecord(
            device.name, device.kind, "r", UUID if device.kind is DeviceKind.MDEV else device.address,
            members=device.members, exclusive=device.exclusive, admin_access=admin,
        )
        for device in devices
    )  # fmt: skip
    return ClaimRecord("uid", "team", "claim", stage, devices=records)


def conditions(device: PassthroughDevice, view: NodeView) -> list[tuple[str, str]]:
    evaluation = evaluate(PublishedSet((device,)), view, {})
    return [
        (condition.reason.value, condition.message)
        for condition in evaluation.conditions
        if condition.device == device.name
    ]


BOUND = functions(NIC="vfio-pci", OTHER="vfio-pci", VF="vfio-pci")

CASES: dict[str, tuple[PassthroughDevice, NodeView, list[tuple[str, str]]]] = {
    "nothing is wrong": (GROUP_DEVICE, NodeView(functions()), []),
    "it isn't on the bus": (
        GROUP_DEVICE,
        NodeView(without(functions(), NIC, OTHER), obstacles={"nic": "?"}, links={NIC: False}),
        [("gone", f"{NIC} isn't on its bus any more")],
    ),
    "a member isn't on the bus": (
        GROUP_DEVICE,
        NodeView(without(functions(), OTHER)),
        [("gone", f"{OTHER} isn't on its bus any more")],
    ),
    "the node uses it": (
        GROUP_DEVICE,
        NodeView(functions(), obstacles={"nic": "nvme0n1 is mounted at /data; unmount it first"}),
        [("obstructed", "nvme0n1 is mounted at /data; unmount it first")],
    ),
    "a claim has it": (GROUP_DEVICE, NodeView(BOUND, (claim(GROUP_DEVICE),), obstacles={"nic": "qemu has it"}), []),
    "a claim has it that is being prepared": (
        GROUP_DEVICE,
        NodeView(functions(), (claim(GROUP_DEVICE, stage=Stage.STARTED),)),
        [],
    ),
    "somebody bound a claimed device to another driver": (
        GROUP_DEVICE,
        NodeView(functions(NIC="vfio-pci", OTHER="e1000e"), (claim(GROUP_DEVICE),)),
        [("wrong-driver", f"{OTHER} is bound to e1000e instead of vfio-pci")],
    ),
    "somebody unbound a claimed device": (
        VF_DEVICE,
        NodeView(functions(VF=""), (claim(VF_DEVICE),)),
        [("wrong-driver", f"{VF} is bound to no driver instead of vfio-pci")],
    ),
    "another pod has a device of its group": (
        PassthroughDevice("nic-1", DeviceKind.VFIO, OTHER, (OTHER,), exclusive=("iommu-group-7",)),
        NodeView(BOUND, (claim(GROUP_DEVICE),)),
        [("group-shared", "nic of claim team/claim has iommu-group-7, which one pod uses at a time")],
    ),
    "an administrator looks at a device of its group": (
        PassthroughDevice("nic-1", DeviceKind.VFIO, OTHER, (OTHER,), exclusive=("iommu-group-7",)),
        NodeView(BOUND, (claim(GROUP_DEVICE, admin=True),)),
        [],
    ),
    "it is unclean and a change is stuck": (
        GROUP_DEVICE,
        NodeView(functions(), unclean={NIC: "erase was cut off"}, stuck={OTHER: "unbind hangs", PF: "another"}),
        [("unclean", "erase was cut off"), ("stuck", "unbind hangs")],
    ),
    "a VF has its PF's link": (
        VF_DEVICE,
        NodeView(functions(), links={PF: False, NIC: False}),
        [("link-down", f"the link of {PF} is down: no carrier")],
    ),
    "a link that is up, and one that isn't known": (VF_DEVICE, NodeView(functions(), links={PF: True}), []),
    "a claimed mdev was swept": (
        MDEV_DEVICE,
        NodeView(functions(), (claim(MDEV_DEVICE),)),
        [
            (
                "gone",
                f"mdev {UUID} was removed while a claim has it (KubeVirt up to 1.9.0 removes foreign mdevs)",
            )
        ],
    ),
    "a claimed mdev": (
        MDEV_DEVICE,
        NodeView(replace(functions(), mdevs={UUID: MediatedDevice(UUID, PF, "t")}), (claim(MDEV_DEVICE),)),
        [],
    ),
    "an mdev of a parent that is no PCI function": (
        replace(MDEV_DEVICE, address="mtty"),
        NodeView(Hardware(mdev_types={"mtty": (MdevType("mtty", "t"),)})),
        [],
    ),
    "an mdev of such a parent that is gone": (
        replace(MDEV_DEVICE, address="mtty"),
        NodeView(functions()),
        [("gone", "mtty isn't on its bus any more")],
    ),
    "an mdev that isn't made yet": (
        MDEV_DEVICE,
        NodeView(functions(), (claim(MDEV_DEVICE, stage=Stage.STARTED),)),
        [],
    ),
    "a vGPU stays with its vendor's driver": (
        PassthroughDevice("vgpu", DeviceKind.VGPU, VF, (VF,)),
        NodeView(functions(VF="nvidia"), (claim(PassthroughDevice("vgpu", DeviceKind.VGPU, VF, (VF,))),)),
        [],
    ),
}


@pytest.mark.parametrize(("device", "view", "wanted"), CASES.values(), ids=CASES)
def test_conditions(device: PassthroughDevice, view: NodeView, wanted: list[tuple[str, str]]) -> None:
    assert conditions(device, view) == wanted


# --- devices in use that no policy names any more ---------------------------------------------------------------------


def test_a_claimed_device_that_vanished_stays_published_until_it_is_unprepared() -> None:
    view = NodeView(without(functions(), PF, VF), (claim(MDEV_DEVICE, VF_DEVICE),))
    evaluation = evaluate(PublishedSet((GROUP_DEVICE,)), view, {"mdev": MDEV_DEVICE, "vf": VF_DEVICE})
    assert evaluation.published.devices == (
        GROUP_DEVICE,
        replace(MDEV_DEVICE, counter_set="", counters={}),
        VF_DEVICE,
    )
    assert [(condition.device, condition.reason) for condition in evaluation.conditions] == [
        ("mdev", ConditionReason.GONE),
        ("vf", ConditionReason.GONE),
    ]
    assert evaluate(PublishedSet((GROUP_DEVICE,)), NodeView(functions()), {"vf": VF_DEVICE}).published.devices == (
        GROUP_DEVICE,
    )


def test_after_a_restart_it_is_published_as_the_checkpoint_knows_it() -> None:
    evaluation = evaluate(PublishedSet(), NodeView(Hardware(), (claim(VF_DEVICE),)), {})
    assert evaluation.published.devices == (replace(VF_DEVICE, attributes={"kind": DeviceAttribute(string="sriov")}),)


def test_a_claimed_device_that_the_policy_dropped_is_not_given_to_others() -> None:
    evaluation = evaluate(PublishedSet(), NodeView(BOUND, (claim(VF_DEVICE),)), {"vf": VF_DEVICE})
    assert evaluation.conditions == (
        DeviceCondition(
            "vf",
            ConditionReason.WITHDRAWN,
            "no policy names it any more; it is published until its claim ends",
        ),
    )


# --- taints and health ------------------------------------------------------------------------------------------------

EVALUATION = Evaluation(
    PublishedSet((VF_DEVICE, GROUP_DEVICE)),
    (
        DeviceCondition("vf", ConditionReason.GONE, "it isn't there"),
        DeviceCondition("vf", ConditionReason.STUCK, "unbind hangs"),
        DeviceCondition("nic", ConditionReason.OBSTRUCTED, "eth0 is up"),
    ),
)


def test_only_what_makes_a_running_vm_useless_evicts_it() -> None:
    every = tuple(DeviceCondition(reason.value, reason, "") for reason in ConditionReason)
    assert {
        device: [taint.to_wire() for taint in entries]
        for device, entries in taints(Evaluation(PublishedSet(), every), DRIVER).items()
    } == {
        reason.value: [
            {
                "key": f"passthrough.virt-dra.io/{reason.value}",
                "effect": "NoExecute" if reason.value in ("gone", "link-down") else "NoSchedule",
            }
        ]
        for reason in ConditionReason
    }


def test_effects_can_be_changed_and_switched_off() -> None:
    effects = {ConditionReason.GONE: TaintEffect.NO_SCHEDULE, ConditionReason.OBSTRUCTED: TaintEffect.NONE}
    assert taints(EVALUATION, DRIVER, effects) == {
        "vf": (
            DeviceTaint(key=f"{DRIVER}/gone", effect="NoSchedule"),
            DeviceTaint(key=f"{DRIVER}/stuck", effect="NoSchedule"),
        )
    }


def test_health_says_what_concerns_the_pod_that_has_the_device() -> None:
    assert health_reports(EVALUATION, "node-1", 1234) == (
        HealthReport("node-1", "vf", Health.UNHEALTHY, 1234, "it isn't there; unbind hangs"),
        HealthReport("node-1", "nic", Health.HEALTHY, 1234),
    )


def test_all_devices_are_tainted_while_the_driver_is_away() -> None:
    away = taints(driver_away(EVALUATION), DRIVER)
    assert {device: [taint.key for taint in entries] for device, entries in away.items()} == {
        "vf": [f"{DRIVER}/gone", f"{DRIVER}/stuck", f"{DRIVER}/driver-away"],
        "nic": [f"{DRIVER}/obstructed", f"{DRIVER}/driver-away"],
    }
    assert driver_away(EVALUATION).published == EVALUATION.published
