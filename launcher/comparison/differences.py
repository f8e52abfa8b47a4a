"""How two domains differ in host devices and their placement: by what they mean, not by how they are written.

The order of ``<hostdev>`` elements counts only where libvirt derives guest addresses from it. Indexes of controllers
don't count: a device is where the chain of controllers above it leads, and beside whom it shares its PCIe root with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.comparison.facts import DomainFacts, GuestPlace, HostdevFacts
from virt_dra.api.counting import counted


@dataclass(frozen=True)
class DomainDifference:
    """A fact in which two domains differ. ``ours``, ``other``: None where that domain doesn't have it."""

    path: str
    ours: str | None
    other: str | None

    def __str__(self) -> str:
        if self.ours is None:
            return f"{self.path}: only in the other: {self.other}"
        if self.other is None:
            return f"{self.path}: only in ours: {self.ours}"
        return f"{self.path}: ours {self.ours}, the other {self.other}"


def differences(ours: DomainFacts, other: DomainFacts) -> tuple[DomainDifference, ...]:
    """The differences: of host devices in our order, then those that only the other has, then of placement.

    The other may be a domain that libvirt completed: a guest address that only it has counts only if it is on a NUMA
    cell.
    """
    pairs = tuple(_pairs(ours.hostdevs, other.hostdevs))
    beside = _companions([pair.ours for pair in pairs])
    other_beside = _companions([pair.other for pair in pairs])
    devices = [
        difference
        for number, pair in enumerate(pairs)
        for difference in pair.differences(beside.get(number, ()), other_beside.get(number, ()))
    ]
    return (*devices, *_order(pairs), *_differing("", ours.placement, other.placement))


@dataclass(frozen=True)
class _Pair:
    """A device of ours and that of the other domain which is the same; None where a domain has none."""

    ours: HostdevFacts | None
    other: HostdevFacts | None
    position: int | None
    """Where it is in the other domain."""

    @property
    def label(self) -> str:
        device = self.ours or self.other
        return device.label if device is not None else ""

    def differences(self, beside: Sequence[int], other_beside: Sequence[int]) -> Iterator[DomainDifference]:
        path = f"devices/hostdev[{self.label}]"
        if self.ours is None or self.other is None:
            yield DomainDifference(path, _text(self.ours), _text(self.other))
            return
        facts, others = _facts(self.ours), _facts(self.other)
        yield from _differing(f"{path}/", facts, others)
        mine, theirs = self.ours.place, self.other.place
        if _meaning(mine) != _meaning(theirs) and not (mine is None and theirs is not None and theirs.cell is None):
            yield DomainDifference(f"{path}/address", _place(mine), _place(theirs))
        elif mine is not None and theirs is not None and beside != other_beside:
            yield DomainDifference(f"{path}/address", _sharing(beside), _sharing(other_beside))


def _facts(device: HostdevFacts) -> Mapping[str, str]:
    alias = {"alias/@name": device.alias} if device.alias else {}
    return {"@type": device.type, "source": device.source, **alias, **device.properties}


def _text(device: HostdevFacts | None) -> str | None:
    return None if device is None else f"{device.type} {device.source}"


def _place(place: GuestPlace | None) -> str:
    return "left to libvirt" if place is None else str(place)


def _sharing(devices: Sequence[int]) -> str:
    others = len(devices) - 1
    return f"shares its PCIe root with {counted(others, 'other host device') if others else 'no other host device'}"


def _meaning(place: GuestPlace | None) -> object:
    """The part of an address that counts: all of it on a root, behind a port its function alone, since buses are
    numbered by controllers."""
    if place is None or len(place.chain) < 2:
        return place and (place.address, place.chain, place.cell)
    return place.address.partition(":")[2].partition(":")[2], place.chain, place.cell


def _companions(devices: Sequence[HostdevFacts | None]) -> Mapping[int, tuple[int, ...]]:
    """The devices on the same expander as each device, by its number."""
    roots: dict[int, list[int]] = defaultdict(list)
    for number, device in enumerate(devices):
        if device is not None and device.place is not None and device.place.root:
            roots[device.place.root].append(number)
    return {number: tuple(numbers) for numbers in roots.values() for number in numbers}


def _pairs(ours: Sequence[HostdevFacts], others: Sequence[HostdevFacts]) -> Iterator[_Pair]:
    """Our devices with their counterparts: the same host device, else the one with the same alias; then the devices
    that only the other domain has."""
    left = dict(enumerate(others))
    counterparts: dict[int, int] = {}
    for key in _SAMENESS:
        candidates: dict[object, list[int]] = defaultdict(list)
        for position in reversed(left):
            candidates[key(left[position])].append(position)
        for number, device in enumerate(ours):
            if number not in counterparts and (same := candidates.get(key(device))):
                counterparts[number] = same.pop()
                del left[counterparts[number]]
    for number, device in enumerate(ours):
        same_as = counterparts.get(number)
        yield _Pair(device, None if same_as is None else others[same_as], same_as)
    yield from (_Pair(None, device, position) for position, device in left.items())


_SAMENESS: tuple[Callable[[HostdevFacts], object], ...] = (
    lambda device: (device.type, device.source, device.alias),
    lambda device: (device.type, device.source),
    lambda device: device.label,
)
"""By what a device of one domain is found in the other: the first counts most."""


def _order(pairs: Sequence[_Pair]) -> Iterator[DomainDifference]:
    """A difference in the order of the devices whose guest addresses libvirt derives from it, in both domains."""
    unplaced = [pair for pair in pairs if pair.ours and pair.other and not (pair.ours.place or pair.other.place)]
    others = sorted(unplaced, key=lambda pair: pair.position or 0)
    if others != unplaced:
        ours, theirs = (", ".join(pair.label for pair in order) for order in (unplaced, others))
        yield DomainDifference("devices/hostdev", f"in the order {ours}", f"in the order {theirs}")


def _differing(prefix: str, ours: Mapping[str, str], other: Mapping[str, str]) -> Iterator[DomainDifference]:
    for path in dict.fromkeys((*ours, *other)):
        if ours.get(path) != other.get(path):
            yield DomainDifference(f"{prefix}{path}", ours.get(path), other.get(path))
