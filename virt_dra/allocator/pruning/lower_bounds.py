"""Lower bounds on what the requests not yet filled need: they prove, without search, that a partial assignment can't be
completed.

Each is a relaxation that drops some constraints. A state that it refutes has no solution; a state that it doesn't
refute may have none:
* labels (`model.DeviceLabeler`): all devices under such a constraint must share a label, so each label is tried in turn
  as the common one;
* bipartite matching: each device needs a unit of its scarcest resource, and no unit serves two devices (matching.py);
* sums: the least that the requests take of a resource must not exceed what all its places have left together;
* multi-dimensional bin packing, refuted by dual prices (bin_packing.py).

Everything is computed anew from the choices made, so nothing has to be undone. Sets of devices are bit sets
(resource_model.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from virt_dra.allocator.effort import Effort
from virt_dra.allocator.model import RESULT_LIMIT, Choice, Slots
from virt_dra.allocator.pruning import bin_packing
from virt_dra.allocator.pruning.interchangeability import Interchangeability
from virt_dra.allocator.pruning.matching import satisfiable
from virt_dra.allocator.pruning.resource_model import GroupDomain, ResourceModel, ResourceType, union
from virt_dra.allocator.pruning_port import Position, Problem, RequestEntry


class _Option(NamedTuple):
    """One alternative: as many devices as ``wanted``, of the set ``devices``, for a request of a group
    (interchangeability.py)."""

    group: int
    wanted: int
    devices: int


_Need = tuple[_Option, ...]
"""The alternatives of a request that isn't filled yet; one of them must be satisfied."""


