"""Claims are prepared, repeated, refused and released on a node in memory: whole answers, files and host.

What is read of a claim (D-14), calls that are repeated (D-17), nodes (D-30), binding (D-44), what stands in its way and
what is stuck (D-45), rollback (D-46), devices that others have (D-47), the checkpoint, repair at start and orphans
(D-50 to D-52), and what a device keeps of its last owner (D-63)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from devtools.node.faults import Crash, Fault, no_faults
from devtools.node.kernel import Function, Link
from devtools.node.world import CDI_FOLDER, DRIVER, NODE, PLUGIN_FOLDER, Node, claim, claim_name
from node_driver.devices import DeviceKind, PassthroughDevice, Sanitizing
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import Stage, StuckChange, UncleanDevice
from node_driver.wire.service import FailedClaim, HandedDevice, ReadyClaim, ReleasedClaim
from virt_dra.api.resource_v1 import DeviceAttribute, ResourceClaim
from virt_dra.cluster.port import Unavailable

NIC = "0000:01:00.0"
NVME = "0000:02:00.0"
FIRST_OF_TWO = "0000:03:00.0"
SECOND_OF_TWO = "0000:03:00.1"
BRIDGE = "0000:00:1c.0"


def device(address: str, *members: str, exclusive: tuple[str, ...] = ()) -> PassthroughDevice:
    return PassthroughDevice(
        f"pci-{address.replace(':', '-').replace('.', '-')}",
        DeviceKind.VFIO,
        address,
        members or (address,),
        exclusive=exclusive,
        attributes={"resource.kubernetes.io/pciBusID": DeviceAttribute(string=address)},
    )


def a_node() -> Node:
    node = Node(
        devices=(
            device(NIC),
            device(NVME),
            device(FIRST_OF_TWO, FIRST_OF_TWO, SECOND_OF_TWO, exclusive=("group-14",)),
            device(SECOND_OF_TWO, FIRST_OF_TWO, SECOND_OF_TWO, exclusive=("group-14",)),
        )
    )
    node.kernel.add(Function(NIC, 12, "e1000e"))
    node.kernel.add(Function(NVME, 13, "nvme"))
    node.kernel.add(Function(BRIDGE, 14, "pcieport", "0x060400"))
    node.kernel.add(Function(FIRST_OF_TWO, 14, "e1000e"))
    node.kernel.add(Function(SECOND_OF_TWO, 14))
    return node


async def prepare(node: Node, *claims: ResourceClaim) -> list[ReadyClaim | FailedClaim]:
    node.reader.claims |= {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
    return await asyncio.gather(*map(node.start().claims.prepare, map(claim_name, claims)))


async def unprepare(node: Node, *claims: ResourceClaim) -> list[ReleasedClaim | FailedClaim]:
    return await asyncio.gather(*map(node.start().claims.unprepare, map(claim_name, claims)))


def bindings(node: Node) -> dict[str, tuple[str, str]]:
    return {function.address: (function.driver, function.override) for function in node.kernel.functions.values()}


def files(node: Node) -> dict[str, Any]:
    """All files but the checkpoint; a list of JSON objects each."""
    return {
        path: [json.loads(line) for line in text.splitlines()] if path.startswith(PLUGIN_FOLDER) else json.loads(text)
        for path, text in node.disk.contents.items()
        if not path.endswith("checkpoint.json")
    }


NIC_CLAIM = claim("nic", "pci-0000-01-00-0", requests=("gpu/big",))
UNTOUCHED = bindings(a_node())


async def test_a_claim_is_prepared_with_nodes_and_metadata_and_released_without_a_trace() -> None:
    node = a_node()

    ready = await prepare(node, NIC_CLAIM)

    ids = (f"{DRIVER}/device=uid-nic-pci-0000-01-00-0", f"{DRIVER}/metadata=uid-nic_gpu")
    assert ready == [ReadyClaim((HandedDevice(("gpu",), NODE, "pci-0000-01-00-0", ids),))]
    assert bindings(node) == {**UNTOUCHED, NIC: ("vfio-pci", "vfio-pci")}
    metadata = {
        "kind": "DeviceMetadata",
        "metadata": {"name": "nic", "namespace": "default", "uid": "uid-nic", "generation": 1},
        "requests": [
            {
                "name": "gpu/big",
                "devices": [
                    {
                        "driver": DRIVER,
                        "pool": NODE,
                        "name": "pci-0000-01-00-0",
                        "attributes": {"resource.kubernetes.io/pciBusID": {"string": NIC}},
                    }
                ],
            }
        ],
    }
    host_path = f"{PLUGIN_FOLDER}/dra-device-metadata/default_nic/gpu/metadata.json"
    container_path = f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/nic/gpu/{DRIVER}-metadata.json"
    assert files(node) == {
        host_path: [
            {"apiVersion": f"metadata.resource.k8s.io/{version}", **metadata} for version in ("v1beta1", "v1alpha1")
        ],
        f"{CDI_FOLDER}/{DRIVER}_uid-nic.json": {
            "cdiVersion": "0.5.0",
            "kind": f"{DRIVER}/device",
            "devices": [
                {
                    "name": "uid-nic-pci-0000-01-00-0",
                    "containerEdits": {
                        "deviceNodes": [
                            {"path": "/dev/vfio/vfio", "permissions": "rw"},
                            {"path": "/dev/vfio/12", "permissions": "rw"},
                        ]
                    },
                }
            ],
        },
        f"{CDI_FOLDER}/{DRIVER}_metadata_uid-nic_gpu.json": {
            "cdiVersion": "0.5.0",
            "kind": f"{DRIVER}/metadata",
            "devices": [
                {
                    "name": "uid-nic_gpu",
                    "containerEdits": {
                        "mounts": [{"hostPath": host_path, "containerPath": container_path, "options": ["ro", "bind"]}]
                    },
                }
            ],
        },
    }

    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]
    assert (bindings(node), files(node), node.state.claims) == (UNTOUCHED, {}, {})


async def test_both_calls_may_be_repeated() -> None:
    node = a_node()
    first = await prepare(node, NIC_CLAIM)
    contents = dict(node.disk.contents)

    assert await prepare(node, NIC_CLAIM) == first
    assert node.disk.contents == contents
    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]
    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]


async def test_a_claim_of_a_template_has_its_metadata_under_the_pods_name_for_it() -> None:
    node = a_node()
    generated = claim("vm-gpu-x7k2p", "pci-0000-01-00-0", annotations={"resource.kubernetes.io/pod-claim-name": "gpu"})

    await prepare(node, generated)

    (document,) = [text for path, text in files(node).items() if "_metadata_" in path]
    mounts = document["devices"][0]["containerEdits"]["mounts"]
    assert [mount["containerPath"] for mount in mounts] == [
        f"/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/request-0/{DRIVER}-metadata.json"
    ]
    metadata = files(node)[f"{PLUGIN_FOLDER}/dra-device-metadata/default_vm-gpu-x7k2p/request-0/metadata.json"]
    assert [version["podClaimName"] for version in metadata] == ["gpu", "gpu"]


GROUP_NODES, IOMMUFD_NODES = ["/dev/vfio/vfio", "/dev/vfio/12"], ["/dev/vfio/devices/vfio12", "/dev/iommu"]


@pytest.mark.parametrize(
    ("groups", "devices", "iommufd", "nodes"),
    [
        (True, False, False, GROUP_NODES),
        (True, True, False, GROUP_NODES),
        (True, False, True, GROUP_NODES),
        (True, True, True, GROUP_NODES + IOMMUFD_NODES),
        (False, True, True, IOMMUFD_NODES),
        (False, True, False, None),
    ],
    ids=["5.15", "6.1", "bound to a driver without", "both", "without groups", "none"],
)
async def test_each_way_to_open_a_device_that_the_kernel_has_is_given(
    groups: bool, devices: bool, iommufd: bool, nodes: list[str] | None
) -> None:
    node = a_node()
    node.kernel.vfio_groups, node.kernel.vfio_devices, node.kernel.iommufd = groups, devices, iommufd

    (answer,) = await prepare(node, NIC_CLAIM)

    document = files(node).get(f"{CDI_FOLDER}/{DRIVER}_uid-nic.json")
    given = document and document["devices"][0]["containerEdits"]["deviceNodes"]
    assert given == (None if nodes is None else [{"path": path, "permissions": "rw"} for path in nodes])
    if nodes is None:
        assert answer == FailedClaim("/dev/vfio/vfio of 0000:01:00.0 didn't appear within 5 s; is udev running?")
        return
    released = {}
    for path in nodes:
        node.kernel.open_nodes = {path: "qemu (1)"}
        await prepare(node, NIC_CLAIM)
        released[path] = isinstance((await unprepare(node, NIC_CLAIM))[0], ReleasedClaim)
    assert released == {path: path in ("/dev/vfio/vfio", "/dev/iommu") for path in nodes}


async def test_all_endpoints_of_a_group_are_bound_and_its_bridge_is_left_alone() -> None:
    node = a_node()

    await prepare(node, claim("card", "pci-0000-03-00-0"))

    bound = {FIRST_OF_TWO: ("vfio-pci", "vfio-pci"), SECOND_OF_TWO: ("vfio-pci", "vfio-pci")}
    assert bindings(node) == {**UNTOUCHED, **bound}


async def test_what_is_on_vfio_pci_already_is_left_as_it_is_and_stays_so() -> None:
    node = a_node()
    node.devices = (replace(device(NIC), sanitizing=Sanitizing.NONE),)
    node.kernel.functions[NIC].driver = "vfio-pci"

    assert isinstance((await prepare(node, NIC_CLAIM))[0], ReadyClaim)
    await unprepare(node, NIC_CLAIM)

    assert bindings(node)[NIC] == ("vfio-pci", "")
    assert not node.kernel.touched


async def test_admin_access_changes_nothing_on_the_host() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    node.kernel.touched.clear()
    admin = claim("admin", "pci-0000-01-00-0", "pci-0000-02-00-0", pods=("pod-2",), admin_access=True)

    ready = await prepare(node, admin)

    assert ready == [
        ReadyClaim(
            (
                HandedDevice(("request-0",), NODE, "pci-0000-01-00-0", (f"{DRIVER}/metadata=uid-admin_request-0",)),
                HandedDevice(("request-1",), NODE, "pci-0000-02-00-0", (f"{DRIVER}/metadata=uid-admin_request-1",)),
            )
        )
    ]
    await unprepare(node, admin)
    assert not node.kernel.touched
    assert node.state.claims.keys() == {"uid-nic"}


GROUP_TEXT = (
    "device pci-0000-03-00-1 shares an IOMMU group or a card with a device of ResourceClaim default/first (uid-first), "
    "which is prepared on this node; delete the pod that uses that claim"
)


@pytest.mark.parametrize(("pod", "refusal"), [("pod-1", None), ("pod-2", GROUP_TEXT)])
async def test_devices_of_a_group_go_to_one_pod(pod: str, refusal: str | None) -> None:
    node = a_node()
    await prepare(node, claim("first", "pci-0000-03-00-0", pods=("pod-1",)))

    (answer,) = await prepare(node, claim("second", "pci-0000-03-00-1", pods=(pod,)))

    assert (answer.message if isinstance(answer, FailedClaim) else None) == refusal


async def test_a_function_that_two_claims_of_a_pod_use_is_put_back_by_the_last() -> None:
    node = a_node()
    first, second = claim("first", "pci-0000-03-00-0"), claim("second", "pci-0000-03-00-1")
    await prepare(node, first)
    await prepare(node, second)

    await unprepare(node, first)
    assert bindings(node)[FIRST_OF_TWO] == ("vfio-pci", "vfio-pci")
    await unprepare(node, second)
    assert (bindings(node), node.state.claims) == (UNTOUCHED, {})


def _bad_network(node: Node) -> ResourceClaim:
    return claim(
        "bad",
        "pci-0000-01-00-0",
        parameters={
            "apiVersion": "virt-dra.io/v1alpha1",
            "kind": "PassthroughConfig",
            "network": {"vlna": 7, "vlan": 5000},
            "x": 1,
        },
    )


def _held(node: Node) -> ResourceClaim:
    node.kernel.open_nodes["/dev/nvme0n1"] = "fio (4711)"
    node.kernel.functions[NVME].files |= {"nvme": {"nvme0n1": {"dev": "259:0", "uevent": "DEVNAME=nvme0n1"}}}
    return claim("bad", "pci-0000-02-00-0")


def _needed(node: Node) -> ResourceClaim:
    node.kernel.needed[NVME] = "has the disk nvme0n1, which is mounted at /srv"
    return claim("bad", "pci-0000-02-00-0")


def _group_not_viable(node: Node) -> ResourceClaim:
    node.kernel.add(Function("0000:01:00.1", 12, "nvme"))
    return claim("bad", "pci-0000-01-00-0")


def _vfs_enabled(node: Node) -> ResourceClaim:
    node.kernel.functions[NIC].files |= {"virtfn0": "", "virtfn1": ""}
    return claim("bad", "pci-0000-01-00-0")


def _no_iommu(node: Node) -> ResourceClaim:
    node.kernel.functions[NIC].group = -1
    return claim("bad", "pci-0000-01-00-0")


def _no_vfio(node: Node) -> ResourceClaim:
    node.devices = (replace(device(NIC), target_driver="mlx5_vfio_pci"), *node.devices[1:])
    return claim("bad", "pci-0000-01-00-0")


def _gone(node: Node) -> ResourceClaim:
    node.kernel.remove(NIC)
    return claim("bad", "pci-0000-01-00-0")


def _api_down(node: Node) -> ResourceClaim:
    node.reader.error = Unavailable("connection refused")
    return claim("bad", "pci-0000-01-00-0")


def _hostile_annotation(node: Node) -> ResourceClaim:
    return claim("bad", "pci-0000-01-00-0", annotations={"resource.kubernetes.io/pod-claim-name": "../../etc"})


def _hostile_request(node: Node) -> ResourceClaim:
    return claim("bad", "pci-0000-01-00-0", requests=("../../../x",))


REFUSED = [
    (
        _bad_network,
        "status.allocation.devices.config[0].opaque.parameters.x: unknown field; "
        "status.allocation.devices.config[0].opaque.parameters.network.vlna: unknown field; did you mean vlan?; "
        "status.allocation.devices.config[0].opaque.parameters.network.vlan: 5000 isn't a number from 0 to 4094",
    ),
    (_held, "device pci-0000-02-00-0: 0000:02:00.0 is held by fio (4711); end the process first"),
    (
        _needed,
        "device pci-0000-02-00-0: 0000:02:00.0 has the disk nvme0n1, which is mounted at /srv; let the node do without "
        "it first",
    ),
    (
        _group_not_viable,
        "device pci-0000-01-00-0: IOMMU group 12 of 0000:01:00.0 isn't viable: 0000:01:00.1 (nvme) is in it, too; "
        "publish the group as one device, or unbind that function",
    ),
    (
        _vfs_enabled,
        "device pci-0000-01-00-0: 0000:01:00.0 has 2 VFs; set sriov_numvfs to 0 first, or claim a VF instead",
    ),
    (
        _no_iommu,
        "device pci-0000-01-00-0: 0000:01:00.0 has no IOMMU group; enable the IOMMU in the node's firmware, and boot "
        "with intel_iommu=on or amd_iommu=on",
    ),
    (
        _no_vfio,
        "device pci-0000-01-00-0: driver mlx5_vfio_pci isn't loaded; run modprobe mlx5_vfio_pci on the node",
    ),
    (_gone, "device pci-0000-01-00-0: 0000:01:00.0 is gone from the node; is it plugged in?"),
    (
        lambda node: claim("bad", "pci-0000-09-00-0"),
        "device pci-0000-09-00-0 isn't published (any more); virt-dra node-driver --plan says why",
    ),
    (
        _api_down,
        "ResourceClaim default/bad can't be read from the API server: connection refused; it is tried again",
    ),
    (_hostile_annotation, 'annotation resource.kubernetes.io/pod-claim-name "../../etc" isn\'t a valid name'),
    (_hostile_request, 'request "../../../x" isn\'t a valid name'),
]


@pytest.mark.parametrize(("arrange", "message"), REFUSED, ids=[arrange.__name__ for arrange, _ in REFUSED])
async def test_what_can_not_be_prepared_is_refused_without_a_trace_and_doesnt_fail_others(
    arrange: Any, message: str
) -> None:
    node = a_node()
    bad = arrange(node)
    before = bindings(node)
    other = claim("other", "pci-0000-03-00-0")
    error, node.reader.error = node.reader.error, None
    await prepare(node, other)
    contents = dict(node.disk.contents)
    touched = set(node.kernel.touched)
    node.reader.error = error

    answers = await prepare(node, bad, other)

    assert answers[0] == FailedClaim(message)
    assert isinstance(answers[1], FailedClaim if error else ReadyClaim)
    assert node.disk.contents == contents
    assert node.kernel.touched == touched
    assert {**bindings(node), FIRST_OF_TWO: before[FIRST_OF_TWO], SECOND_OF_TWO: before[SECOND_OF_TWO]} == before


async def test_a_claim_that_was_replaced_or_deleted_is_named() -> None:
    node = a_node()
    node.reader.claims["default", "nic"] = claim("nic", "pci-0000-01-00-0", uid="uid-of-another")

    assert await node.start().claims.prepare(claim_name(NIC_CLAIM)) == FailedClaim(
        'ResourceClaim default/nic was replaced: its UID is "uid-of-another", not uid-nic; the pod must be created '
        "again"
    )

    node.reader.claims.clear()
    assert await node.start().claims.prepare(claim_name(NIC_CLAIM)) == FailedClaim(
        "ResourceClaim default/nic doesn't exist (any more)"
    )


async def test_releasing_a_claim_keeps_the_metadata_of_the_one_that_has_its_name_now() -> None:
    node = a_node()
    old, new = claim("io", "pci-0000-01-00-0", uid="uid-old"), claim("io", "pci-0000-02-00-0", uid="uid-new")
    await prepare(node, old)
    (ready,) = await prepare(node, new)
    assert isinstance(ready, ReadyClaim)

    assert await unprepare(node, old) == [ReleasedClaim()]

    (record,) = node.state.claims.values()
    assert (record.uid, set(files(node))) == ("uid-new", set(record.files))


@pytest.mark.parametrize("theirs", ["559", "558"], ids=["another", "the same"])
async def test_a_function_that_somebody_else_has_given_a_profile_is_refused(theirs: str) -> None:
    """Also one with the very profile: a VM of theirs may use it."""
    node = a_node()
    node.devices = (PassthroughDevice("vgpu", DeviceKind.VGPU, NIC, type_id="558"),)
    node.kernel.profiles = {NIC: theirs}
    answers = await prepare(node, claim("vgpu", "vgpu"))
    said = f"{NIC} has vgpu-profile {theirs}, which this driver hasn't set; clear it on the node first"
    assert answers == [FailedClaim(said)]
    assert node.kernel.profiles == {NIC: theirs}


async def test_a_claim_keeps_its_profile_when_it_is_prepared_again() -> None:
    node = a_node()
    node.devices = (PassthroughDevice("vgpu", DeviceKind.VGPU, NIC, type_id="558"),)
    node.kernel.profiles = {NIC: "0"}
    vgpu = claim("vgpu", "vgpu")
    assert await prepare(node, vgpu) == await prepare(node, vgpu)
    assert node.kernel.profiles == {NIC: "558"}


async def test_a_profile_that_somebody_else_has_set_since_is_left_alone() -> None:
    """A late release never clears a later owner's (D-61)."""
    node = a_node()
    node.devices = (PassthroughDevice("vgpu", DeviceKind.VGPU, NIC, type_id="558"),)
    node.kernel.profiles = {NIC: "0"}
    vgpu = claim("vgpu", "vgpu")
    await prepare(node, vgpu)
    assert node.kernel.profiles == {NIC: "558"}
    node.kernel.profiles[NIC] = "559"

    assert await unprepare(node, vgpu) == [ReleasedClaim()]
    assert node.kernel.profiles == {NIC: "559"}


