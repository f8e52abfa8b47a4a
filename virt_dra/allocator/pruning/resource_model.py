"""The constraints of a problem as resources and labels, which is all that the lower bounds see of it.

A *resource* is something of which there is a limited amount (`model.ResourceConsumer`): a device, an attribute value
that must be distinct, a counter, the capacity of a shared device. A *label* is something that devices must share
(`model.DeviceLabeler`). Sets of devices are bit sets, kept in integers: bit i stands for the i-th device met. Nothing
here depends on what is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from virt_dra.allocator.model import DeviceLabeler, PoolDevice, ResourceConsumer, Slots
from virt_dra.allocator.pruning.bin_packing import ItemSizes
from virt_dra.allocator.pruning.interchangeability import Broken, Interchangeability
from virt_dra.allocator.pruning_port import Problem

ResourceType = tuple[int, Hashable]
"""The number of the check that counts the resource, and `Take.of`. Amounts of one type can be summed."""


@dataclass(slots=True)
class LimitedResource:
    type: ResourceType
    left: int
    users: dict[int, dict[int, int]] = field(default_factory=dict)
    """Amount -> request group -> the devices that take it."""

    @property
    def scarcity(self) -> tuple[int, int]:
        """The lower, the sooner it is used up."""
        users = sum(devices.bit_count() for by_group in self.users.values() for devices in by_group.values())
        return self.left // min(self.users), -users

    @property
    def belongs_to_one(self) -> bool:
        """True if there is one unit of it, which only one device takes."""
        return self.left == 1 and list(self.users) == [1] and union(self.users[1].values()).bit_count() == 1


@dataclass(slots=True)
class GroupDomain:
    """The devices that a request group can have."""

    devices: int = 0
    candidate_bits: list[int] = field(default_factory=list)
    """The bit of each candidate, 0 for one that can never be chosen."""
    consumption: dict[PoolDevice, list[tuple[int, int]]] = field(default_factory=dict)
    """Device -> what it takes: numbers of resources, with amounts."""
    labels: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    """Check -> label -> the devices that have it. Checks that don't cover the requests are missing."""
    labels_of: dict[tuple[int, PoolDevice], frozenset[Hashable]] = field(default_factory=dict)
    scarcest: dict[int, dict[int, int]] = field(default_factory=dict)
    """Check -> resource -> the devices of which it is the scarcest resource."""
    amounts: dict[ResourceType, list[tuple[int, int]]] = field(default_factory=dict)
    """Type of resource -> amounts, the smallest first, each with the devices that take this amount."""


