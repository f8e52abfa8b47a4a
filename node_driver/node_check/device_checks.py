"""Checks of a node's devices: their IOMMU groups, resets and what policies make of them. Pure: facts in, findings
out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from node_driver.devices import PassthroughDevice, Sanitizing
from node_driver.hardware.inventory import LONG_DOMAIN, PciFunction
from node_driver.host.sanitizing import NVME_CLASS
from node_driver.node_check.facts import NodeExamination, NodeFacts
from node_driver.policy.exclusions import ExclusionReason
from virt_dra.api.counting import counted, listed
from virt_dra.api.integration.check_findings import INFO, WARNING, CheckFinding, CheckSubject, Level
from virt_dra.api.integration.mdev_sweep import MadeMdevType, sweep_finding

SHOWN_MAX: Final = 6
"""Devices that a finding names."""
_AS_WANTED: Final = (ExclusionReason.OTHER_NODES, ExclusionReason.NOTHING_SELECTED, ExclusionReason.VFS_ENABLED)
_EXPECTED: Final = frozenset((ExclusionReason.BRIDGE, *_AS_WANTED))
"""Reasons that are as somebody wanted it on many nodes."""
_SAID_ELSEWHERE: Final = frozenset((ExclusionReason.NOT_SELECTED, ExclusionReason.UNREADABLE))
"""Of no interest here, or found by another check."""
_MALFORMED: Final = "look for errors of it: dmesg; a copied tree must have all that the kernel shows"
_VMD: Final = "turn off VMD for it in the firmware's settings: then its address is an ordinary one"
_ACS: Final = (
    "slots of the processor's root ports mostly have ACS, those of the chipset and of plain switches often not"
)


def devices(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether the devices can be read."""
    hardware, subject = node.facts.hardware, CheckSubject("devices", "PCI devices")
    endpoints = [function for function in hardware.functions.values() if not function.is_bridge]
    yield subject.ok(f"{counted(len(endpoints), 'function')} beside bridges")
    for unreadable in hardware.unreadable:
        advice = _VMD if LONG_DOMAIN.fullmatch(unreadable.subject) else _MALFORMED
        yield CheckSubject("devices", unreadable.subject).warning(unreadable.message, advice)


def groups(node: NodeExamination) -> Iterator[CheckFinding]:
    """IOMMU groups that hold more than one card, or something that the node needs."""
    hardware = node.facts.hardware
    fine = 0
    numbers = {function.iommu_group for function in node.endpoints if function.iommu_group is not None}
    for number in sorted(numbers):
        members = [function for function in hardware.group_members(number) if not function.is_bridge]
        needed = [function.address for function in members if function.address in hardware.protected]
        others = [function.address for function in members if function.address not in hardware.protected]
        subject = CheckSubject("groups", f"IOMMU group {number}")
        if needed:
            why = hardware.protected[needed[0]]
            message = f"{_listed(others)} can't be given to VMs: {needed[0]}, in the same group, {why}"
            together = len({function.slot for function in members}) == 1
            cure = "" if together else f"; or put them behind another root port: {_ACS}"
            yield subject.warning(message, f"let the node do without {needed[0]} first{cure}")
        elif len({_card(function) for function in members}) > 1:
            message = f"{_listed(others)} go to one VM together: {_separation(node.facts, others)}"
            advice = f"to give them to different VMs, put them behind different root ports: {_ACS}"
            yield subject.warning(message, advice)
        else:
            fine += 1
    if fine:
        yield CheckSubject("groups", "IOMMU groups").ok(f"{counted(fine, 'group')} with one card each")


def _card(function: PciFunction) -> str:
    """Functions of one slot are one card, which goes as a whole; VFs are made to be given out one by one."""
    return function.address if function.physical_function else function.slot