async def test_a_device_of_another_claim_is_refused_whatever_the_scheduler_said() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)

    (answer,) = await prepare(node, claim("thief", "pci-0000-01-00-0"))

    assert answer == FailedClaim(
        "device pci-0000-01-00-0 is held by ResourceClaim default/nic (uid-nic), which is prepared on this node; "
        "delete the pod that uses that claim"
    )


async def test_an_unclean_card_has_no_mediated_devices() -> None:
    node = a_node()
    node.devices = (device(NIC), PassthroughDevice("mdev", DeviceKind.MDEV, NIC, type_id="small"))
    node.kernel.mdev_types = {NIC: {"small": 2}}
    node.kernel.functions[NIC].resets = False
    await prepare(node, NIC_CLAIM)
    await unprepare(node, NIC_CLAIM)

    (answer,) = await prepare(node, claim("part", "mdev"))

    assert answer == FailedClaim(
        f"{NIC} was given out as device pci-0000-01-00-0: it was in use and hasn't been cleaned since; a claim of that "
        "device cleans it, then it has mediated devices again"
    )
    node.kernel.functions[NIC].resets = True
    await prepare(node, NIC_CLAIM)
    await unprepare(node, NIC_CLAIM)
    assert isinstance((await prepare(node, claim("part", "mdev")))[0], ReadyClaim)


