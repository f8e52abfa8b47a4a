"""Whether too little is left: counting that proves, before it is tried, that what is chosen can't be completed.

Each of these leaves something out of account, so it may see no way to refuse where there is no solution; where it refuses there is none:
* devices must have something in common (`model.Agrees`): then all come from the devices with one label, and each label is tried;
* of a resource there is only so much (`model.Consumes`): of each check a device takes a unit of its scarcest resource, and the units must
  suffice for all requests together (matching.py);
* amounts add up: the smallest amounts that the requests can do with must not exceed what is left altogether.

Bits stand for devices (bit i: the i-th device met). All of it follows from the choices made; nothing here has to be undone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from virt_dra.allocator.model import RESULT_LIMIT, Agrees, Check, Choice, Consumes, Device, Slots
from virt_dra.allocator.pruning import bin_packing as packing
from virt_dra.allocator.pruning.interchangeability import Broken, Entry, Kinds
from virt_dra.allocator.pruning.matching import satisfiable
from virt_dra.allocator.steps import Enter

_TRIED_LABELS = 1_000
"""Labels that are tried before a prefix is taken to be completable."""


_WEIGHED = 32
"""Of so many questions that counting can't answer one is weighed (packing.py); of fewer, the more often that was in vain."""
_WEIGHINGS = 4
"""Weighings that are kept."""


class _Option(NamedTuple):
    """What one alternative still needs: so many devices of a look, among these."""

    look: int
    need: int
    devices: int


_Demand = tuple[_Option, ...]
"""One alternative of these must be met."""


@dataclass(slots=True)
class _Resource:
    kind: tuple[int, Hashable]
    """The check that keeps it, and what it is."""
    left: int
    users: dict[int, dict[int, int]] = field(default_factory=dict)
    """Amount -> look -> the devices that take it."""

    @property
    def scarcity(self) -> tuple[int, int]:
        """The lower, the sooner it is used up."""
        users = sum(devices.bit_count() for each in self.users.values() for devices in each.values())
        return self.left // min(self.users), -users


@dataclass(slots=True)
class _Look:
    """A look's devices and what is known of them."""

    devices: int = 0
    bits: list[int] = field(default_factory=list)
    """Per candidate its bit, 0 for one that can't be had."""
    takes: dict[Device, list[tuple[int, int]]] = field(default_factory=dict)
    """Numbers of resources, and amounts."""
    labels: dict[int, dict[Hashable, int]] = field(default_factory=dict)
    """Agreement -> label -> the devices that have it. Agreements that don't cover the requests are missing."""
    labels_of: dict[tuple[int, Device], frozenset[Hashable]] = field(default_factory=dict)
    cells: dict[int, dict[int, int]] = field(default_factory=dict)
    """Check -> resource -> the devices that count as its users."""
    costs: dict[tuple[int, Hashable], list[tuple[int, int]]] = field(default_factory=dict)
    """Kind of resource -> amounts, the smallest first, each with the devices that take so much."""