class LowerBounds:
    """The bounds of one search."""

    def __init__(
        self, problem: Problem, symmetry: Interchangeability, spend: Callable[[int], None], effort: Effort
    ) -> None:
        self._entries = problem.entries
        self._symmetry = symmetry
        self._spend = spend
        self._effort = effort
        self._model = ResourceModel(problem, symmetry)
        self._packing = _Packing(spend, effort)
        self._needs_between: dict[tuple[int, int], list[_Need]] = {}
        self._needs_by_plan: dict[int, tuple[_Need, bool]] = {}

    def refutes(self, at: Position, chosen: Sequence[Sequence[Choice]], last: int) -> bool:
        """True if ``chosen`` can't be completed from ``at`` to the end of entry ``last``. No device may be `Broken` for
        these entries."""
        if chosen and self._exceeds_limit(at, len(chosen[self._entries[at.entry].claim]), last):
            return True
        model = self._model
        if model.read(last):
            self._needs_between = {}
            self._needs_by_plan = {}
            self._packing.forget()  # prices are only valid for the amounts wanted so far
        left = [resource.left for resource in model.resources]
        common: dict[int, frozenset[Hashable]] = {}
        touched: set[int] = set()
        for choices in chosen:
            for choice in choices:
                group = model.groups[self._symmetry.group(choice.request)]
                for number, amount in group.consumption.get(choice.device, ()):
                    left[number] -= amount
                    touched.add(number)
                for check in group.labels:
                    labels = group.labels_of[check, choice.device]
                    common[check] = common[check] & labels if check in common else labels
        excluded = self._excluded(left, touched)
        needs: list[_Need] = []
        for need in self._open_needs(at, last):
            options = _possible(need, excluded)
            if not options:
                return True
            needs.append(options)
        relaxation = _Relaxation(model, left, common, self._packing, self._spend, self._effort.tried_labels, not chosen)
        return not relaxation.feasible(needs)

    def _exceeds_limit(self, at: Position, held: int, last: int) -> bool:
        """True if the claim, with ``held`` devices so far, would pass its limit of 32 even with the smallest
        alternatives."""
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

    def _excluded(self, left: Sequence[int], touched: Iterable[int]) -> dict[int, int]:
        """Group -> the devices that take more of some resource than is left."""
        excluded: dict[int, int] = {}
        for number in touched:
            for amount, users in self._model.resources[number].users.items():
                if amount > left[number]:
                    for group, devices in users.items():
                        excluded[group] = excluded.get(group, 0) | devices
        return excluded

    def _open_needs(self, at: Position, last: int) -> list[_Need]:
        if at.alternative < 0:
            return self._needs_from(at.entry, last)
        slots = self._entries[at.entry].plan.alternatives[at.alternative]
        wanted = slots.count - at.slot
        if wanted == 0:
            return self._needs_from(at.entry + 1, last)
        number = self._symmetry.group(slots.request)
        group = self._model.groups[number]
        if slots.fixed is None:
            open_ = group.candidate_bits[at.start :]
        else:  # one of these may be in use
            open_ = [self._model.bits.get(device, 0) & group.devices for device in slots.fixed[at.slot :]]
        return [(_Option(number, wanted, union(open_)),), *self._needs_from(at.entry + 1, last)]

    def _needs_from(self, entry: int, last: int) -> list[_Need]:
        """The needs of the entries from ``entry`` to ``last``. Needs of one group are summed into one if its devices
        are exclusive."""
        summarized = self._needs_between.get((entry, last))
        if summarized is None:
            needs: list[_Need] = []
            sums: dict[int, int] = {}
            for request_entry in self._entries[entry : last + 1]:
                options, exclusive = self._needs_of(request_entry)
                if exclusive:
                    sums[options[0].group] = sums.get(options[0].group, 0) + options[0].wanted
                else:
                    needs.append(options)
            summed = [
                (_Option(group, wanted, self._model.groups[group].devices),) for group, wanted in sums.items() if wanted
            ]
            summarized = self._needs_between[entry, last] = summed + [
                need for need in needs if all(option.wanted for option in need)
            ]
        return summarized

    def _needs_of(self, entry: RequestEntry) -> tuple[_Need, bool]:
        """The options of an entry; and True if it has only one, and the devices of that one's group are exclusive."""
        needed = self._needs_by_plan.get(id(entry.plan))
        if needed is None:
            options = self._options(entry.plan.alternatives)
            exclusive = len(options) == 1 and self._is_exclusive(options[0].group)
            needed = self._needs_by_plan[id(entry.plan)] = options, exclusive
        return needed

    def _options(self, alternatives: Sequence[Slots]) -> _Need:
        """One option per group: the smallest of its alternatives, which is satisfied if any of them is."""
        least: dict[int, int] = {}
        for slots in alternatives:
            if slots.fixed is None or slots.fixed:
                group = self._symmetry.group(slots.request)
                least[group] = min(slots.count, least.get(group, slots.count))
        return tuple(_Option(group, wanted, self._model.groups[group].devices) for group, wanted in least.items())

    def _is_exclusive(self, number: int) -> bool:
        """True if each device of the group can be chosen only once."""
        group = self._model.groups[number]
        return any(union(group.scarcest.get(check, {}).values()) == group.devices for check in self._model.single)


class _Packing:
    """Refutes bin packings by dual prices: first by those found before, then by new ones, tried less often the more
    they fail."""

    def __init__(self, spend: Callable[[int], None], effort: Effort) -> None:
        self._spend = spend
        self._effort = effort
        self._prices: list[bin_packing.DualPrices] = []
        self._inconclusive = 0
        self._interval = effort.packing_interval

    def forget(self) -> None:
        self._prices.clear()

    def refutes(
        self, needs: Mapping[bin_packing.PackingNeed, int], bins: Mapping[bin_packing.Bin, int], *, thorough: bool
    ) -> bool:
        for prices in self._prices:
            if prices.refute(needs, bins):
                return True
        self._inconclusive += 1
        if not thorough and self._inconclusive % self._interval:
            return False
        refuting = bin_packing.refuting_prices(needs, bins, self._spend, self._effort)
        if refuting is None:
            if not thorough:
                self._interval *= 2
            return False
        self._prices.insert(0, refuting)
        del self._prices[self._effort.kept_prices :]
        return True