async def test_a_device_that_a_process_has_open_isnt_released() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    node.kernel.open_nodes["/dev/vfio/12"] = "qemu-system-x86 (99)"

    assert await unprepare(node, NIC_CLAIM) == [
        FailedClaim(
            "devices of ResourceClaim default/nic are still open in qemu-system-x86 (99); they are released when it "
            "has ended"
        )
    ]
    assert bindings(node)[NIC] == ("vfio-pci", "vfio-pci")

    node.kernel.open_nodes.clear()
    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]


async def test_a_full_disk_is_said_and_leaves_the_checkpoint_as_it_was() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    contents = dict(node.disk.contents)
    node.faults = lambda step: Fault.REFUSED

    (answer,) = await prepare(node, claim("second", "pci-0000-02-00-0"))

    assert answer == FailedClaim(
        "the driver's checkpoint can't be written: [Errno 28] No space left on device: "
        f"'{PLUGIN_FOLDER}/checkpoint.json'; free space on the node, then it is tried again"
    )
    assert node.disk.contents == contents
    assert bindings(node) == {**UNTOUCHED, NIC: ("vfio-pci", "vfio-pci")}


async def test_a_stuck_unbind_fails_its_claim_alone_and_a_later_call_goes_on_with_it() -> None:
    node = a_node()
    node.faults = lambda step: Fault.STUCK if step.endswith("e1000e/unbind") else Fault.NONE
    nvme = claim("nvme", "pci-0000-02-00-0")

    answers = await prepare(node, NIC_CLAIM, nvme)
    assert answers[0] == FailedClaim("the kernel hasn't finished changing 0000:01:00.0 within 15 s")
    assert isinstance(answers[1], ReadyClaim)
    assert node.state.claims["uid-nic"].stage is Stage.STARTED
    change = HostChange(HostProperty.DRIVER, NIC, "e1000e/", "vfio-pci/vfio-pci")
    assert node.state.stuck == {NIC: StuckChange(change, answers[0].message)}

    node.kernel.settle()
    node.faults = no_faults
    (answer,) = await prepare(node, NIC_CLAIM)
    assert isinstance(answer, ReadyClaim)
    assert node.state.stuck == {}


