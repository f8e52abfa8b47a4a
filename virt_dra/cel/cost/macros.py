"""Macros in the counted form: closures that cost what their expansions into comprehensions, conditions and calls cost.

In upstream's terms: a comprehension reads its accumulator (1) before every step, in it and at the end. Before each
element ``all`` checks whether to continue (a call, 1; ``exists`` negates, another 1). A list grows by adding a list of
one element (10 + 1). A step that fails does not end the loop; from then on the accumulator is the failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from virt_dra.cel.cost.actual import sorted_by_keys
from virt_dra.cel.cost.attributes import Run
from virt_dra.cel.cost.meter import COST_LIMIT, UNSET, FailedValue, Meter
from virt_dra.cel.errors import EvaluationAborted, EvaluationError, Interrupted
from virt_dra.cel.functions.lists import SORT_BY, sorted_by
from virt_dra.cel.functions.registry import no_such_overload
from virt_dra.cel.runtime import NO_SUCH_OVERLOAD, UNFIT, elements, insert, pairs
from virt_dra.cel.values import NONE, Optional, Value, key_value

C = TypeVar("C", list[Value], dict[Value, Value])

_NO_OVERLOAD = FailedValue(EvaluationError(NO_SUCH_OVERLOAD))
_INTERRUPTED = FailedValue(Interrupted())


def caught(action: Callable[..., Value], *arguments: object) -> Value:
    """An action's result, or its failure as a value. An error that aborts the evaluation is raised."""
    try:
        return action(*arguments)
    except EvaluationAborted:
        raise
    except EvaluationError as error:
        return FailedValue(error)
    except UNFIT:
        return _NO_OVERLOAD


# --- conditions and bindings ---


def conditional(condition: Run, chosen: Run, other: Run) -> Run:
    """``condition ? chosen : other``, which is free itself."""

    def run(meter: Meter) -> Value:
        value = condition(meter)
        if value is True:
            return chosen(meter)
        if value is False:
            return other(meter)
        return value if isinstance(value, FailedValue) else _NO_OVERLOAD

    return run


def bind(slot: int, body: Run) -> Run:
    """``cel.bind``: the value is computed when the variable is first used."""

    def run(meter: Meter) -> Value:
        meter.slots[slot] = UNSET
        return body(meter)

    return run


def lazy(slot: int, value: Run) -> Run:
    """A variable of cel.bind."""

    def run(meter: Meter) -> Value:
        bound = meter.slots[slot]
        if bound is UNSET:
            meter.started.append(slot)
            bound = meter.slots[slot] = value(meter)
        return bound

    return run


def repeated(slot: int, due: int, target: Run, weight: float) -> Run:
    """The variable of optMap: on first use upstream computes the target again and calls value(); ``weight``: the work
    of that."""

    def run(meter: Meter) -> Value:
        cost = meter.slots[due]
        if cost is not None:
            meter.slots[due] = None
            meter.started.append(slot)
            if isinstance(cost, int) and meter.cost + cost <= COST_LIMIT:
                meter.charge(cost)
            else:
                meter.spend(weight)
                target(meter)
            meter.charge(1)
        return meter.slots[slot]

    return run


def optional_map(target: Run, body: Run, slot: int, due: int, within: frozenset[int], *, flat: bool) -> Run:
    """``target.optMap(variable, body)`` or optFlatMap: hasValue() costs 1, and so does creating the result, except for
    optFlatMap.

    Computing the target once more costs the same again, unless it was the first to use a variable that is bound around
    it; ``within``: the slots of those bound inside.
    """

    def run(meter: Meter) -> Value:
        before, mark = meter.cost, len(meter.started)
        value = target(meter)
        again = meter.cost - before if within.issuperset(meter.started[mark:]) else UNSET
        meter.charge(1)
        if isinstance(value, FailedValue):
            return value
        if not isinstance(value, Optional):
            return FailedValue(EvaluationError(no_such_overload("hasValue", value)))
        if not value.present:
            meter.charge(1)
            return NONE
        meter.slots[slot], meter.slots[due] = value.value, again
        made = body(meter)
        if flat:
            return made
        meter.charge(1)
        return made if isinstance(made, FailedValue) else Optional(True, made)

    return run


def either(target: Run, other: Run, *, whole: bool) -> Run:
    """``target.or(other)`` (``whole``) and ``target.orValue(other)``, which are free themselves."""

    def run(meter: Meter) -> Value:
        value = target(meter)
        if isinstance(value, FailedValue):
            return value
        if not isinstance(value, Optional):
            return _NO_OVERLOAD
        if value.present:
            return value if whole else value.value
        return other(meter)

    return run


# --- loops ---


@dataclass(frozen=True, slots=True)
class Loop:
    """A range and the slots of the one or two variables bound to its parts."""

    over: Run
    slot: int
    weight: float
    """Microseconds of a step."""
    second: int | None = None

    def entries(self, meter: Meter) -> Iterable[None] | FailedValue:
        """Bind the variables, once for each element or entry; yields after each binding."""
        value = self.over(meter)
        if isinstance(value, FailedValue):
            return value
        try:
            if self.second is None:
                return self._singles(meter, elements(meter, value, self.weight))
            return self._pairs(meter, pairs(meter, value, self.weight))
        except EvaluationAborted:
            raise
        except EvaluationError as error:
            return FailedValue(error)

    def _singles(self, meter: Meter, values: Iterable[Value]) -> Iterator[None]:
        slots, slot = meter.slots, self.slot
        for slots[slot] in values:
            yield None

    def _pairs(self, meter: Meter, values: Iterable[tuple[Value, Value]]) -> Iterator[None]:
        slots, first, second = meter.slots, self.slot, self.second or 0
        for slots[first], slots[second] in values:
            yield None