class Bounds:
    def __init__(self, entries: Sequence[Entry], kinds: Kinds, checks: Sequence[Sequence[Check]], spend: Callable[[int], None]) -> None:
        self._entries = entries
        self._kinds = kinds
        self._spend = spend
        numbers: dict[int, int] = {}
        self._consuming: list[list[tuple[int, Consumes]]] = []
        """Per claim. A check that several claims have in common has one number."""
        self._agreeing: list[list[tuple[int, Agrees]]] = []
        for of_claim in checks:
            for check in of_claim:
                numbers.setdefault(id(check), len(numbers))
            self._consuming.append([(numbers[id(check)], check) for check in of_claim if _consumes(check)])
            self._agreeing.append([(numbers[id(check)], check) for check in of_claim if _agrees(check)])
        self._looks: dict[int, _Look] = {}
        self._bits: dict[Device, int] = {}
        self._resources: list[_Resource] = []
        self._numbers: dict[tuple[int, Hashable, Hashable], int] = {}
        self._single: frozenset[int] = frozenset()
        """Checks with resources of one kind, of which each has one unit and belongs to one device: such as whether a device is free."""
        self._units: dict[int, int] = {}
        self._kinds_of_amounts: dict[tuple[int, Hashable], list[int]] = {}
        self._bins: dict[int, list[tuple[tuple[int, ...], packing.Kinds]]] = {}
        """Check -> devices with resources of their own, of which several requests may take: the resources, and what looks take."""
        self._weighings: list[packing.Weighing] = []
        self._unweighed = 0
        self._weighed = _WEIGHED
        self._read_up_to = 0
        self._rest: dict[tuple[int, int], list[_Demand]] = {}
        self._options_by_plan: dict[int, tuple[_Demand, bool]] = {}

    def refuse(self, at: Enter, chosen: Sequence[Sequence[Choice]], last: int) -> bool:
        """Whether what is ``chosen`` can't be completed from ``at`` to the end of entry ``last``. None of these has a broken device."""
        if chosen and self._exceeds_limit(at, len(chosen[self._entries[at.entry].claim]), last):
            return True
        if self._read_up_to <= last:
            self._read(last)
        left = [resource.left for resource in self._resources]
        common: dict[int, frozenset[Hashable]] = {}
        touched: set[int] = set()
        for choices in chosen:
            for choice in choices:
                look = self._looks[self._kinds.look(choice.request)]
                for number, amount in look.takes.get(choice.device, ()):
                    left[number] -= amount
                    touched.add(number)
                for agreement in look.labels:
                    labels = look.labels_of[agreement, choice.device]
                    common[agreement] = common[agreement] & labels if agreement in common else labels
        gone = self._gone(left, touched)
        demands: list[_Demand] = []
        for demand in self._demands(at, last):
            options = _within(demand, gone)
            if not options:
                return True
            demands.append(options)
        return not _Attempt(self, left, common, thorough=not chosen).completes(demands)

    def _exceeds_limit(self, at: Enter, held: int, last: int) -> bool:
        """Whether the claim, which holds so many devices, can't hold all that it needs at least."""
        claim, plan, _ = self._entries[at.entry]
        first = at.entry
        if at.alternative >= 0:
            held += plan.alternatives[at.alternative].count - at.slot
            first += 1
        for entry in self._entries[first : last + 1]:
            if held > RESULT_LIMIT or entry.claim != claim:
                break
            held += min(slots.count for slots in entry.plan.alternatives)
        return held > RESULT_LIMIT

    def overfull(self, demands: Mapping[packing.Demand, int], bins: Mapping[packing.Bin, int], *, thorough: bool) -> bool:
        """Whether some weighing refuses. One is looked for if it is worth the time, else those that refused before are tried."""
        for weighing in self._weighings:
            if weighing.refuses(demands, bins):
                return True
        self._unweighed += 1
        if not thorough and self._unweighed % self._weighed:
            return False
        found = packing.refusing(demands, bins, self._spend)
        if found is None:
            if not thorough:
                self._weighed *= 2
            return False
        self._weighings.insert(0, found)
        del self._weighings[_WEIGHINGS:]
        return True

    def _gone(self, left: Sequence[int], touched: Iterable[int]) -> dict[int, int]:
        """Per look, the devices that take more of something than is left."""
        gone: dict[int, int] = {}
        for number in touched:
            for amount, users in self._resources[number].users.items():
                if amount > left[number]:
                    for look, devices in users.items():
                        gone[look] = gone.get(look, 0) | devices
        return gone

    # --- what is asked for ---

    def _demands(self, at: Enter, last: int) -> list[_Demand]:
        if at.alternative < 0:
            return self._from(at.entry, last)
        slots = self._entries[at.entry].plan.alternatives[at.alternative]
        need = slots.count - at.slot
        if need == 0:
            return self._from(at.entry + 1, last)
        number = self._kinds.look(slots.request)
        bits = self._looks[number].bits
        if slots.fixed is None:
            open_ = bits[at.start :]
        else:  # of these one may be in use, which is not to be had
            open_ = [self._bits.get(device, 0) & self._looks[number].devices for device in slots.fixed[at.slot :]]
        return [(_Option(number, need, _union(open_)),), *self._from(at.entry + 1, last)]

    def _from(self, entry: int, last: int) -> list[_Demand]:
        """From one entry to another. What requests of one look want of devices that nobody shares is added up."""
        known = self._rest.get((entry, last))
        if known is None:
            demands: list[_Demand] = []
            sums: dict[int, int] = {}
            for each in self._entries[entry : last + 1]:
                options, exclusive = self._options_of(each)
                if exclusive:
                    sums[options[0].look] = sums.get(options[0].look, 0) + options[0].need
                else:
                    demands.append(options)
            summed = [(_Option(look, need, self._looks[look].devices),) for look, need in sums.items() if need]
            known = self._rest[entry, last] = summed + [demand for demand in demands if all(option.need for option in demand)]
        return known

    def _options_of(self, entry: Entry) -> tuple[_Demand, bool]:
        """The alternatives, and whether it is one for devices that nobody shares."""
        known = self._options_by_plan.get(id(entry.plan))
        if known is None:
            options = self._options(entry.plan.alternatives)
            exclusive = len(options) == 1 and self._exclusive(options[0].look)
            known = self._options_by_plan[id(entry.plan)] = options, exclusive
        return known

    def _options(self, alternatives: Sequence[Slots]) -> _Demand:
        """Of those with one look the least."""
        least: dict[int, int] = {}
        for slots in alternatives:
            if slots.fixed is None or slots.fixed:
                look = self._kinds.look(slots.request)
                least[look] = min(slots.count, least.get(look, slots.count))
        return tuple(_Option(look, need, self._looks[look].devices) for look, need in least.items())

    def _exclusive(self, number: int) -> bool:
        """Whether nobody else can have a device that is taken with this look."""
        look = self._looks[number]
        return any(_union(look.cells.get(check, {}).values()) == look.devices for check in self._single)

    # --- what is known of devices ---

    def _read(self, last: int) -> None:
        for entry in self._entries[self._read_up_to : last + 1]:
            for slots in entry.plan.alternatives:
                number = self._kinds.look(slots.request)
                if number not in self._looks:
                    self._looks[number] = self._look(number, slots)
        self._read_up_to = last + 1
        self._rest = {}
        self._options_by_plan = {}
        self._weighings.clear()  # they know of what was wanted so far
        self._choose_cells()

    def _look(self, number: int, slots: Slots) -> _Look:
        look = _Look()
        request = slots.request
        for device in self._kinds.devices(slots):
            kind = self._kinds.of(request, device)
            if kind is None or isinstance(kind, Broken):
                look.bits.append(0)
                continue
            bit = self._bits.setdefault(device, 1 << len(self._bits))
            look.bits.append(bit)
            look.devices |= bit
            takes = look.takes[device] = []
            if self._kinds.reported(request):
                continue  # what it takes is left out of account: it may be refused by what was not asked
            for check, consumes in self._consuming[request.claim_index]:
                for take in consumes.takes(request, device):
                    takes.append((self._resource(check, take.of, take.at, take.left), take.amount))
            for resource, amount in takes:
                users = self._resources[resource].users.setdefault(amount, {})
                users[number] = users.get(number, 0) | bit
            for agreement, agrees in self._agreeing[request.claim_index]:
                labels = agrees.labels(request, device)
                if labels is None:
                    continue
                of_label = look.labels.setdefault(agreement, {})
                for label in labels:
                    of_label[label] = of_label.get(label, 0) | bit
                look.labels_of[agreement, device] = frozenset(labels)
        return look

    def _resource(self, check: int, of: Hashable, at: Hashable, left: int) -> int:
        number = self._numbers.setdefault((check, of, at), len(self._resources))
        if number == len(self._resources):
            self._resources.append(_Resource((check, of), left))
        return number

    def _bins_of(self) -> dict[int, list[tuple[tuple[int, ...], packing.Kinds]]]:
        owners = [_union(devices for users in resource.users.values() for devices in users.values()) for resource in self._resources]
        shared = {resource.kind[0] for resource in self._resources} - self._single
        shared -= {resource.kind[0] for resource, devices in zip(self._resources, owners, strict=True) if devices.bit_count() != 1}
        numbers: dict[tuple[int, int], list[int]] = {}
        for number, resource in enumerate(self._resources):
            if resource.kind[0] in shared:
                numbers.setdefault((resource.kind[0], owners[number]), []).append(number)
        found: dict[int, list[tuple[tuple[int, ...], packing.Kinds]]] = {}
        for (check, _), own in numbers.items():
            kinds: dict[int, list[int]] = {}
            for dimension, number in enumerate(own):
                for amount, users in self._resources[number].users.items():
                    for look in users:
                        kinds.setdefault(look, [0] * len(own))[dimension] = amount
            found.setdefault(check, []).append((tuple(own), tuple((look, tuple(amounts)) for look, amounts in sorted(kinds.items()))))
        return found

    def _choose_cells(self) -> None:
        """Per device and check, the resource that is scarcest; per kind of resource, what devices take of it."""
        scarcity = [resource.scarcity for resource in self._resources]
        kinds = {resource.kind for resource in self._resources}
        several = {resource.kind[0] for resource in self._resources if not _belongs_to_one(resource)}
        several |= {check for check, of in kinds if any(check == other and of != each for other, each in kinds)}
        self._single = frozenset(check for check, _ in kinds) - several
        self._bins = self._bins_of()
        self._kinds_of_amounts = {}
        for number, resource in enumerate(self._resources):
            if resource.left != 1 or 1 not in resource.users:
                self._kinds_of_amounts.setdefault(resource.kind, []).append(number)
        summed = {number for numbers in self._kinds_of_amounts.values() for number in numbers}
        for look in self._looks.values():
            look.cells = {}
            costs: dict[tuple[int, Hashable], dict[int, int]] = {}
            for device, takes in look.takes.items():
                bit = self._bits[device]
                scarcest: dict[int, int] = {}
                amounts: dict[tuple[int, Hashable], int] = {}
                for number, amount in takes:
                    kind = self._resources[number].kind
                    best = scarcest.get(kind[0])
                    if best is None or scarcity[number] < scarcity[best]:
                        scarcest[kind[0]] = number
                    if number in summed:
                        amounts[kind] = amounts.get(kind, 0) + amount
                for check, number in scarcest.items():
                    users = look.cells.setdefault(check, {})
                    users[number] = users.get(number, 0) | bit
                for kind, amount in amounts.items():
                    of_amount = costs.setdefault(kind, {})
                    of_amount[amount] = of_amount.get(amount, 0) | bit
            look.costs = {kind: sorted(of_amount.items()) for kind, of_amount in costs.items()}