async def test_what_fails_in_the_middle_is_put_back_in_reverse() -> None:
    node = a_node()
    node.kernel.functions[SECOND_OF_TWO].files["driver_override"] = "(null)"
    probes = 0

    def second_probe_fails(step: str) -> Fault:
        nonlocal probes
        probes += step.endswith("drivers_probe")
        return Fault.REFUSED if step.endswith("drivers_probe") and probes == 2 else Fault.NONE

    node.faults = second_probe_fails

    (answer,) = await prepare(node, claim("card", "pci-0000-03-00-0"))

    assert answer == FailedClaim(
        "0000:03:00.1 can't be bound to vfio-pci: /sys/bus/pci/drivers_probe: Input/output error (EIO)"
    )
    assert (bindings(node), files(node), node.state.claims) == (UNTOUCHED, {}, {})


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
@pytest.mark.parametrize("step", range(12))
async def test_a_crash_at_any_step_is_repaired_at_start(step: int, fault: Fault) -> None:
    node = a_node()
    steps = 0

    def crash(_: str) -> Fault:
        nonlocal steps
        steps += 1
        return fault if steps == step + 1 else Fault.NONE

    node.faults = crash
    card = claim("card", "pci-0000-03-00-0")
    crashed = False
    try:
        await prepare(node, card)
        await unprepare(node, card)
    except Crash:
        crashed = True
    assert crashed
    node.faults = no_faults

    await node.start().repair.at_start()
    if record := node.state.claims.get("uid-card"):
        assert record.stage is Stage.DONE
        await unprepare(node, card)
    assert (bindings(node), files(node), node.state.claims) == (UNTOUCHED, {}, {})


