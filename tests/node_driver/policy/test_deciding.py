"""What policies publish of a machine, and why not the rest (D-39 to D-43, D-48, D-49, D-59, D-61, D-64)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from node_driver.devices import DeviceKind, PublishedSet, Sanitizing
from node_driver.hardware.inventory import Hardware, VfCount
from node_driver.hardware.reading import read_hardware
from node_driver.policy.deciding import published_set, wanted_vfs
from node_driver.policy.exclusions import ExclusionReason
from tests.node_driver.machine_trees import machine
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy

EVERYTHING = {"name": "everything", "select": [{}]}
GPUS = {"name": "gpus", "select": [{"vendor": "10de", "class": "03"}]}


@pytest.fixture
def hardware(tmp_path: Path, request: pytest.FixtureRequest) -> Hardware:
    return read_hardware(machine(request.param, tmp_path).roots)


def on(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("hardware", [name], indirect=True)


def policy(*sets: dict[str, Any], name: str = "p", **spec: Any) -> VirtDraNodePolicy:
    return VirtDraNodePolicy.from_wire({"metadata": {"name": name}, "spec": {"deviceSets": list(sets), **spec}})


def members(published: PublishedSet) -> dict[str, tuple[str, ...]]:
    return {device.name: device.members for device in published.devices}


def reasons(published: PublishedSet, *, named: bool = True) -> dict[str, str]:
    """Subject -> reason; without those that nobody named."""
    return {
        excluded.subject: excluded.reason
        for excluded in published.excluded
        if not named or excluded.reason != ExclusionReason.NOT_SELECTED
    }


def messages(published: PublishedSet) -> dict[str, str]:
    return {excluded.subject: excluded.message for excluded in published.excluded}


# --- functions, groups and cards ----------------------------------------------------------------------------------


@on("gpu-workstation")
def test_without_a_policy_nothing_is_published(hardware: Hardware) -> None:
    published = published_set(hardware, [])
    assert published.devices == ()
    assert set(reasons(published, named=False)) == set(hardware.functions)
    assert set(reasons(published, named=False).values()) == {ExclusionReason.NOT_SELECTED}


@on("gpu-workstation")
def test_a_group_is_one_device_with_what_goes_along(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(GPUS)])
    assert members(published) == {
        "pci-0000-01-00-0": ("0000:01:00.0", "0000:01:00.1"),
        "pci-0000-02-00-0": ("0000:02:00.0", "0000:02:00.1"),
        "pci-0000-03-00-0": ("0000:03:00.0", "0000:03:00.1", "0000:04:00.0", "0000:04:00.1"),
    }
    assert reasons(published) == {}
    first = published.devices[0]
    assert (first.kind, first.target_driver, first.sanitizing) == (DeviceKind.VFIO, "vfio-pci", Sanitizing.RESET)
    assert {name: attribute.to_wire() for name, attribute in first.attributes.items()} == {
        "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "resource.kubernetes.io/numaNode": {"int": 0},
        "kind": {"string": "vfio"},
        "vendorID": {"string": "10de"},
        "deviceID": {"string": "2684"},
        "subsystemVendorID": {"string": "1043"},
        "subsystemDeviceID": {"string": "88e2"},
        "class": {"string": "030000"},
        "iommuGroup": {"int": 14},
        "driver": {"string": "nvidia"},
        "resetMethods": {"string": "bus"},
        "groupSize": {"int": 2},
        "groupMembers": {"string": "0000:01:00.1"},
    }


@on("gpu-workstation")
def test_each_publishes_every_selected_function_and_binds_the_whole_group(hardware: Hardware) -> None:
    published = published_set(hardware, [policy({**GPUS, "iommuGroups": "each"})])
    group = ("0000:03:00.0", "0000:03:00.1", "0000:04:00.0", "0000:04:00.1")
    shared = [device for device in published.devices if device.members == group]
    assert [device.name for device in shared] == ["pci-0000-03-00-0", "pci-0000-04-00-0"]
    assert {device.exclusive for device in shared} == {("iommu-group-of-0000:03:00.0",)}


@on("gpu-workstation")
def test_everything_publishes_all_that_the_node_can_spare_and_says_why_not_the_rest(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(EVERYTHING)])
    assert list(members(published)) == [f"pci-0000-{at}" for at in ("00-1f-3", "01-00-0", "02-00-0", "03-00-0")]
    assert reasons(published) == {
        **{f"0000:00:{at}": "Bridge" for at in ("00.0", "01.0", "06.0", "1b.0", "1c.0", "1f.0")},
        "0000:00:02.0": "Protected",
        "0000:05:00.0": "Protected",
        "0000:06:00.0": "GroupShared",
    }
    assert messages(published)["0000:06:00.0"] == (
        "its IOMMU group 17 is shared with 0000:05:00.0, which has the disk dm-0, which is mounted at /; put one of "
        "them into another slot (of a root port with ACS)"
    )


@on("gpu-workstation")
@pytest.mark.parametrize("form", ["together", "each"])
def test_the_boot_disk_is_refused_however_it_is_named(hardware: Hardware, form: str) -> None:
    boot = {"name": "boot", "select": [{"address": "0000:05:00.0"}, {"driver": "nvme"}], "iommuGroups": form}
    published = published_set(hardware, [policy(boot)])
    assert (published.devices, reasons(published)) == (
        (),
        {"0000:05:00.0": "Protected", "0000:06:00.0": "GroupShared"},
    )


@on("gpu-workstation")
@pytest.mark.parametrize(
    ("select", "message"),
    [
        ({"vendor": "10df"}, "no function has vendor 10df (there are 10de, 144d, 8086); did you mean 10de?"),
        ({"numaNode": 3}, "no function is on NUMA node 3"),
        ({"vfIndexes": {"first": 1}}, "there are no virtual functions; numVFs makes some"),
        ({"vendor": "144d", "class": "03"}, "each of its fields holds for some function, but all of them for none"),
    ],
    ids=["unknown", "numa", "vfs", "combination"],
)
def test_a_set_that_selects_nothing_says_what_holds_for_none(
    hardware: Hardware, select: dict[str, Any], message: str
) -> None:
    published = published_set(hardware, [policy({"name": "x", "select": [select]}, name="team")])
    assert (published.devices, reasons(published)) == ((), {"team/x": "NothingSelected"})
    assert messages(published)["team/x"] == message


@on("pci-bridge")
def test_a_bridge_in_a_group_stays_and_its_endpoints_go_together(hardware: Hardware) -> None:
    second = {"name": "second", "select": [{"address": "0000:02:02.0"}]}
    published = published_set(hardware, [policy(second)])
    assert members(published) == {"pci-0000-02-02-0": ("0000:02:01.0", "0000:02:02.0")}, "the selected one names it"
    assert "resource.kubernetes.io/numaNode" not in published.devices[0].attributes, "the kernel says -1 (D-59)"


@on("gpu-workstation")
def test_a_card_is_one_device_if_the_policy_says_so(hardware: Hardware) -> None:
    split = {
        address: replace(function, iommu_group=90 + number)
        for number, (address, function) in enumerate(hardware.functions.items())
        if address.startswith("0000:01:00")
    }
    apart = replace(hardware, functions={**hardware.functions, **split})
    gpu = {"name": "gpu", "select": [{"address": "0000:01:00.0"}]}
    assert members(published_set(apart, [policy(gpu)])) == {"pci-0000-01-00-0": ("0000:01:00.0",)}
    card = published_set(apart, [policy({**gpu, "cards": "together"})])
    assert members(card) == {"pci-0000-01-00-0": ("0000:01:00.0", "0000:01:00.1")}
    assert card.devices[0].exclusive == ("iommu-group-of-0000:01:00.0", "iommu-group-of-0000:01:00.1")


@on("gpu-workstation")
def test_without_an_iommu_the_message_says_how_to_turn_it_on(hardware: Hardware) -> None:
    bare = {address: replace(function, iommu_group=None) for address, function in hardware.functions.items()}
    published = published_set(replace(hardware, functions=bare), [policy(GPUS)])
    assert set(reasons(published).values()) == {"NoIommuGroup"}
    assert messages(published)["0000:01:00.0"].endswith("and boot with intel_iommu=on")


@on("gpu-workstation")
def test_the_first_set_by_the_policies_names_has_a_device(hardware: Hardware) -> None:
    mine = policy({"name": "one", "select": [{"address": "0000:01:00.0"}], "sanitize": "none"}, name="a")
    others = policy({**GPUS, "sanitize": "erase"}, name="b")
    later = policy({**GPUS}, name="c")
    published = published_set(hardware, [later, others, mine])
    assert [device.sanitizing.value for device in published.devices] == ["none", "erase", "erase"]
    assert reasons(published) == {"c/gpus": "AlreadyPublished"}


@on("gpu-workstation")
def test_a_policy_for_other_nodes_publishes_nothing_here(hardware: Hardware) -> None:
    gpu_nodes = policy(GPUS, nodeSelector={"matchLabels": {"gpu": "yes"}})
    assert reasons(published_set(hardware, [gpu_nodes], {"gpu": "no"})) == {"p": "OtherNodes"}
    assert len(published_set(hardware, [gpu_nodes], {"gpu": "yes"}).devices) == 3


@on("malformed")
def test_an_unreadable_device_spoils_its_group_for_others(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(EVERYTHING)])
    assert list(members(published)) == ["pci-0000-07-00-0"]
    assert reasons(published)["0000:01:00.1"] == "GroupShared"
    assert list(reasons(published).values()).count("Unreadable") == 11


# --- SR-IOV -------------------------------------------------------------------------------------------------------


@on("sriov-nic")
def test_virtual_functions_are_published_with_the_kernels_variant_driver(hardware: Hardware) -> None:
    vfs = {"name": "vfs", "select": [{"physicalFunction": "0000:41:00.0", "vfIndexes": {"first": 1, "last": 2}}]}
    published = published_set(hardware, [policy(vfs)])
    assert [(device.name, device.kind, device.target_driver) for device in published.devices] == [
        ("pci-0000-41-00-3", DeviceKind.SRIOV, "mlx5_vfio_pci"),
        ("pci-0000-41-00-4", DeviceKind.SRIOV, "mlx5_vfio_pci"),
    ]
    attributes = published.devices[0].attributes
    assert (attributes["physicalFunction"].string, attributes["vfIndex"].int_value) == ("0000:41:00.0", 1)
    named = published_set(hardware, [policy({**vfs, "driver": "vfio-pci"})])
    assert {device.target_driver for device in named.devices} == {"vfio-pci"}


@on("sriov-nic")
def test_a_pf_is_not_given_out_beside_its_vfs_nor_with_the_nodes_route(hardware: Hardware) -> None:
    assert reasons(published_set(hardware, [policy(EVERYTHING)]))["0000:41:00.0"] == "Protected"
    idle = replace(hardware, protected={})
    assert reasons(published_set(idle, [policy(EVERYTHING)]))["0000:41:00.0"] == "VirtualFunctionsEnabled"


@on("sriov-nic")
def test_vfs_to_make_are_planned_and_their_absence_explained(hardware: Hardware) -> None:
    ports = {"name": "ports", "select": [{"device": "101d"}], "numVFs": 8}
    assert wanted_vfs(hardware, [policy(ports)]) == {"0000:41:00.1": VfCount(8)}, (
        "not of a PF that carries the node's route"
    )
    published = published_set(replace(hardware, protected={}), [policy(ports)])
    assert list(members(published)) == [f"pci-0000-41-00-{number}" for number in range(2, 6)]
    assert {subject: text for subject, text in messages(published).items() if subject.startswith("0000:41")} == {
        "0000:41:00.0": "it has 4 virtual functions; the driver makes 8 when it starts and none is in use",
        "0000:41:00.1": "it has 0 virtual functions; the driver makes 8",
    }
    too_many = published_set(hardware, [policy({**ports, "numVFs": 65})])
    assert messages(too_many)["0000:41:00.1"] == (
        "it can't have 65 virtual functions: it can have 64; lower numVFs"
    )  # fmt: skip
    assert wanted_vfs(hardware, [policy({**ports, "numVFs": 65})]) == {}
    vgpus = {**ports, "vgpuProfiles": [{"profile": "A40-8Q"}]}
    assert wanted_vfs(hardware, [policy(vgpus)]) == {"0000:41:00.1": VfCount(8, probed=True)}, "their driver has them"


@on("sriov-nic")
def test_numa_node_has_two_forms(hardware: Hardware) -> None:
    port = {"name": "port", "select": [{"address": "0000:41:00.1"}]}
    scalar = published_set(hardware, [policy(port)]).devices[0].attributes
    listed = published_set(hardware, [policy(port, listAttributes=True)]).devices[0].attributes
    assert scalar["resource.kubernetes.io/numaNode"].to_wire() == {"int": 1}
    assert listed["resource.kubernetes.io/numaNode"].to_wire() == {"ints": [1, 0]}
    assert listed["resetMethods"].to_wire() == {"strings": ["flr", "bus"]}


# --- parts of cards -----------------------------------------------------------------------------------------------


def fit(published: PublishedSet, names: tuple[str, ...]) -> bool:
    """Whether the counters of all sets suffice for these devices, as the allocator counts."""
    left = {name: dict(counters) for name, counters in published.counter_sets.items()}
    for device in published.devices:
        if device.name in names:
            for counter, units in device.counters.items():
                left[device.counter_set][counter] -= units
    return all(units >= 0 for counters in left.values() for units in counters.values())


MDEVS = {
    "name": "t4",
    "select": [{"vendor": "10de"}],
    "mdevTypes": [{"type": "GRID T4-4Q"}, {"type": "nvidia-231", "max": 3}, {"type": "nvidia-233"}],
}


@on("mdev-card")
def test_mediated_devices_are_published_by_type(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(MDEVS)])
    assert [device.name.removeprefix("mdev-0000-3b-00-0-nvidia-") for device in published.devices] == [
        "231-0", "231-1", "231-2", "232-0", "232-1", "232-2", "232-3", "233-0",
    ]  # fmt: skip
    first = published.devices[0]
    assert (first.address, first.members, first.exclusive, first.type_id) == ("0000:3b:00.0", (), (), "nvidia-231")
    assert str(first.capacity["memory"].value) == "2Gi"
    attributes = {name: attribute.string for name, attribute in first.attributes.items()}
    assert (attributes["mdevTypeName"], attributes["parentPCIAddress"]) == ("GRID T4-2Q", "0000:3b:00.0")
    assert "resource.kubernetes.io/pciBusID" not in attributes, "KubeVirt would pass the whole card through"


@on("mdev-card")
def test_a_card_has_one_type_at_a_time_and_all_instances_of_it(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(MDEVS)])
    types = {device.name: device.type_id for device in published.devices}
    for size in (1, 2, 3, 4):
        for names in combinations(types, size):
            assert fit(published, names) == (len({types[name] for name in names}) == 1), names


@on("mdev-card")
def test_mixed_types_share_the_card(hardware: Hardware) -> None:
    published = published_set(hardware, [policy({**MDEVS, "mixedProfiles": True})])
    two, four = (f"mdev-0000-3b-00-0-nvidia-{number}" for number in (231, 232))
    assert fit(published, (f"{two}-0", f"{four}-0", f"{four}-1")), "1/3 and 2/4 of the card"
    assert not fit(published, (f"{two}-0", f"{two}-1", f"{four}-0", f"{four}-1"))
    assert not fit(published, (f"{two}-0", "mdev-0000-3b-00-0-nvidia-233-0"))


@on("mdev-card")
def test_types_that_arent_offered_are_named_with_the_nearest(hardware: Hardware) -> None:
    wanted = [{"type": "GRID T4-8Q"}, {"type": "nvidia-222"}]
    published = published_set(hardware, [policy({**MDEVS, "mdevTypes": wanted})])
    texts = [excluded.message for excluded in published.excluded if excluded.reason == "TypeNotOffered"]
    assert texts == [
        "it can't make any nvidia-222 now: another type, or the whole card, is in use; release that first",
        "it doesn't offer GRID T4-8Q; did you mean GRID T4-4Q?; it offers nvidia-222, GRID T4-1B, nvidia-231, "
        "GRID T4-2Q, nvidia-232, ...",
    ]


@on("mdev-card")
def test_a_card_with_mediated_devices_is_not_given_away_whole(hardware: Hardware) -> None:
    assert reasons(published_set(hardware, [policy(EVERYTHING)]))["0000:3b:00.0"] == "Divided"


@on("mdev-card")
def test_a_parent_that_isnt_on_pci_is_named(hardware: Hardware) -> None:
    serial = {"name": "serial", "select": [{"address": "mtty"}], "mdevTypes": [{"type": "mtty-1", "max": 2}]}
    published = published_set(hardware, [policy(serial)])
    assert [device.name for device in published.devices] == ["mdev-mtty-mtty-1-0", "mdev-mtty-mtty-1-1"]
    assert published.devices[0].attributes["parent"].string == "mtty"


VGPUS = {"name": "l40s", "select": [{"vendor": "10de"}], "vgpuProfiles": [
    {"profile": "NVIDIA L40S-24Q"}, {"profile": "1159"}, {"profile": "1157"},
]}  # fmt: skip


@on("vgpu-card")
def test_vgpu_profiles_are_published_on_the_cards_functions(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(VGPUS)])
    assert [device.name.removeprefix("vgpu-0000-61-00-") for device in published.devices] == [
        "4-1155", "4-1157", "4-1159", "5-1155", "5-1159", "6-1159", "7-1159",
    ]  # fmt: skip
    device = published.devices[1]
    assert (device.kind, device.address, device.type_id, device.target_driver, device.members) == (
        DeviceKind.VGPU, "0000:61:00.4", "1157", "nvidia", (),
    )  # fmt: skip
    assert (device.attributes["vgpuProfile"].string, str(device.capacity["memory"].value)) == (
        "NVIDIA L40S-48Q",
        "48Gi",
    )
    types = {device.name: device.type_id for device in published.devices}
    for names in combinations(types, 2):
        assert fit(published, names) == (types[names[0]] == types[names[1]]), names


@on("vgpu-card")
def test_mixed_profiles_have_a_function_each(hardware: Hardware) -> None:
    published = published_set(hardware, [policy({**VGPUS, "mixedProfiles": True})])
    assert fit(published, ("vgpu-0000-61-00-4-1155", "vgpu-0000-61-00-6-1159", "vgpu-0000-61-00-7-1159"))
    assert not fit(published, ("vgpu-0000-61-00-4-1155", "vgpu-0000-61-00-4-1159")), "one function"
    assert not fit(published, tuple(f"vgpu-0000-61-00-{vf}" for vf in ("4-1155", "5-1155", "6-1159")))


@on("vgpu-card")
def test_a_function_with_vgpu_profiles_is_not_bound_to_vfio_pci(hardware: Hardware) -> None:
    published = published_set(hardware, [policy(EVERYTHING)])
    assert published.devices == ()
    assert [reasons(published)[f"0000:61:00.{vf}"] for vf in range(4, 8)] == ["Divided"] * 4


@on("gpu-workstation")
def test_a_card_without_parts_says_how_to_get_some(hardware: Hardware) -> None:
    for field, text in (("mdevTypes", "mediated devices"), ("vgpuProfiles", "vGPU profiles")):
        item = {"type" if field == "mdevTypes" else "profile": "nvidia-35"}
        wanted = {"name": "parts", "select": [{"address": "0000:01:00.0"}], field: [item]}
        published = published_set(hardware, [policy(wanted)])
        assert reasons(published) == {"0000:01:00.0": "NotDivisible"}
        assert text in messages(published)["0000:01:00.0"]


@on("mdev-card")
def test_more_types_than_counters_are_refused_in_their_order(hardware: Hardware) -> None:
    many = tuple(
        replace(hardware.mdev_types["0000:3b:00.0"][0], type_id=f"t-{count}", name="", available=count)
        for count in (20, 12, 9)
    )
    cards = replace(hardware, mdev_types={"0000:3b:00.0": many})
    wanted = [{"type": item.type_id} for item in many]
    published = published_set(cards, [policy({**MDEVS, "mdevTypes": wanted})])
    assert {device.type_id for device in published.devices} == {"t-20", "t-12", "t-9"}, "12 + 9 counters"
    larger = replace(cards, mdev_types={"0000:3b:00.0": (*many, replace(many[0], type_id="t-18", available=18))})
    published = published_set(larger, [policy({**MDEVS, "mdevTypes": [*wanted, {"type": "t-18"}]})])
    assert {device.type_id for device in published.devices} == {"t-20", "t-12", "t-9"}
    assert reasons(published)["0000:3b:00.0"] == "TooManyTypes"