class _Attempt:
    """One question: whether some choice of labels leaves enough of everything."""

    def __init__(self, bounds: Bounds, left: Sequence[int], common: dict[int, frozenset[Hashable]], *, thorough: bool) -> None:
        self._thorough = thorough
        self._bounds = bounds
        self._looks = bounds._looks
        self._left = left
        self._common = common
        self._tried = 0

    def completes(self, demands: list[_Demand]) -> bool:
        agreements = {number for demand in demands for option in demand for number in self._looks[option.look].labels}
        return self._agree(demands, sorted(agreements))

    def _agree(self, demands: list[_Demand], agreements: Sequence[int]) -> bool:
        """Labels of one agreement after the other."""
        if not agreements:
            return self._suffices(demands)
        agreement, others = agreements[0], agreements[1:]
        common = self._common.get(agreement)
        for label in self._labels(demands, agreement) if common is None else sorted(common, key=repr):
            self._tried += 1
            self._bounds._spend(1)
            if self._tried > _TRIED_LABELS:
                return True
            narrowed = self._narrowed(demands, agreement, label)
            if narrowed is not None and self._agree(narrowed, others):
                return True
        return False

    def _labels(self, demands: list[_Demand], agreement: int) -> Iterable[Hashable]:
        """Those of the devices that a demand which surely counts can have; the most frequent first."""
        smallest: dict[Hashable, int] | None = None
        for demand in demands:
            if len(demand) == 1 and agreement in self._looks[demand[0].look].labels:
                option = demand[0]
                found = {
                    label: count
                    for label, devices in self._looks[option.look].labels[agreement].items()
                    if (count := (devices & option.devices).bit_count()) >= option.need
                }
                if smallest is None or len(found) < len(smallest):
                    smallest = found
        if smallest is not None:
            return sorted(smallest, key=lambda label: -smallest[label])
        every = (label for demand in demands for option in demand for label in self._looks[option.look].labels.get(agreement, ()))
        return dict.fromkeys(every) or (None,)  # no device has this label: what is left are the alternatives that need not agree

    def _narrowed(self, demands: list[_Demand], agreement: int, label: Hashable) -> list[_Demand] | None:
        found: list[_Demand] = []
        for demand in demands:
            options = []
            for option in demand:
                labels = self._looks[option.look].labels.get(agreement)
                if labels is not None:
                    option = _Option(option.look, option.need, option.devices & labels.get(label, 0))
                    if option.devices.bit_count() < option.need:
                        continue
                options.append(option)
            if not options:
                return None
            found.append(tuple(options))
        return found

    def _suffices(self, demands: list[_Demand]) -> bool:
        checks = {check for demand in demands for option in demand for check in self._looks[option.look].cells}
        return (
            all(self._enough_units(check, demands) for check in sorted(checks))
            and all(self._enough_in_sum(kind, numbers, demands) for kind, numbers in self._bounds._kinds_of_amounts.items())
            and all(self._fits(check, of_check, demands) for check, of_check in self._bounds._bins.items())
        )

    def _enough_units(self, check: int, demands: list[_Demand]) -> bool:
        wanted: dict[int, int] = {}
        counted = Counter(demands)
        units = _Units(self, counted)
        for demand, count in counted.items():
            needs = []
            for option in demand:
                cells = self._looks[option.look].cells.get(check, {})
                users = _union(cells.values())
                needs.append((option, cells, users, option.need - (option.devices & ~users).bit_count()))
            least = min(need for _, _, _, need in needs)
            if least <= 0:
                continue
            if check in self._bounds._single:
                serving = _union(option.devices & users for option, _, users, _ in needs)
            else:
                serving = _union(units.of(option, cells) for option, cells, _, _ in needs)
            wanted[serving] = wanted.get(serving, 0) + least * count
        return satisfiable([(need, serving) for serving, need in wanted.items()])

    def _enough_in_sum(self, kind: tuple[int, Hashable], numbers: Sequence[int], demands: list[_Demand]) -> bool:
        needed = 0
        for demand in demands:
            needed += min(_cost(option, self._looks[option.look].costs.get(kind, ())) for option in demand)
        return needed == 0 or needed <= sum(max(self._left[number], 0) for number in numbers)

    def _fits(self, check: int, of_check: Sequence[tuple[tuple[int, ...], packing.Kinds]], demands: list[_Demand]) -> bool:
        """Into shared devices, whatever the dimensions of what is shared."""
        wanted: Counter[packing.Demand] = Counter()
        for demand in demands:
            users = [(option, _union(self._looks[option.look].cells.get(check, {}).values())) for option in demand]
            if not any(option.devices & ~sharing for option, sharing in users):
                wanted[tuple((option.look, option.need) for option in demand)] += 1
        if not wanted:
            return True
        bins = Counter(packing.Bin(tuple([max(self._left[number], 0) for number in numbers]), kinds) for numbers, kinds in of_check)
        return not self._bounds.overfull(wanted, bins, thorough=self._thorough)