async def test_after_a_reboot_a_prepared_claim_is_built_again() -> None:
    node = a_node()
    ready = await prepare(node, NIC_CLAIM)
    node.reboot()
    node.kernel.functions[NIC].group = 33
    await node.start().repair.at_start()
    assert bindings(node) == UNTOUCHED

    assert await prepare(node, NIC_CLAIM) == ready
    nodes = files(node)[f"{CDI_FOLDER}/{DRIVER}_uid-nic.json"]["devices"][0]["containerEdits"]["deviceNodes"]
    assert [entry["path"] for entry in nodes] == ["/dev/vfio/vfio", "/dev/vfio/33"]
    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]
    assert bindings(node) == UNTOUCHED


async def test_a_claim_whose_device_was_pulled_out_is_released() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    node.kernel.remove(NIC)

    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]
    assert (files(node), node.state.claims) == ({}, {})


async def test_missing_files_are_written_again_with_the_next_generation() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    expected = files(node)
    node.disk.contents = {path: text for path, text in node.disk.contents.items() if path.endswith("checkpoint.json")}

    await node.start().repair.at_start()

    for path, documents in expected.items():
        for document in documents if path.startswith(PLUGIN_FOLDER) else ():
            document["metadata"]["generation"] = 2
    assert files(node) == expected


