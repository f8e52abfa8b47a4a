"""A-7.2 word for word, and A-10: one device committed, step by step, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from devtools.allocator.plain.constraints import Constraint, constraints
from devtools.allocator.plain.errors import Fatal, NodeOnly, TooLong
from devtools.allocator.plain.facts import Candidate, Facts, Id
from devtools.allocator.plain.pools import INVALID, Pool
from devtools.allocator.plain.requests import LIMIT, Entry, Wanted, selectable, taken
from virt_dra.allocator.features.consumption import Consumption
from virt_dra.api.tolerations import tolerates

FOUND, NO, TOO_MANY = "found", "no", "too many"
Groups = frozenset[str] | None
"""None: members without groups."""
Undo = Callable[[], None]


@dataclass(frozen=True)
class Choice:
    wanted: Wanted
    candidate: Candidate


class Search:
    def __init__(self, facts: Facts, pools: list[Pool], entries: list[list[Entry]], step_limit: int) -> None:
        self.entries = entries
        self.chosen: list[list[Choice]] = [[] for _ in entries]
        self.selected: dict[tuple[int, int], int] = {}
        self._facts = facts
        self._pools = pools
        self._candidates = [candidate for pool in pools if pool.problem is None for candidate in pool.targeting]
        self._pool_of = {(pool.driver, pool.name): pool for pool in pools}
        self._constraints: list[list[Constraint]] = [constraints(facts, claim) for claim in facts.claims]
        self._marks: list[tuple[Id, Wanted]] = []
        self._shares: list[tuple[Id, Wanted, Consumption]] = []
        self._charged: list[Candidate] = []
        self._members: list[Candidate] = []
        self._refused: str | None = None
        self._left = step_limit

    def run(self) -> bool:
        outcome = self._search(0, 0, None, 0, 0)
        if outcome == FOUND:
            return True
        if self._refused is not None and self._facts.fixed("AC-8"):
            raise NodeOnly(self._refused)
        if any(pool.problem == INVALID for pool in self._pools):
            raise NodeOnly("invalid resource pools were encountered")
        return False

    def _search(self, c: int, q: int, s: int | None, d: int, start: int) -> str:
        self._left -= 1
        if self._left < 0:
            raise TooLong
        if c == len(self.entries):
            return FOUND
        if q == len(self.entries[c]):
            outcome = self._search(c + 1, 0, None, 0, 0)
            return NO if outcome == TOO_MANY else outcome
        entry = self.entries[c][q]
        if entry.prioritized and s is None:
            return self._first_available(c, q, entry)
        wanted = entry.alternatives[s or 0]
        if wanted.everything is not None and not wanted.everything:
            return NO
        if d >= wanted.count:
            return self._search(c, q + 1, None, 0, 0)
        if wanted.count - d > LIMIT - len(self.chosen[c]):
            return TOO_MANY
        if wanted.everything is not None:
            undo = self._try(wanted, wanted.everything[d], must=True)
            if undo is None:
                return NO
            outcome = self._search(c, q, s, d + 1, 0)
            if outcome != FOUND:
                undo()
            return outcome
        for position in range(start, len(self._candidates)):
            candidate = self._candidates[position]
            self._left -= 1
            if self._in_use(wanted, candidate) or not selectable(self._facts, wanted, candidate):
                continue
            if self._facts.on("ConsumableCapacity") and not self._has_room(wanted, candidate):
                continue
            undo = self._try(wanted, candidate, must=False)
            if undo is None:
                continue
            outcome = self._search(c, q, s, d + 1, position + 1)
            if outcome == FOUND:
                return FOUND
            undo()
            if outcome == TOO_MANY:
                return TOO_MANY
        return NO

    def _first_available(self, c: int, q: int, entry: Entry) -> str:
        only_too_many = True
        for s in range(len(entry.alternatives)):
            outcome = self._search(c, q, s, 0, 0)
            if outcome == TOO_MANY:
                continue
            only_too_many = False
            if outcome == FOUND:
                self.selected[c, q] = s
                return FOUND
        return TOO_MANY if only_too_many else NO

    def _in_use(self, wanted: Wanted, candidate: Candidate) -> bool:
        """A-11, AC-1, AC-7. Only devices that aren't shared are marked."""
        facts, place = self._facts, candidate.id
        if wanted.admin:
            return any(marked == place and other.claim_index == wanted.claim_index for marked, other in self._marks)
        if place in facts.exclusive:
            return True
        if facts.fixed("AC-1") and not facts.multi(candidate) and facts.has_shares(place):
            return True
        return any(marked == place and not (other.admin and facts.fixed("AC-7")) for marked, other in self._marks)

    def _has_room(self, wanted: Wanted, candidate: Candidate) -> bool:
        """A-17.3, AC-6."""
        wants = taken(self._facts, wanted, candidate)
        if wants is None:
            return False
        if wanted.admin and self._facts.fixed("AC-6"):
            return True
        held = dict(self._facts.consumed.get(candidate.id, {}))
        for place, other, share in self._shares:
            if place == candidate.id and not (other.admin and self._facts.fixed("AC-6")):
                for name, amount in share.quantities.items():
                    held[name] = held.get(name, 0) + amount.nano
        return all(
            held.get(name, 0) + amount.nano <= candidate.device.capacity[name].value.nano
            for name, amount in wants.quantities.items()
        )

    def _try(self, wanted: Wanted, candidate: Candidate, *, must: bool) -> Undo | None:
        """A-10. None: refused, and nothing has changed. Raises Fatal."""
        undo: list[Undo] = []
        try:
            for done in self._steps(wanted, candidate, must=must):
                if done is None:
                    _undo(undo)
                    return None
                undo.append(done)
        except Fatal:
            _undo(undo)
            raise
        return lambda: _undo(undo)

    def _steps(self, wanted: Wanted, candidate: Candidate, *, must: bool) -> Iterator[Undo | None]:
        facts, device = self._facts, candidate.device
        if self._in_use(wanted, candidate) or not self._node_operations(candidate):
            yield None
            return
        if device.consumes_counters and not facts.on("PartitionableDevices"):
            yield None
            return
        exempt = wanted.admin and facts.fixed("AC-6")
        if device.consumes_counters and not exempt and not (facts.multi(candidate) and self._shared_already(candidate)):
            if facts.on("CompatibilityGroups"):
                yield _append(self._members, candidate) if self._compatible(candidate) else None
            yield _append(self._charged, candidate) if self._counters_suffice(candidate) else None
        if facts.on("DeviceTaints") and self._tainted(wanted, candidate):
            yield None
            return
        for constraint in self._constraints[wanted.claim_index]:
            for kind in constraint.kinds:
                added = kind.add(wanted, candidate)
                if added is None and must:
                    self._refuse(wanted, candidate)
                yield added
        if not facts.multi(candidate):
            yield _append(self._marks, (candidate.id, wanted))
        if facts.on("ConsumableCapacity"):
            if not self._has_room(wanted, candidate):
                yield None
                return
            share = taken(facts, wanted, candidate)
            if facts.multi(candidate) and share is not None:
                yield _append(self._shares, (candidate.id, wanted, share))
        yield _append(self.chosen[wanted.claim_index], Choice(wanted, candidate))

    def _refuse(self, wanted: Wanted, candidate: Candidate) -> None:
        """E18, AC-8."""
        text = (
            f"{wanted.subject}: cannot add device {candidate.shown} because a claim constraint would not be satisfied"
        )
        if not self._facts.fixed("AC-8"):
            raise Fatal(text)
        self._refused = self._refused or text

    def _node_operations(self, candidate: Candidate) -> bool:
        """A-10.3, A-2.3."""
        if not candidate.slice.spec.skip_node_operations or not self._facts.experimental:
            return True
        return (
            self._facts.on("OptionalNodeOperations")
            and "DRAOptionalNodeOperations" in self._facts.node.status.declared_features
        )

    def _shared_already(self, candidate: Candidate) -> bool:
        """A-12.4, AC-6."""
        here = any(
            place == candidate.id and not (other.admin and self._facts.fixed("AC-6"))
            for place, other, _ in self._shares
        )
        return here or self._facts.has_shares(candidate.id)

    def _compatible(self, candidate: Candidate) -> bool:
        """A-13, folded anew each time."""
        pool = self._pool_of[candidate.pool]
        before = [member for member in pool.targeting + pool.elsewhere if self._facts.allocated(member.id)]
        before += [member for member in self._members if member.pool == candidate.pool]
        sets: dict[str, Groups] = {}
        for member in before:
            for name, groups in _groups(member):
                _join(sets, name, groups)
        for name, groups in _groups(candidate):
            if name in sets:
                common = sets[name]
                if groups if common is None else not (common & groups):
                    return False
            _join(sets, name, groups)
        return True

    def _counters_suffice(self, candidate: Candidate) -> bool:
        """A-12, AC-2, AC-10."""
        facts, pool = self._facts, self._pool_of[candidate.pool]
        published = {member.id for member in pool.targeting + pool.elsewhere}
        used = facts.exclusive | facts.shared | facts.consumed.keys()
        if facts.fixed("AC-2") and any(place[:2] == candidate.pool and place not in published for place in used):
            return False
        available = {
            (name, counter): amount for name, counters in pool.counters.items() for counter, amount in counters.items()
        }
        for member in pool.targeting + pool.elsewhere:
            if facts.allocated(member.id):
                for key, amount in _consumed(member):
                    available[key] -= amount
        wanted = dict.fromkeys(available, 0)
        for member in [*(charged for charged in self._charged if charged.pool == candidate.pool), candidate]:
            for key, amount in _consumed(member):
                wanted[key] += amount
        if not facts.fixed("AC-10"):
            return all(wanted[key] <= available[key] for key in available)
        return all(wanted[key] <= max(available[key], 0) for key, amount in _consumed(candidate) if amount)

    def _tainted(self, wanted: Wanted, candidate: Candidate) -> bool:
        """A-14."""
        return any(
            taint.effect in ("NoSchedule", "NoExecute")
            and not any(tolerates(toleration, taint) for toleration in wanted.of.tolerations)
            for taint in candidate.device.taints
        )


def _append(to: list, item: object) -> Undo:  # type: ignore[type-arg]  # of any kind: undone in reverse order
    to.append(item)

    def undo() -> None:
        to.pop()

    return undo


def _undo(steps: list[Undo]) -> None:
    for step in reversed(steps):
        step()


def _groups(candidate: Candidate) -> Iterator[tuple[str, frozenset[str]]]:
    for consumption in candidate.device.consumes_counters:
        yield consumption.counter_set, frozenset(consumption.compatibility_groups)


def _join(sets: dict[str, Groups], name: str, groups: frozenset[str]) -> None:
    if name not in sets:
        sets[name] = groups or None
    elif (common := sets[name]) is not None and groups:
        sets[name] = common & groups


def _consumed(candidate: Candidate) -> Iterator[tuple[tuple[str, str], int]]:
    for consumption in candidate.device.consumes_counters:
        for name, counter in consumption.counters.items():
            yield (consumption.counter_set, name), counter.value.nano