@dataclass(slots=True)
class _Relaxation:
    """One state, relaxed: whether some choice of labels leaves enough of every resource."""

    _model: ResourceModel
    _left: Sequence[int]
    """Of each resource."""
    _common: Mapping[int, frozenset[Hashable]]
    """Per check, the labels that all chosen devices share."""
    _packing: _Packing
    _spend: Callable[[int], None]
    _labels_to_try: int
    _thorough: bool
    _groups: Mapping[int, GroupDomain] = field(init=False)

    def __post_init__(self) -> None:
        self._groups = self._model.groups

    def feasible(self, needs: list[_Need]) -> bool:
        checks = {number for need in needs for option in need for number in self._groups[option.group].labels}
        return self._feasible_by_labels(needs, sorted(checks))

    def _feasible_by_labels(self, needs: list[_Need], checks: Sequence[int]) -> bool:
        """Branches over the labels of one check after the other. True also if the number of labels to try is used
        up."""
        if not checks:
            return self._enough(needs)
        check, others = checks[0], checks[1:]
        common = self._common.get(check)
        for label in self._labels(needs, check) if common is None else sorted(common, key=repr):
            self._labels_to_try -= 1
            self._spend(1)
            if self._labels_to_try < 0:
                return True
            narrowed = self._narrowed(needs, check, label)
            if narrowed is not None and self._feasible_by_labels(narrowed, others):
                return True
        return False

    def _labels(self, needs: list[_Need], check: int) -> Iterable[Hashable]:
        """The labels with enough devices for the most constrained need (of those without alternatives), most frequent
        first."""
        smallest: dict[Hashable, int] | None = None
        for need in needs:
            if len(need) == 1 and check in self._groups[need[0].group].labels:
                option = need[0]
                frequencies = {
                    label: count
                    for label, devices in self._groups[option.group].labels[check].items()
                    if (count := (devices & option.devices).bit_count()) >= option.wanted
                }
                if smallest is None or len(frequencies) < len(smallest):
                    smallest = frequencies
        if smallest is not None:
            return sorted(smallest, key=lambda label: -smallest[label])
        every = (
            label for need in needs for option in need for label in self._groups[option.group].labels.get(check, ())
        )
        return dict.fromkeys(every) or (
            None,
        )  # no device has a label: only alternatives that the check doesn't cover are left

    def _narrowed(self, needs: list[_Need], check: int, label: Hashable) -> list[_Need] | None:
        """The needs with domains reduced to devices with the label; None if one has become unsatisfiable."""
        narrowed: list[_Need] = []
        for need in needs:
            options = []
            for option in need:
                labels = self._groups[option.group].labels.get(check)
                if labels is not None:
                    option = _Option(option.group, option.wanted, option.devices & labels.get(label, 0))
                    if option.devices.bit_count() < option.wanted:
                        continue
                options.append(option)
            if not options:
                return None
            narrowed.append(tuple(options))
        return narrowed

    def _enough(self, needs: list[_Need]) -> bool:
        checks = {check for need in needs for option in need for check in self._groups[option.group].scarcest}
        return (
            all(self._enough_units(check, needs) for check in sorted(checks))
            and all(self._enough_in_sum(type_, numbers, needs) for type_, numbers in self._model.summed.items())
            and all(self._fits(check, devices, needs) for check, devices in self._model.bins.items())
        )

    def _enough_units(self, check: int, needs: list[_Need]) -> bool:
        """True if units of the devices' scarcest resources can be matched to the needs."""
        wanted: dict[int, int] = {}
        counted = Counter(needs)
        numbering = _Units(self._model, self._left, counted)
        for need, count in counted.items():
            own = []
            for option in need:
                scarcest = self._groups[option.group].scarcest.get(check, {})
                users = union(scarcest.values())
                own.append((option, scarcest, users, option.wanted - (option.devices & ~users).bit_count()))
            least = min(lacking for _, _, _, lacking in own)
            if least <= 0:
                continue
            if check in self._model.single:
                serving = union(option.devices & users for option, _, users, _ in own)
            else:
                serving = union(numbering.units(option, scarcest) for option, scarcest, _, _ in own)
            wanted[serving] = wanted.get(serving, 0) + least * count
        return satisfiable([(units, serving) for serving, units in wanted.items()])

    def _enough_in_sum(self, type_: ResourceType, numbers: Sequence[int], needs: list[_Need]) -> bool:
        """True if the least that the needs take of a type of resource isn't more than its resources have left
        together."""
        least = 0
        for need in needs:
            least += min(_least(option, self._groups[option.group].amounts.get(type_, ())) for option in need)
        return least == 0 or least <= sum(max(self._left[number], 0) for number in numbers)

    def _fits(
        self, check: int, devices: Sequence[tuple[tuple[int, ...], bin_packing.ItemSizes]], needs: list[_Need]
    ) -> bool:
        """True unless dual prices prove that the needs don't fit into shared devices."""
        wanted: Counter[bin_packing.PackingNeed] = Counter()
        for need in needs:
            users = [(option, union(self._groups[option.group].scarcest.get(check, {}).values())) for option in need]
            if not any(option.devices & ~sharing for option, sharing in users):
                wanted[tuple((option.group, option.wanted) for option in need)] += 1
        if not wanted:
            return True
        bins = Counter(
            bin_packing.Bin(tuple([max(self._left[number], 0) for number in numbers]), sizes)
            for numbers, sizes in devices
        )
        return not self._packing.refutes(wanted, bins, thorough=self._thorough)