async def test_orphans_are_released_after_ten_minutes_unless_a_process_holds_them() -> None:
    node = a_node()
    nvme = claim("nvme", "pci-0000-02-00-0")
    await prepare(node, NIC_CLAIM, nvme)
    del node.reader.claims["default", "nic"]
    repair = node.start().repair
    node.kernel.open_nodes["/dev/vfio/12"] = "qemu (99)"

    await repair.release_orphans(1000.0)
    await repair.release_orphans(1599.0)
    assert node.state.claims.keys() == {"uid-nic", "uid-nvme"}
    await repair.release_orphans(1600.0)
    assert node.state.claims.keys() == {"uid-nic", "uid-nvme"}
    node.kernel.open_nodes.clear()
    node.reader.error = Unavailable("no answer")
    await repair.release_orphans(1660.0)
    assert node.state.claims.keys() == {"uid-nvme"}
    assert bindings(node) == {**UNTOUCHED, NVME: ("vfio-pci", "vfio-pci")}


async def test_an_orphan_that_is_prepared_again_is_waited_for_anew() -> None:
    """An API server that was restored from a backup may have the claim again, and lose it again."""
    node = a_node()
    await prepare(node, NIC_CLAIM)
    made = node.reader.claims.pop(("default", "nic"))
    repair = node.start().repair
    for now in (1000.0, 1600.0):
        await repair.release_orphans(now)
    assert node.state.claims == {}
    node.reader.claims["default", "nic"] = made
    await prepare(node, NIC_CLAIM)
    del node.reader.claims["default", "nic"]
    await repair.release_orphans(1660.0)
    assert node.state.claims.keys() == {"uid-nic"}


