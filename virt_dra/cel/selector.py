"""Device selectors: expressions that are true for the devices they select (L-3.5, L-3.7, A-21.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.cel.compilations import Compilations
from virt_dra.cel.declarations import STORED_EXPRESSIONS, attribute_type
from virt_dra.cel.device import DeviceInput
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import BudgetExceeded, EvaluationError, Interrupted, enhanced
from virt_dra.cel.examined import DeviceExpression
from virt_dra.cel.expression import Pieces, compiling
from virt_dra.cel.functions.regex import Spend, free
from virt_dra.cel.limits.budget import InterruptCheck, Work
from virt_dra.cel.reads import Reads, Wanted
from virt_dra.cel.types import BOOL, Type
from virt_dra.cel.values import Optional, Value, type_name

CACHE_SIZE: Final = 4096
CACHE_BYTES: Final = 48 << 20
"""Limits of the cache of compiled selectors: their number, more than a large cluster has, and their bytes."""


class CompiledSelector(DeviceExpression[bool]):
    """A compiled device selector. Make it with :func:`compile_selector`."""

    __slots__ = ()

    @property
    def reads(self) -> Reads | None:
        """The parts of a device on which the result depends, given that all its attributes can be converted; None if
        unknown."""
        return self.program.reads

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """Values that a device must have to be selected; see :func:`virt_dra.cel.reads.wanted`."""
        return self.program.wanted

    def matches(self, device: DeviceInput, interrupt: Work | InterruptCheck | None = None) -> bool:
        """True if the device is selected. Raises EvaluationError with the text that users see (L-3.5, L-3.7).

        ``interrupt``: a check polled at least every half millisecond of work, which ends the evaluation with `operation
        interrupted` (L-4.4); or a budget (:class:`~virt_dra.cel.limits.budget.Work`) from which the work is deducted:
        Interrupted when it is used up.
        """
        try:
            value = self.program.evaluate({"device": device}, interrupt)
        except (BudgetExceeded, Interrupted):
            raise
        except EvaluationError as error:
            raise EvaluationError(enhanced(error.message)) from None
        return self._converted(value)

    def _converted(self, value: Value) -> bool:
        """The result as a bool; an optional counts as its value (L-3.7)."""
        inner = value
        why = ""
        while isinstance(inner, Optional) and not why:
            why = "" if inner.present else "optional.none() dereference"
            inner = inner.value
        if not why and (inner is True or inner is False):
            return inner is True
        name = type_name(inner)
        why = why or _REFUSALS.get(name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'")
        raise EvaluationError(f"CEL result of type {type_name(value)} could not be converted to bool: {why}")


_REFUSALS: Final[Mapping[str, str]] = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "type": "type conversion not supported for 'type'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "kubernetes.NamedFormat": "type conversion error from 'Format' to 'bool'",
}


def compile_selector(
    expression: str,
    environment: Environment = STORED_EXPRESSIONS,
    work: Work | None = None,
    interrupt: InterruptCheck | None = None,
) -> CompiledSelector:
    """Compile a device selector, or return the cached one (A-21.9).

    ``environment``: that of stored expressions, as in the scheduler, or one of :func:`new_expressions`, as at
    admission. ``work``: the budget for compiling; ``interrupt``: polled meanwhile, and what was compiled until then is
    kept for the next time. Raises CompileError: a fault in the text (`compilation failed: …`),
    or a result that is neither bool nor unknown (L-3.7). Raises Interrupted when the budget is used up.
    """
    return SELECTORS.get(expression, environment, work, interrupt)


def selector_in_pieces(
    expression: str, environment: Environment = STORED_EXPRESSIONS, spend: Spend = free
) -> Pieces[CompiledSelector]:
    """The compiled selector, without the cache; ``spend`` is charged for patterns."""
    unknown = attribute_type(environment)

    def refusal(result: Type) -> str | None:
        return None if result in (BOOL, unknown) else f"must evaluate to bool or the unknown type, not {result}"

    return CompiledSelector(expression, (yield from compiling(expression, environment, refusal, spend)))


SELECTORS: Final = Compilations(selector_in_pieces, CACHE_BYTES, CACHE_SIZE)