class _Units:
    """Assigns a bit to each unit of a resource, for one check of one relaxation."""

    def __init__(self, model: ResourceModel, left: Sequence[int], needs: Mapping[_Need, int]) -> None:
        """``needs``: need -> the number of requests with that need."""
        self._resources = model.resources
        self._left = left
        self._needs = needs
        self._wanted = sum(count * max(option.wanted for option in need) for need, count in needs.items())
        self._bits: dict[int, int] = {}
        self._count = 0

    def units(self, option: _Option, scarcest: Mapping[int, int]) -> int:
        """The units of the scarcest resources of the option's devices, as bits."""
        return union([self._of_resource(number) for number, users in scarcest.items() if users & option.devices])

    def _of_resource(self, number: int) -> int:
        bits = self._bits.get(number)
        if bits is None:
            units = self._fitting(number)
            bits = self._bits[number] = (1 << units) - 1 << self._count
            self._count += units
        return bits

    def _fitting(self, number: int) -> int:
        """The number of devices for which what is left of the resource suffices, smallest amounts first; at most as
        many as are wanted."""
        left = max(self._left[number], 0)
        fitting = 0
        for amount, users in sorted(self._resources[number].users.items()):
            devices = 0
            for need, count in self._needs.items():
                devices += count * max((users.get(option.group, 0) & option.devices).bit_count() for option in need)
            devices = min(devices, left // amount)
            fitting += devices
            left -= devices * amount
        return min(fitting, self._wanted)


def _possible(need: _Need, excluded: Mapping[int, int]) -> _Need:
    """The options that, each by itself, still have enough devices."""
    options = []
    for option in need:
        devices = option.devices & ~excluded.get(option.group, 0)
        if devices.bit_count() >= option.wanted:
            options.append(_Option(option.group, option.wanted, devices))
    return tuple(options)


def _least(option: _Option, amounts: Sequence[tuple[int, int]]) -> int:
    """The least that the option takes of a type of resource: with devices that take nothing, then those that take the
    smallest amounts."""
    wanted = option.wanted - (option.devices & ~union([devices for _, devices in amounts])).bit_count()
    least = 0
    for amount, devices in amounts:
        if wanted <= 0:
            break
        taken = min(wanted, (devices & option.devices).bit_count())
        least += taken * amount
        wanted -= taken
    return least