class _Units:
    """Numbers the units of resources, for one check and one question."""

    def __init__(self, attempt: _Attempt, demands: Mapping[_Demand, int]) -> None:
        """``demands``: how many there are of each."""
        self._attempt = attempt
        self._demands = demands
        self._wanted = sum(count * max(option.need for option in demand) for demand, count in demands.items())
        self._known: dict[int, int] = {}
        self._count = 0

    def of(self, option: _Option, cells: dict[int, int]) -> int:
        return _union([self._units(number) for number, users in cells.items() if users & option.devices])

    def _units(self, number: int) -> int:
        known = self._known.get(number)
        if known is None:
            several = self._fitting(number)
            known = self._known[number] = (1 << several) - 1 << self._count
            self._count += several
        return known

    def _fitting(self, number: int) -> int:
        """The most devices that what is left suffices for, the smallest amounts first; no more than are wanted."""
        left = max(self._attempt._left[number], 0)
        found = 0
        for amount, users in sorted(self._attempt._bounds._resources[number].users.items()):
            several = 0
            for demand, count in self._demands.items():
                several += count * max((users.get(option.look, 0) & option.devices).bit_count() for option in demand)
            several = min(several, left // amount)
            found += several
            left -= several * amount
        return min(found, self._wanted)


def _consumes(check: object) -> TypeGuard[Consumes]:
    return hasattr(check, "takes")  # isinstance of a protocol looks at more, and costs more than all the rest


def _agrees(check: object) -> TypeGuard[Agrees]:
    return hasattr(check, "labels")


def _within(demand: _Demand, gone: dict[int, int]) -> _Demand:
    """The alternatives that are still possible, each for itself."""
    options = []
    for option in demand:
        devices = option.devices & ~gone.get(option.look, 0)
        if devices.bit_count() >= option.need:
            options.append(_Option(option.look, option.need, devices))
    return tuple(options)


def _cost(option: _Option, amounts: Sequence[tuple[int, int]]) -> int:
    """The least that the option takes: what takes nothing first, then the smallest amounts."""
    need = option.need - (option.devices & ~_union([devices for _, devices in amounts])).bit_count()
    cost = 0
    for amount, devices in amounts:
        if need <= 0:
            break
        several = min(need, (devices & option.devices).bit_count())
        cost += several * amount
        need -= several
    return cost


def _belongs_to_one(resource: _Resource) -> bool:
    """Whether there is one unit of it, which only one device takes."""
    if resource.left != 1 or list(resource.users) != [1]:
        return False
    return _union(resource.users[1].values()).bit_count() == 1


def _union(sets: Iterable[int]) -> int:
    found = 0
    for each in sets:
        found |= each
    return found
