"""The checks of a node: what each says of facts that copied trees don't have, or that differ by processor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet, Sanitizing
from node_driver.hardware.inventory import Hardware, PciFunction, UnreadableDevice
from node_driver.node_check import device_checks, kernel_checks
from node_driver.node_check.facts import (
    DeviceNode,
    FileKind,
    HugePages,
    KernelFacts,
    MemoryLock,
    NodeExamination,
    NodeFacts,
)

Levels = list[tuple[str, str]]
GOOD = DeviceNode(FileKind.CHARACTER, 0o666)
GPU, AUDIO, OTHER, PORT = "0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:00:01.0"


def function(address: str, class_code: str = "030000", group: int | None = 1, **values: Any) -> PciFunction:
    return PciFunction(address, "10de", "2684", class_code, iommu_group=group, **values)


def hardware(*functions: PciFunction, **values: Any) -> Hardware:
    return Hardware({item.address: item for item in functions}, **values)


def kernel(**values: Any) -> NodeExamination:
    return NodeExamination(NodeFacts(Hardware(), KernelFacts(**values)))


def device(*members: str, sanitizing: Sanitizing = Sanitizing.RESET) -> PublishedSet:
    return PublishedSet((PassthroughDevice("gpu", DeviceKind.VFIO, members[0], members, sanitizing=sanitizing),))


@pytest.mark.parametrize(
    ("values", "message", "advice"),
    [
        ({"processor": "GenuineIntel", "command_line": ("intel_iommu=on", "iommu=pt,off")},
         "the kernel's command line has iommu=pt,off", "take iommu=pt,off from"),
        ({"processor": "AuthenticAMD", "command_line": ("intel_iommu=off", "amd_iommu=off")},
         "the kernel's command line has amd_iommu=off", "take amd_iommu=off from"),
        ({"processor": "AuthenticAMD", "command_line": ("intel_iommu=off",), "firmware_tables": frozenset(("IVRS",))},
         "the kernel has no IOMMU group", "dmesg"),
        ({"processor": "GenuineIntel", "command_line": ("intel_iommu=off", "intel_iommu=on"),
          "firmware_tables": frozenset(("DMAR",))}, "the kernel has no IOMMU group", "dmesg"),
        ({"processor": "GenuineIntel", "firmware_tables": frozenset(("DMAR", "APIC"))},
         "the command line doesn't have intel_iommu=on", "add intel_iommu=on iommu=pt to"),
        ({"processor": "GenuineIntel"}, "the command line doesn't have intel_iommu=on", "if that doesn't help"),
        ({"processor": "GenuineIntel", "command_line": ("intel_iommu=on",), "firmware_tables": frozenset(("APIC",))},
         "the firmware describes none", "turn on VT-d"),
        ({"command_line": ("xintel_iommu=off", "intel_iommuoff")}, "the kernel has no IOMMU group", "SMMU (ARM)"),
    ],
    ids=["off", "amd", "intel's word on amd", "the last word", "not on", "no tables seen", "firmware", "arm"],
)  # fmt: skip
def test_why_an_iommu_is_off(values: dict[str, Any], message: str, advice: str) -> None:
    (finding,) = kernel_checks.iommu(kernel(**values))
    assert (finding.level, message in finding.message, advice in finding.advice) == ("error", True, True), finding


def test_an_iommu_with_groups_is_on_whatever_else_is_written() -> None:
    (finding,) = kernel_checks.iommu(kernel(command_line=("intel_iommu=off",), iommu_groups=3))
    assert (finding.level, finding.message) == ("ok", "on, 3 IOMMU groups")


def test_a_device_that_cant_be_read_is_damaged_or_behind_vmd() -> None:
    unreadable = [UnreadableDevice(address, "why") for address in ("0000:01:00.0", "10000:e1:00.0")]
    _, *findings = device_checks.devices(NodeExamination(NodeFacts(Hardware(unreadable=tuple(unreadable)))))
    assert [(finding.level, finding.advice) for finding in findings] == [
        ("warning", "look for errors of it: dmesg; a copied tree must have all that the kernel shows"),
        ("warning", "turn off VMD for it in the firmware's settings: then its address is an ordinary one"),
    ]


@pytest.mark.parametrize(
    ("nodes", "drivers", "levels"),
    [
        ({"/dev/vfio/vfio": GOOD, "/dev/vfio/7": DeviceNode(FileKind.CHARACTER, 0o600)}, ["vfio-pci"],
         [("/dev/vfio/vfio", "ok")]),
        ({"/dev/vfio/vfio": DeviceNode(FileKind.CHARACTER, 0o600)}, ["vfio-pci"], [("/dev/vfio/vfio", "warning")]),
        ({"/dev/vfio/vfio": DeviceNode(FileKind.OTHER, 0o666)}, ["vfio-pci"], [("/dev/vfio/vfio", "error")]),
        ({"/dev/vfio/vfio": DeviceNode()}, ["vfio-pci"], [("/dev/vfio/vfio", "error")]),
        ({"/dev/vfio/vfio": DeviceNode()}, [], []),
        ({"/dev/vfio/vfio": GOOD, "/dev/vfio/7": DeviceNode(), "/dev/vfio/8": DeviceNode(FileKind.OTHER)}, ["vfio-pci"],
         [("/dev/vfio/vfio", "ok"), ("/dev/vfio/7", "error"), ("/dev/vfio/8", "error")]),
    ],
    ids=["good", "mode", "a file", "missing", "missing with its driver", "groups"],
)  # fmt: skip
def test_device_nodes_of_vfio(nodes: dict[str, DeviceNode], drivers: list[str], levels: Levels) -> None:
    facts = NodeFacts(Hardware(), KernelFacts(pci_drivers=frozenset(drivers)), device_nodes={"/dev/kvm": GOOD, **nodes})
    findings = kernel_checks.device_nodes(NodeExamination(facts))
    assert [(finding.where, finding.level) for finding in findings] == levels


@pytest.mark.parametrize(
    ("node", "virtualization", "level", "advice"),
    [
        (GOOD, True, "ok", ""),
        (GOOD, None, "ok", ""),
        (DeviceNode(), False, "error", "VT-x"),
        (DeviceNode(), True, "error", "modprobe kvm_amd"),
        (DeviceNode(FileKind.OTHER, 0o644), None, "error", "remove it"),
    ],
)
def test_kvm(node: DeviceNode, virtualization: bool | None, level: str, advice: str) -> None:
    facts = NodeFacts(
        Hardware(),
        KernelFacts(processor="AuthenticAMD", virtualization=virtualization),
        device_nodes={"/dev/kvm": node, "/dev/vfio/vfio": GOOD},
    )
    (finding,) = kernel_checks.kvm(NodeExamination(facts))
    assert (finding.level, advice in finding.advice) == (level, True), finding


@pytest.mark.parametrize(
    ("limit", "level", "message"),
    [
        (None, "ok", "any amount"),
        (1024**3 + 64 * 1024**2 - 1, "warning", "enough for no guest"),
        (1024**3 + 64 * 1024**2, "warning", "guests of 64 MiB at most"),
        (65 * 1024**3, "warning", "guests of 64 GiB at most"),
    ],
)
def test_a_launcher_locks_the_guests_memory_and_a_gib(limit: int | None, level: str, message: str) -> None:
    (finding,) = kernel_checks.locked_memory(
        NodeExamination(NodeFacts(Hardware(), runtimes=(MemoryLock("containerd", limit),) * 2))
    )
    assert (finding.level, message in finding.message) == (level, True), finding


@pytest.mark.parametrize(
    ("runtime", "version", "level", "message"),
    [
        ("containerd", "1.6.20", "error", "version 1.6.20 doesn't give containers the devices of claims (CDI)"),
        (
            "containerd",
            "1.7.27",
            "info",
            "version 1.7.27 gives containers the devices of claims (CDI) where its configuration says so",
        ),
        ("containerd", "2.1", "ok", "version 2.1 gives containers the devices of claims (CDI)"),
        ("crio", "1.9.4", "error", "version 1.9.4 doesn't give containers the devices of claims (CDI)"),
        ("crio", "1.34.0", "ok", "version 1.34.0 gives containers the devices of claims (CDI)"),
    ],
)
def test_a_container_runtime_must_know_cdi(runtime: str, version: str, level: str, message: str) -> None:
    """By its own version: before, it ignores CDI devices (D-33)."""
    programs = {"QEMU": "8.2.1", "containerd": "1.0", "crio": "1.0", runtime: version}
    facts = NodeFacts(Hardware(), runtimes=(MemoryLock(runtime, None),), programs=programs)
    findings = kernel_checks.container_runtimes(NodeExamination(facts))
    assert [(finding.where, finding.level, finding.message) for finding in findings] == [(runtime, level, message)]
    unknown = replace(facts, programs={runtime: ""})
    assert list(kernel_checks.container_runtimes(NodeExamination(unknown))) == []
    assert [finding.where for finding in kernel_checks.programs(NodeExamination(facts))] == ["QEMU"]


def test_every_size_of_huge_pages_is_looked_at() -> None:
    facts = NodeFacts(Hardware(), huge_pages=(HugePages(2048, 8, 0), HugePages(64, 0, 0), HugePages(1048576, 2, 1)))
    findings = kernel_checks.huge_pages(NodeExamination(facts))
    assert [(finding.level, finding.message) for finding in findings] == [
        ("warning", "all 8 of 2 MiB are in use"),
        ("ok", "1 of 2 of 1 GiB are free"),
    ]


def test_a_published_device_needs_its_own_driver() -> None:
    published = device(GPU)
    wanted = PublishedSet((replace(published.devices[0], target_driver="mlx5_vfio_pci"),))
    facts = NodeFacts(Hardware(), KernelFacts(release="6.8", pci_drivers=frozenset(("vfio-pci",)), modules=frozenset()))
    findings = kernel_checks.vfio(NodeExamination(facts, wanted))
    assert [(finding.where, finding.message) for finding in findings] == [
        ("driver mlx5_vfio_pci", "not loaded, and kernel 6.8 has no module mlx5_vfio_pci")
    ]


def groups_of(node: NodeExamination) -> Levels:
    return [(finding.level, finding.message) for finding in device_checks.groups(node)]


def test_cards_that_share_a_group_are_named_with_the_bridge_that_they_are_behind() -> None:
    functions = (function(PORT, "060400"), function(GPU), function(AUDIO), function(OTHER))
    facts = NodeFacts(hardware(*functions), bridges={GPU: (PORT,), AUDIO: (PORT,), OTHER: (PORT, "0000:01:01.0")})
    together = f"{GPU}, {AUDIO}, {OTHER} go to one VM together: they are behind"
    kept = "and the kernel found no ACS that keeps them apart"
    assert groups_of(NodeExamination(facts)) == [("warning", f"{together} {PORT}, {kept}")]
    apart = replace(facts, bridges={GPU: (PORT,), AUDIO: (PORT,), OTHER: ("0000:00:02.0",)})
    assert groups_of(NodeExamination(apart)) == [("warning", f"{together} different root ports, {kept}")]


def test_functions_of_one_card_may_share_a_group_and_virtual_functions_may_not() -> None:
    card = hardware(function(GPU), function(AUDIO))
    assert groups_of(NodeExamination(NodeFacts(card))) == [("ok", "1 group with one card each")]
    vfs = hardware(*(function(address, physical_function="0000:09:00.0") for address in (GPU, AUDIO)))
    message = f"{GPU}, {AUDIO} go to one VM together: the kernel found no ACS that keeps these virtual functions apart"
    assert groups_of(NodeExamination(NodeFacts(vfs))) == [("warning", message)]


def test_what_the_node_needs_keeps_its_group() -> None:
    card = hardware(function(GPU), function(AUDIO), protected={GPU: "is the node's console: it has tty0"})
    (finding,) = device_checks.groups(NodeExamination(NodeFacts(card)))
    assert finding.level == "warning"
    assert finding.message == (
        f"{AUDIO} can't be given to VMs: {GPU}, in the same group, is the node's console: it has tty0"
    )
    assert finding.advice == f"let the node do without {GPU} first"


@pytest.mark.parametrize(
    ("facts", "sanitizing", "levels"),
    [
        ({}, Sanitizing.RESET, ["warning"]),
        ({}, Sanitizing.ERASE, ["warning"]),
        ({}, Sanitizing.NONE, []),
        ({"resettable": frozenset((GPU,))}, Sanitizing.RESET, ["warning"]),
        ({"resettable": frozenset((GPU, AUDIO))}, Sanitizing.RESET, []),
        ({"resettable_buses": {PORT: frozenset((GPU, AUDIO))}}, Sanitizing.RESET, []),
        ({"resettable_buses": {PORT: frozenset((GPU, AUDIO, OTHER))}}, Sanitizing.RESET, ["warning"]),
        ({"resettable_buses": {PORT: frozenset()}, "bridges": {}}, Sanitizing.RESET, ["warning"]),
    ],
    ids=["no way", "erased", "not at all", "one of two", "both", "the bus", "a foreign bus", "no bus"],
)
def test_what_can_not_be_reset_stays_unclean(facts: dict[str, Any], sanitizing: Sanitizing, levels: list[str]) -> None:
    node = NodeFacts(
        hardware(function(GPU), function(AUDIO), function(OTHER)),
        **{"bridges": dict.fromkeys((GPU, AUDIO, OTHER), (PORT,)), **facts},
    )
    findings = device_checks.resets(NodeExamination(node, device(GPU, AUDIO, sanitizing=sanitizing)))
    assert [finding.level for finding in findings] == levels


def test_an_erased_nvme_drive_needs_no_reset() -> None:
    node = NodeFacts(hardware(function(GPU, "010802")))
    assert list(device_checks.resets(NodeExamination(node, device(GPU, sanitizing=Sanitizing.ERASE)))) == []