class ResourceModel:
    """The resources, labels and domains of the entries read so far; `read` adds more."""

    def __init__(self, problem: Problem, symmetry: Interchangeability) -> None:
        self._problem = problem
        self._symmetry = symmetry
        numbers: dict[int, int] = {}
        self._consuming: list[list[tuple[int, ResourceConsumer]]] = []
        """Per claim. A check that several claims have in common has one number."""
        self._agreeing: list[list[tuple[int, DeviceLabeler]]] = []
        for of_claim in problem.checks:
            for check in of_claim:
                numbers.setdefault(id(check), len(numbers))
            self._consuming.append([(numbers[id(check)], check) for check in of_claim if _consumes(check)])
            self._agreeing.append([(numbers[id(check)], check) for check in of_claim if _agrees(check)])
        self._numbers: dict[tuple[int, Hashable, Hashable], int] = {}
        self.bits: dict[PoolDevice, int] = {}
        self.groups: dict[int, GroupDomain] = {}
        self.resources: list[LimitedResource] = []
        self.single: frozenset[int] = frozenset()
        """Checks with resources of one type, of which each has one unit and belongs to one device: such as whether a
        device is free."""
        self.summed: dict[ResourceType, list[int]] = {}
        """Type -> those of its resources that aren't a single unit, for which a sum says more than counting them."""
        self.bins: dict[int, list[tuple[tuple[int, ...], ItemSizes]]] = {}
        """Check -> the devices that have resources of their own for several requests: these, and what each group takes
        of them."""
        self._read_up_to = 0

    def read(self, last: int) -> bool:
        """Read the entries up to ``last``. False if they were read before."""
        if last < self._read_up_to:
            return False
        for entry in self._problem.entries[self._read_up_to : last + 1]:
            for slots in entry.plan.alternatives:
                number = self._symmetry.group(slots.request)
                if number not in self.groups:
                    self.groups[number] = self._domain(number, slots)
        self._read_up_to = last + 1
        self._derive()
        return True

    def _domain(self, number: int, slots: Slots) -> GroupDomain:
        group = GroupDomain()
        request = slots.request
        for device in self._problem.devices(slots):
            key = self._symmetry.key(request, device)
            if key is None or isinstance(key, Broken):
                group.candidate_bits.append(0)
                continue
            bit = self.bits.setdefault(device, 1 << len(self.bits))
            group.candidate_bits.append(bit)
            group.devices |= bit
            consumption = group.consumption[device] = []
            if self._symmetry.reportable(request):
                # whether it can be had isn't known (its key may hide a refusal), so it counts as taking nothing
                continue
            for check, consumes in self._consuming[request.claim_index]:
                for take in consumes.takes(request, device):
                    consumption.append((self._resource(check, take.of, take.at, take.left), take.amount))
            for resource, amount in consumption:
                users = self.resources[resource].users.setdefault(amount, {})
                users[number] = users.get(number, 0) | bit
            for check, agrees in self._agreeing[request.claim_index]:
                labels = agrees.labels(request, device)
                if labels is None:
                    continue
                of_label = group.labels.setdefault(check, {})
                for label in labels:
                    of_label[label] = of_label.get(label, 0) | bit
                group.labels_of[check, device] = frozenset(labels)
        return group

    def _resource(self, check: int, of: Hashable, at: Hashable, left: int) -> int:
        number = self._numbers.setdefault((check, of, at), len(self.resources))
        if number == len(self.resources):
            self.resources.append(LimitedResource((check, of), left))
        return number

    def _derive(self) -> None:
        types = {resource.type for resource in self.resources}
        several = {resource.type[0] for resource in self.resources if not resource.belongs_to_one}
        types_of_check = Counter(check for check, _ in types)
        several |= {check for check, count in types_of_check.items() if count > 1}
        self.single = frozenset(types_of_check) - several
        self.bins = self._find_bins()
        self.summed = {}
        for number, resource in enumerate(self.resources):
            if resource.left != 1 or 1 not in resource.users:
                self.summed.setdefault(resource.type, []).append(number)
        scarcity = [resource.scarcity for resource in self.resources]
        summed = {number for numbers in self.summed.values() for number in numbers}
        for group in self.groups.values():
            self._derive_group(group, scarcity, summed)

    def _derive_group(self, group: GroupDomain, scarcity: Sequence[tuple[int, int]], summed: set[int]) -> None:
        """Per device and check the scarcest resource; per type of resource the amounts that devices take."""
        group.scarcest = {}
        by_amount: dict[ResourceType, dict[int, int]] = {}
        for device, consumption in group.consumption.items():
            bit = self.bits[device]
            scarcest: dict[int, int] = {}
            amounts: dict[ResourceType, int] = {}
            for number, amount in consumption:
                type_ = self.resources[number].type
                best = scarcest.get(type_[0])
                if best is None or scarcity[number] < scarcity[best]:
                    scarcest[type_[0]] = number
                if number in summed:
                    amounts[type_] = amounts.get(type_, 0) + amount
            for check, number in scarcest.items():
                users = group.scarcest.setdefault(check, {})
                users[number] = users.get(number, 0) | bit
            for type_, amount in amounts.items():
                of_amount = by_amount.setdefault(type_, {})
                of_amount[amount] = of_amount.get(amount, 0) | bit
        group.amounts = {type_: sorted(of_amount.items()) for type_, of_amount in by_amount.items()}

    def _find_bins(self) -> dict[int, list[tuple[tuple[int, ...], ItemSizes]]]:
        owners = [
            union(devices for users in resource.users.values() for devices in users.values())
            for resource in self.resources
        ]
        shared = {resource.type[0] for resource in self.resources} - self.single
        shared -= {
            resource.type[0]
            for resource, devices in zip(self.resources, owners, strict=True)
            if devices.bit_count() != 1
        }
        numbers: dict[tuple[int, int], list[int]] = {}
        for number, resource in enumerate(self.resources):
            if resource.type[0] in shared:
                numbers.setdefault((resource.type[0], owners[number]), []).append(number)
        bins: dict[int, list[tuple[tuple[int, ...], ItemSizes]]] = {}
        for (check, _), own in numbers.items():
            sizes: dict[int, list[int]] = {}
            for dimension, number in enumerate(own):
                for amount, users in self.resources[number].users.items():
                    for group in users:
                        sizes.setdefault(group, [0] * len(own))[dimension] = amount
            bins.setdefault(check, []).append(
                (tuple(own), tuple((group, tuple(amounts)) for group, amounts in sorted(sizes.items())))
            )
        return bins


def _consumes(check: object) -> TypeGuard[ResourceConsumer]:
    return hasattr(check, "takes")  # isinstance of a runtime protocol is slower than all the rest


def _agrees(check: object) -> TypeGuard[DeviceLabeler]:
    return hasattr(check, "labels")


def union(sets: Iterable[int]) -> int:
    """The union of sets of devices."""
    members = 0
    for devices in sets:
        members |= devices
    return members