def _separation(facts: NodeFacts, addresses: Sequence[str]) -> str:
    """What doesn't keep the functions apart."""
    if all(facts.hardware.functions[address].physical_function for address in addresses):
        return "the kernel found no ACS that keeps these virtual functions apart"
    ways = zip(*(facts.bridges.get(address, ()) for address in addresses), strict=False)
    common = [step[0] for step in ways if len(set(step)) == 1]
    where = f"behind {common[-1]}" if common else "behind different root ports"
    return f"they are {where}, and the kernel found no ACS that keeps them apart"


def resets(node: NodeExamination) -> Iterator[CheckFinding]:
    """Devices that can't be reset, and stay unclean after their first use where they are sanitized by reset."""
    facts, subject = node.facts, CheckSubject("reset", "reset")
    found_as_left = "the next VM finds them as the last one left them"
    advice = f"set sanitize: none for devices that one tenant alone uses: {found_as_left}"
    if node.published is None:
        endpoints = node.endpoints
        if without := [f.address for f in endpoints if not _can_reset(facts, f.address, endpoints)]:
            unclean = "they stay unclean after their first use, and aren't given out again"
            message = f"{_listed(without)} can't be reset alone; unless a whole bus is, {unclean}"
            yield subject.info(message, f"in a policy {advice}")
        return
    for device in node.published.devices:
        members = [facts.hardware.functions[address] for address in device.members]
        reset = (function.address for function in members if _is_reset(device, function))
        if without := [address for address in reset if not _can_reset(facts, address, members)]:
            message = f"it stays unclean after its first use, and isn't given out again: no reset of {_listed(without)}"
            yield CheckSubject("reset", f"device {device.name}").warning(message, f"in its policy {advice}")


def _is_reset(device: PassthroughDevice, function: PciFunction) -> bool:
    """Erasing resets what is no NVMe controller."""
    erased = device.sanitizing is Sanitizing.ERASE and function.class_code.startswith(NVME_CLASS)
    return device.sanitizing is not Sanitizing.NONE and not erased


def _can_reset(facts: NodeFacts, address: str, together: Iterable[PciFunction]) -> bool:
    """True if the kernel can reset the function, or the bus with nothing else on it than what goes together."""
    if address in facts.resettable:
        return True
    on_bus = next((facts.resettable_buses.get(bridge) for bridge in facts.bridges.get(address, ())[-1:]), None)
    return on_bus is not None and on_bus <= {function.address for function in together}


def published(node: NodeExamination) -> Iterator[CheckFinding]:
    """What policies publish, and what they name without being able to, in their own words, which end with the cure."""
    if node.published is None:
        return
    number = len(node.published.devices)
    subject = CheckSubject("policy", "policies")
    if number:
        yield subject.ok(f"{counted(number, 'device')} would be published")
    else:
        advice = "virt-dra node-driver --plan -v says of each device why not"
        yield subject.warning("nothing would be published", advice)
    for exclusion in node.published.excluded:
        if exclusion.reason not in _SAID_ELSEWHERE:
            expected = exclusion.reason in _EXPECTED or exclusion.subject in node.wanted_vfs
            level: Level = INFO if expected else WARNING
            yield CheckFinding("policy", level, exclusion.subject, f"not published: {exclusion.message}")


def mdev_sweep(node: NodeExamination) -> Iterator[CheckFinding]:
    """Whether virt-handler removes mdevs that the driver makes (D-60), or could make where no policy is given."""
    types = _mdev_types(node)
    for kubevirt in node.kubevirts if types else ():
        subject = CheckSubject("mdev-sweep", f"KubeVirt {kubevirt.key}")
        yield sweep_finding(kubevirt, node.kubevirt_version, types) or subject.ok("it leaves mdevs of others alone")


def _mdev_types(node: NodeExamination) -> list[MadeMdevType]:
    made = None if node.published is None else {(device.address, device.type_id) for device in node.published.devices}
    return [
        MadeMdevType(frozenset(filter(None, (mdev_type.type_id, mdev_type.name))), node.labels)
        for parent, types in node.facts.hardware.mdev_types.items()
        for mdev_type in types
        if made is None or (parent, mdev_type.type_id) in made
    ]


def _listed(names: Sequence[str]) -> str:
    return listed(names, SHOWN_MAX)
