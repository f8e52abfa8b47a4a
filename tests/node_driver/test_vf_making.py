"""VFs by policy: made when the driver starts, and never taken away from whoever has one (D-48)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from devtools.node.faults import Fault, no_faults
from devtools.node.kernel import Function, Kernel
from devtools.node.world import DRIVER, NODE, Node, claim, claim_name
from node_driver.daemon import DaemonSettings, DeviceSurvey
from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.hardware.inventory import Hardware, VfCount
from node_driver.metrics import DriverMetrics
from node_driver.policy.deciding import published_set, wanted_vfs
from node_driver.publishing import Publisher
from node_driver.wire.service import FailedClaim, ReadyClaim
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.cluster.memory.embedded import embedded_cluster

PORT, NIC = "0000:08:00.0", "0000:01:00.0"
VF = "0000:08:00.1"
CARD_TEXT = "its virtual functions are published in its place"
AGAIN = "; the driver tries it again when it starts"


class Policies:
    """One policy, which may be edited."""

    def __init__(self, number: int) -> None:
        self.number = number

    def _policies(self) -> list[VirtDraNodePolicy]:
        ports = {"name": "ports", "select": [{"address": PORT}], "numVFs": self.number}
        spec = {"deviceSets": [ports, {"name": "nics", "select": [{"address": NIC}]}]}
        document: dict[str, Any] = {
            "apiVersion": "virt-dra.io/v1alpha1", "kind": "VirtDraNodePolicy", "metadata": {"name": "p"}, "spec": spec,
        }  # fmt: skip
        return [VirtDraNodePolicy.from_wire(document)]

    def published(self, hardware: Hardware) -> PublishedSet:
        return published_set(hardware, self._policies())

    def wanted_vfs(self, hardware: Hardware) -> Mapping[str, VfCount]:
        return wanted_vfs(hardware, self._policies())

    async def changed(self) -> None:
        await asyncio.Event().wait()


class NodeHardware:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def read(self) -> Hardware:
        return self._node.hardware

    async def read_again(self, earlier: Hardware, touched: frozenset[str]) -> Hardware:
        return self._node.hardware

    async def links(self) -> Mapping[str, bool]:
        return {}

    async def changed(self) -> None:
        await asyncio.Event().wait()


def a_node(number: int = 0) -> Node:
    """With a port that can have three VFs and has ``number``, and a network card."""
    node = Node(kernel=Kernel())
    node.kernel.add(Function(PORT, 20, "e1000e", total_vfs=3))
    node.kernel.add(Function(NIC, 12, "e1000e"))
    node.kernel.functions[PORT].probes_vfs = False
    node.kernel.make_vfs(node.kernel.functions[PORT], number)
    return node


async def started(node: Node, policies: Policies) -> DeviceSurvey:
    """A driver that has just started, and what it publishes."""
    instance = node.start()
    await instance.repair.at_start()
    metrics = DriverMetrics()
    publisher = Publisher(embedded_cluster(), DRIVER, NODE, observer=metrics)
    survey = DeviceSurvey(
        DaemonSettings(DRIVER, NODE), NodeHardware(node), policies, instance.host, instance.vfs, instance.checkpoint,
        publisher, metrics,
    )  # fmt: skip
    await survey.look()
    node.devices = survey.published().devices
    return survey


def published(survey: DeviceSurvey) -> tuple[list[str], str]:
    """The names of devices, and what is said of the port."""
    excluded = [exclusion.message for exclusion in survey.published().excluded if exclusion.subject == PORT]
    return [device.name.removeprefix("pci-0000-") for device in survey.published().devices], "".join(excluded)


async def prepared(node: Node, number: int) -> ReadyClaim | FailedClaim:
    wanted = claim(f"c{number}", f"pci-0000-08-00-{number}")
    node.reader.claims["default", f"c{number}"] = wanted
    return await node.start().claims.prepare(claim_name(wanted))


async def test_a_driver_that_starts_makes_vfs_and_publishes_them_unbound() -> None:
    node = a_node()
    survey = await started(node, Policies(2))
    assert published(survey) == (["01-00-0", "08-00-1", "08-00-2"], CARD_TEXT)
    assert {address: function.driver for address, function in node.kernel.functions.items()} == {
        PORT: "e1000e", NIC: "e1000e", "0000:08:00.1": "", "0000:08:00.2": "",
    }  # fmt: skip
    assert isinstance(await prepared(node, 1), ReadyClaim)
    assert node.kernel.functions[VF].driver == "vfio-pci"


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 0)])
async def test_another_number_is_made_at_the_next_start(before: int, after: int) -> None:
    node, policies = a_node(before), Policies(before)
    survey = await started(node, policies)
    policies.number = after
    await survey.look()
    names = [f"08-00-{number}" for number in range(1, before + 1)]
    waits = f"it has {before} virtual functions; the driver makes {after} when it starts and none is in use"
    assert published(survey) == (["01-00-0", *names], waits), "a scheduler may just have given one away"
    names = [f"08-00-{number}" for number in range(1, after + 1)]
    assert published(await started(node, policies)) == (["01-00-0", *names], CARD_TEXT)


async def test_a_policy_that_comes_later_gives_vfs_to_a_port_that_has_none() -> None:
    node, policies = a_node(), Policies(0)
    survey = await started(node, policies)
    policies.number = 1
    await survey.look()
    assert published(survey) == (["01-00-0", "08-00-1"], CARD_TEXT)


async def test_vfs_that_a_claim_has_stay() -> None:
    node = a_node(2)
    await started(node, Policies(2))
    assert isinstance(await prepared(node, 2), ReadyClaim)
    survey = await started(node, Policies(3))
    assert published(survey) == (
        ["01-00-0", "08-00-1", "08-00-2"],
        "it can't be given its virtual functions: device pci-0000-08-00-2 is in use by ResourceClaim default/c2"
        + AGAIN,
    )
    assert node.kernel.functions["0000:08:00.2"].driver == "vfio-pci"


async def test_vfs_that_the_node_or_a_process_uses_stay() -> None:
    def interface_in_a_pod(kernel: Kernel) -> None:
        kernel.functions[VF].driver = "e1000e"
        kernel.functions[VF].files["net"] = {}

    def held_through_vfio(kernel: Kernel) -> None:
        kernel.functions[VF].driver = "vfio-pci"
        kernel.open_nodes[f"/dev/vfio/{kernel.functions[VF].group}"] = "qemu (7)"

    said = {}
    for use in (interface_in_a_pod, held_through_vfio):
        node = a_node(2)
        use(node.kernel)
        said[use.__name__] = published(await started(node, Policies(1)))[1]
        assert node.kernel.functions[PORT].virtual_functions == [VF, "0000:08:00.2"]
    assert said == {
        "interface_in_a_pod": f"it can't be given its virtual functions: {VF} is in use: its interface is in "
        f"another network namespace, such as a pod's; take it back first{AGAIN}",
        "held_through_vfio": f"it can't be given its virtual functions: {VF} is held by qemu (7); end the process "
        f"first{AGAIN}",
    }


async def test_a_port_that_refuses_is_said_and_the_rest_is_published() -> None:
    node = a_node()
    node.kernel.functions[PORT].natural = "another"  # the driver that has it can't make VFs
    assert published(await started(node, Policies(2))) == (
        ["01-00-0"],
        f"it can't be given its virtual functions: {PORT} can't be given 2 virtual functions: "
        f"/sys/bus/pci/devices/{PORT}/sriov_numvfs: No such file or directory (ENOENT); the node's kernel log says why"
        + AGAIN,
    )


async def test_a_vf_that_a_stuck_change_may_take_away_is_given_to_nobody() -> None:
    node = a_node(2)
    node.faults = lambda step: Fault.STUCK if step.endswith("numvfs") else Fault.NONE
    survey = await started(node, Policies(3))
    stuck = f"the kernel hasn't finished changing {PORT} within 15 s"
    assert published(survey)[1] == f"it can't be given its virtual functions: {stuck}{AGAIN}"
    node.faults = no_faults
    assert await prepared(node, 1) == FailedClaim(stuck)
    node.kernel.settle()
    assert isinstance(await prepared(node, 1), ReadyClaim)
    await survey.look()
    assert published(survey) == (["01-00-0", "08-00-1", "08-00-2", "08-00-3"], CARD_TEXT)


async def test_after_a_reboot_a_claim_finds_its_vf_again() -> None:
    node = a_node()
    await started(node, Policies(2))
    await prepared(node, 2)
    node.reboot()
    assert node.kernel.functions[PORT].virtual_functions == []
    await started(node, Policies(2))
    assert isinstance(await prepared(node, 2), ReadyClaim)


async def test_an_mdev_of_a_vf_is_made_only_once_nobody_takes_that_vf_away() -> None:
    node = a_node(2)
    node.devices = (PassthroughDevice("mdev", DeviceKind.MDEV, VF, type_id="nvidia-63"),)
    node.kernel.mdev_types = {VF: {"nvidia-63": 1}}
    wanted = claim("c", "mdev")
    node.reader.claims["default", "c"] = wanted
    async with node.locks.hold((VF,), limit=1.0):  # as whoever makes VFs does
        preparing = asyncio.create_task(node.start().claims.prepare(claim_name(wanted)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert (preparing.done(), node.kernel.mdevs, node.state.claims) == (False, {}, {})
    assert isinstance(await preparing, ReadyClaim)
    assert [mdev.parent for mdev in node.kernel.mdevs.values()] == [VF]