async def test_a_damaged_checkpoint_is_kept_and_nothing_is_prepared_or_released() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    path = f"{PLUGIN_FOLDER}/checkpoint.json"
    damaged = node.disk.contents[path].replace("uid-nic", "uid-cin")
    node.disk.contents[path] = damaged
    message = (
        f"the driver's checkpoint was damaged and is kept as {path}.bad; nothing is prepared or released on this node: "
        "drain it, reboot it, then delete that file"
    )

    for _ in range(2):
        assert await prepare(node, claim("nvme", "pci-0000-02-00-0")) == [FailedClaim(message)]
        assert await unprepare(node, NIC_CLAIM) == [FailedClaim(message)]
    assert node.disk.contents[f"{path}.bad"] == damaged
    assert path not in node.disk.contents
    assert bindings(node) == {**UNTOUCHED, NIC: ("vfio-pci", "vfio-pci")}


def tenant_of(node: Node, address: str) -> str:
    return node.kernel.functions[address].tenant


async def test_a_device_is_reset_before_it_goes_back_and_nobody_finds_its_data() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    node.kernel.functions[NIC].tenant = "A"

    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]

    assert (tenant_of(node, NIC), node.state.unclean) == ("", {})


async def test_a_device_whose_reset_failed_stays_unclean_and_is_reset_for_its_next_claim() -> None:
    node = a_node()
    await prepare(node, NIC_CLAIM)
    node.kernel.functions[NIC].tenant = "A"
    node.faults = lambda step: Fault.REFUSED if step.endswith("/reset") else Fault.NONE
    unclean = UncleanDevice("pci-0000-01-00-0", Sanitizing.RESET, (NIC,), "it was in use and hasn't been cleaned since")

    assert await unprepare(node, NIC_CLAIM) == [ReleasedClaim()]
    assert (bindings(node), node.state.unclean) == (UNTOUCHED, {NIC: unclean})

    other = claim("other", "pci-0000-01-00-0", pods=("pod-2",))
    assert await prepare(node, other) == [
        FailedClaim(f"{NIC} can't be reset: /sys/bus/pci/devices/{NIC}/reset: Input/output error (EIO)")
    ]
    assert (bindings(node), tenant_of(node, NIC), node.state.claims) == (UNTOUCHED, "A", {})

    node.faults = no_faults
    assert isinstance((await prepare(node, other))[0], ReadyClaim)
    assert (tenant_of(node, NIC), node.state.unclean) == ("", {})