def quantifier(loop: Loop, body: Run, *, decisive: bool) -> Run:
    """``all`` (decisive: False) and ``exists`` (True)."""
    asking = 3 if decisive else 2

    def run(meter: Meter) -> Value:
        entries = loop.entries(meter)
        if isinstance(entries, FailedValue):
            return entries
        result: Value = not decisive
        for _ in entries:
            meter.charge_each(asking)
            if result is decisive:
                break
            meter.charge(1)
            value = body(meter)
            if value is decisive:
                result = decisive
            elif value is not (not decisive) and not isinstance(result, FailedValue):
                result = value if isinstance(value, FailedValue) else _NO_OVERLOAD
            if meter.stopped():
                return _INTERRUPTED
        meter.charge(1)
        return result

    return run


def exists_one(loop: Loop, body: Run) -> Run:
    """``exists_one``: counts, and compares the count with 1."""

    def run(meter: Meter) -> Value:
        entries = loop.entries(meter)
        if isinstance(entries, FailedValue):
            return entries
        result: Value = 0
        for _ in entries:
            value = body(meter)
            if value is True:
                meter.charge_each(2)
                if isinstance(result, int):
                    result += 1
            elif value is not False:
                result = value if isinstance(value, FailedValue) else _NO_OVERLOAD
            if meter.stopped():
                return _INTERRUPTED
        meter.charge_each(2)
        return result if isinstance(result, FailedValue) else result == 1

    return run


def collect(loop: Loop, condition: Run | None, body: Run, element_cost: int) -> Run:
    """``filter``, ``map``, ``transformList``: a list of the body's values for the entries that meet the condition."""

    def step(meter: Meter, made: list[Value], failure: FailedValue | None) -> FailedValue | None:
        value = body(meter)
        meter.charge(element_cost)
        meter.charge(1)
        if not isinstance(value, FailedValue):
            made.append(value)
            return failure
        return failure or value

    return _folded(loop, condition, list[Value], step)


def transform_map(loop: Loop, condition: Run | None, body: Run) -> Run:
    """``transformMap``: a map with the range's keys. Once a step has failed, the others end where they read the
    accumulator."""

    def step(meter: Meter, made: dict[Value, Value], failure: FailedValue | None) -> FailedValue | None:
        if failure is not None:
            return failure
        meter.charge(1)
        value = body(meter)
        inserted = value if isinstance(value, FailedValue) else caught(insert, made, meter.slots[loop.slot], value)
        meter.charge(1)
        return inserted if isinstance(inserted, FailedValue) else None

    return _folded(loop, condition, dict[Value, Value], step)


def transform_entries(loop: Loop, condition: Run | None, body: Run) -> Run:
    """``transformMapEntry``: the body's maps as one."""

    def step(meter: Meter, made: dict[Value, Value], failure: FailedValue | None) -> FailedValue | None:
        value = body(meter)
        if failure is None:
            inserted = value if isinstance(value, FailedValue) else caught(_insert, made, value)
            failure = inserted if isinstance(inserted, FailedValue) else None
        meter.charge(1)
        return failure

    return _folded(loop, condition, dict[Value, Value], step)


def _folded(
    loop: Loop,
    condition: Run | None,
    empty: Callable[[], C],
    step: Callable[[Meter, C, FailedValue | None], FailedValue | None],
) -> Run:
    """A list or map, to which each entry that meets the condition adds by a step. ``step``: takes the failure so far,
    and returns that or a new one."""

    def run(meter: Meter) -> Value:
        entries = loop.entries(meter)
        if isinstance(entries, FailedValue):
            return entries
        made = empty()
        failure: FailedValue | None = None
        for _ in entries:
            wanted = True if condition is None else condition(meter)
            if wanted is True:
                meter.charge(1)
                failure = step(meter, made, failure)
            elif wanted is not False:
                failure = wanted if isinstance(wanted, FailedValue) else _NO_OVERLOAD
            if meter.stopped():
                return _INTERRUPTED
        meter.charge(1)
        return failure or made

    return run


def _insert(made: dict[Value, Value], entries: Value) -> None:
    if not isinstance(entries, dict):
        raise EvaluationError(no_such_overload("cel.@mapInsert", made, entries))
    for key, value in entries.items():
        insert(made, key_value(key), value)


def sort_by(loop: Loop, body: Run, element_cost: int, *, typed: bool) -> Run:
    """``sortBy``: a list, and the keys of its elements, sorted by a call; ``typed``: True if the keys' type is known
    before."""

    def run(meter: Meter) -> Value:
        values = loop.over(meter)
        # upstream binds the list to a variable and reads it twice: for the keys and as the call's target
        meter.charge_each(2)
        keys = collect(Loop(lambda _: values, loop.slot, loop.weight), None, body, element_cost)(meter)
        if keys is _INTERRUPTED:
            return keys
        cost = sorted_by_keys((values, keys), None) if typed else 1
        if meter.cost + cost > COST_LIMIT:
            meter.charge(cost)
        result = caught(_sorted, meter, values, keys) if isinstance(keys, list) else keys
        meter.charge(cost)
        return result

    return run


def _sorted(meter: Meter, values: Value, keys: list[Value]) -> Value:
    if not isinstance(values, list):
        raise EvaluationError(f"no such overload: {SORT_BY}")
    return sorted_by(meter, values, keys)
