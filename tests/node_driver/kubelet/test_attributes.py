"""Standard attributes of devices against Kubernetes' helper, over random machines (D-40, D-59)."""

from __future__ import annotations

from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest

from devtools.upstream.kubelet.witness import running_kubelet
from node_driver.devices import DeviceKind
from node_driver.hardware.reading import read_hardware
from node_driver.policy.attributes import function_attributes
from tests.node_driver.machine_trees import described_machine

pytestmark = pytest.mark.go
STANDARD = "resource.kubernetes.io"
MACHINES, NODES, CPUS = 30, 6, 3


def random_machine(random: Random) -> dict[str, Any]:
    """Functions below roots and bridges, on nodes of some sockets; some nodes have no processors, some no distances."""
    files = {}
    for node in range(NODES):
        folder, first = f"devices/system/node/node{node}", node * CPUS
        distances = ["10" if other == node else str(random.choice([12, 12, 21, 31])) for other in range(NODES)]
        if random.random() < 0.9:
            files[f"{folder}/distance"] = " ".join(distances[: random.choice([NODES, NODES, node + 1])])
        files[f"{folder}/cpulist"] = random.choice(["", *[f"{first}-{first + CPUS - 1}"] * 4])
        socket = str(random.randrange(2))
        for cpu in range(first, first + CPUS):
            files[f"devices/system/cpu/cpu{cpu}/topology/physical_package_id"] = socket
    bridge = {"class": "060400", "root": "pci0000:40"}
    functions: dict[str, dict[str, str]] = {"0000:40:01.0": bridge}
    for number in range(NODES + 3):
        numa = {"numa": str(random.randrange(-1, NODES))}
        functions[f"0000:41:{number:02x}.0"] = {"behind": "0000:40:01.0"} | numa
        functions[f"{number:04x}:a0:1f.{number % 8}"] = {"root": f"pci{number:04x}:a0"} | numa
    return {"functions": functions, "files": files}


async def test_addresses_roots_and_numa_nodes_are_those_of_kubernetes_helper(program: Path, folder: Path) -> None:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown where the test fails
    random = Random(seed)
    async with running_kubelet(program, folder / "log") as judge:
        for number in range(MACHINES):
            tree = described_machine(random_machine(random), folder / str(number))
            hardware = read_hardware(tree.roots)
            addresses = list(hardware.functions)
            theirs = await judge.ask("device-attributes", folder=str(tree.sysfs), devices=addresses)
            for address in addresses:
                assert _ours(hardware, address) == _plain(theirs[address]), (seed, number, address)


def _ours(hardware: Any, address: str) -> dict[str, Any]:
    function = hardware.functions[address]
    scalar, listed = (
        function_attributes(function, (), DeviceKind.VFIO, hardware, lists=lists) for lists in (False, True)
    )
    numa = f"{STANDARD}/numaNode"
    values = {name: scalar[f"{STANDARD}/{name}"].to_wire() for name in ("pciBusID", "pcieRoot")}
    if numa in scalar:
        values |= {"scalar": scalar[numa].to_wire(), "list": listed[numa].to_wire()}
    return values


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """The helper's answers; where it refuses the list form, the device's own node alone, and none for -1."""
    values = {name: attributes[f"{STANDARD}/{name}"] for name in ("pciBusID", "pcieRoot")}
    scalar, listed = attributes["numaNode scalar"], attributes["numaNode list"]
    if isinstance(scalar, str):
        return values
    return values | {"scalar": scalar, "list": {"ints": [scalar["int"]]} if isinstance(listed, str) else listed}
