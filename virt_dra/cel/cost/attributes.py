"""Selections and indices, counted: a chain of qualifiers from a variable, a condition or any other expression.

A qualifier costs 1, and so does the chain, except the chain of a condition, of one of its branches, or of an index,
which upstream resolves without counting. After an optional in a chain, a qualifier that finds nothing ends it with
none, at no cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from virt_dra.cel.cost.meter import COST_LIMIT, CostExceeded, FailedValue, Meter
from virt_dra.cel.errors import EvaluationAborted, EvaluationError
from virt_dra.cel.functions.operators import index, optional_index
from virt_dra.cel.runtime import has
from virt_dra.cel.values import NONE, Optional, Value

Run: TypeAlias = Callable[[Meter], Value]
"""A closure that evaluates a part of an expression: returns its value, or a FailedValue."""


class Qualifier(NamedTuple):
    """``.name``, ``[key]``, ``.?name`` or ``[?key]``; ``run`` computes a key that isn't constant."""

    key: Value
    run: Run | None
    optional: bool


def variable(name: str) -> Run:
    """A variable of the environment."""
    missing = FailedValue(EvaluationError(f"no such attribute(s): {name}"))

    def run(meter: Meter) -> Value:
        return meter.variables.get(name, missing)

    return run


def local(slot: int) -> Run:
    """A variable that a comprehension binds."""

    def run(meter: Meter) -> Value:
        return meter.slots[slot]

    return run


def read(slot: int) -> Run:
    """A variable that a comprehension binds, standing alone, which costs 1."""

    def run(meter: Meter) -> Value:
        meter.cost += 1
        if meter.cost > COST_LIMIT:
            raise CostExceeded
        return meter.slots[slot]

    return run


def chain(root: Run, qualifiers: list[Qualifier], own: int) -> Run:
    """A closure for the chain's value; ``own``: its cost besides its parts."""
    if not qualifiers and not own:
        return root
    if not qualifiers:

        def alone(meter: Meter) -> Value:
            value = root(meter)
            meter.charge(own)
            return value

        return alone

    def run(meter: Meter) -> Value:
        value = _qualified(meter, root(meter), qualifiers)
        meter.charge(own)
        return value

    return run


def presence(root: Run, qualifiers: list[Qualifier], name: str, own: int) -> Run:
    """A closure for ``has(….name)``. As upstream it costs 1 less than the chain; below zero it exceeds every limit."""

    def run(meter: Meter) -> Value:
        value = _tested(meter, _qualified(meter, root(meter), qualifiers), name)
        if own < 0 and not meter.cost:
            meter.cost = 2**64
        meter.cost += own
        if meter.cost > COST_LIMIT:
            raise CostExceeded
        return value

    return run


def _tested(meter: Meter, value: Value, name: str) -> Value:
    if isinstance(value, FailedValue):
        return value
    optional = isinstance(value, Optional)
    if isinstance(value, Optional):
        if not value.present:
            return False
        value = value.value
    try:
        present = has(value, name)
    except EvaluationAborted:
        raise
    except EvaluationError as error:
        if not optional:
            meter.charge(1)
        return FailedValue(error)
    if present or not optional:
        meter.charge(1)
    return present


def _qualified(meter: Meter, value: Value, qualifiers: list[Qualifier]) -> Value:
    if isinstance(value, FailedValue):
        return value
    optional = False
    if isinstance(value, Optional):
        if not value.present:
            return value
        if not qualifiers:
            return value
        value, optional = value.value, True
    for key, run, asked in qualifiers:
        optional = optional or asked
        if run is not None:
            key = run(meter)
            if isinstance(key, FailedValue):
                if not optional:
                    meter.charge(1)
                return key
        try:
            if optional:
                element = optional_index(value, key)
                if not element.present:
                    return NONE
                value = element.value
                meter.charge(1)
            else:
                value = index(value, key)
                meter.charge(1)
        except EvaluationAborted:
            raise
        except EvaluationError as error:
            if not optional:
                meter.charge(1)
            return FailedValue(error)
    return Optional(True, value) if optional else value