@pytest.mark.parametrize("fault", [Fault.NONE, Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.REFUSED])
async def test_a_drive_that_is_to_be_erased_is_given_to_nobody_until_it_is(fault: Fault) -> None:
    node = a_node()
    drive = Function(NVME, 13, "nvme", "0x010802", {"nvme": {"nvme0": {"nvme0n1": {}}}})
    node.kernel.remove(NVME)
    node.kernel.add(drive)
    node.devices = (replace(device(NVME), sanitizing=Sanitizing.ERASE),)
    first, second = claim("first", "pci-0000-02-00-0"), claim("second", "pci-0000-02-00-0", pods=("pod-2",))
    await prepare(node, first)
    drive.tenant = "A"
    assert await unprepare(node, first) == [ReleasedClaim()]
    refused = FailedClaim(
        "device pci-0000-02-00-0 is erased before anybody gets it again: it was in use and hasn't been cleaned since; "
        "it is tried again"
    )
    assert await prepare(node, second) == [refused]

    node.faults = lambda step: fault if step.startswith("nvme format") else Fault.NONE
    crashed = False
    try:
        await node.start().repair.erase_unclean()
    except Crash:
        crashed = True
    assert crashed is (fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
    if fault is not Fault.NONE:
        assert await prepare(node, second) == [refused]
        node.faults = no_faults
        node.reboot()
        await node.start().repair.at_start()
        await node.start().repair.erase_unclean()

    assert isinstance((await prepare(node, second))[0], ReadyClaim)
    assert drive.tenant == ""


VF, PF = "0000:07:00.2", "0000:07:00.0"


async def test_a_network_function_has_the_claims_settings_and_gets_its_own_back() -> None:
    node = a_node()
    node.kernel.add(Function(PF, 20, "e1000e", files={"net": {"enp7": {"type": "1"}}, "virtfn1": Link(VF)}))
    node.kernel.add(Function(VF, 21, "e1000e", files={"physfn": Link(PF)}))
    before = {"mac": "02:aa:00:00:00:01", "vlan": 4, "vlanQos": 0, "trust": False}
    node.kernel.vf_settings = {VF: dict(before)}
    node.devices = (PassthroughDevice("vf", DeviceKind.SRIOV, VF, (VF,)),)
    network = {"mac": "02:00:00:00:00:07", "vlan": 100}
    parameters = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "network": network}
    vf = claim("vf", "vf", parameters=parameters)

    assert isinstance((await prepare(node, vf))[0], ReadyClaim)

    assert node.kernel.vf_settings[VF] == {**before, **network}
    (metadata,) = [documents for path, documents in files(node).items() if path.startswith(PLUGIN_FOLDER)]
    assert [document["requests"][0]["devices"][0]["networkData"] for document in metadata] == [
        {"hardwareAddress": "02:00:00:00:00:07"}
    ] * 2
    assert await unprepare(node, vf) == [ReleasedClaim()]
    assert node.kernel.vf_settings[VF] == before
    assert PF not in node.kernel.touched


async def test_settings_that_a_card_doesnt_have_fail_the_claim_by_their_name() -> None:
    node = a_node()
    node.kernel.add(Function(PF, 20, "e1000e", files={"net": {"enp7": {"type": "1"}}, "virtfn1": Link(VF)}))
    node.kernel.add(Function(VF, 21, "e1000e", files={"physfn": Link(PF)}))
    node.kernel.vf_settings = {VF: {"mac": "02:aa:00:00:00:01"}}
    node.devices = (PassthroughDevice("vf", DeviceKind.SRIOV, VF, (VF,)),)
    parameters = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "network": {"trust": True}}
    before = bindings(node)

    assert await prepare(node, claim("vf", "vf", parameters=parameters)) == [
        FailedClaim(f"network function {VF} can't be set through enp7: trust: Operation not supported")
    ]
    assert (bindings(node), node.state.claims) == (before, {})


async def test_claims_that_had_one_name_are_released_at_once_and_leave_nothing() -> None:
    """Their metadata have the same place: the first was deleted by force, and another one made under its name."""
    node = a_node()
    instance = node.start()
    first, second = claim("c", f"{device(NIC).name}"), claim("c", f"{device(NVME).name}", uid="uid-second")
    for made in (first, second):
        node.reader.claims = {("default", "c"): made}
        assert isinstance(await instance.claims.prepare(claim_name(made)), ReadyClaim)
    released = await asyncio.gather(*(instance.claims.unprepare(claim_name(made)) for made in (first, second)))
    assert released == [ReleasedClaim(), ReleasedClaim()]
    assert set(node.disk.contents) == {f"{PLUGIN_FOLDER}/checkpoint.json"}


async def test_a_claim_is_prepared_while_its_predecessor_of_that_name_is_released() -> None:
    node = a_node()
    instance = node.start()
    first, second = claim("c", f"{device(NIC).name}"), claim("c", f"{device(NVME).name}", uid="uid-second")
    node.reader.claims = {("default", "c"): first}
    assert isinstance(await instance.claims.prepare(claim_name(first)), ReadyClaim)
    node.reader.claims = {("default", "c"): second}
    await asyncio.gather(instance.claims.unprepare(claim_name(first)), instance.claims.prepare(claim_name(second)))
    record = node.state.claims["uid-second"]
    assert (record.stage, set(record.files) - node.disk.contents.keys()) == (Stage.DONE, set())
