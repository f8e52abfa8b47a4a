"""The checks of expressions that :mod:`virt_dra.api.validation` gets from above: compiling and estimating them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from virt_dra.api.feature_gates import FeatureGates
from virt_dra.api.names import byte_length
from virt_dra.api.validation import TOO_COMPLEX, Rules
from virt_dra.api.validation.expressions import EXPRESSION_MAX
from virt_dra.cel import (
    COST_LIMIT,
    CompiledSelector,
    CompileError,
    DerivedAttribute,
    Environment,
    compile_derived_attribute,
    compile_selector,
    new_expressions,
)

Compile = Callable[[str, Environment], CompiledSelector | DerivedAttribute]


def expression_fault(compiled: Compile, environment: Environment, expression: str) -> str | None:
    """Why the API server refuses an expression, in its words; None if it accepts it (C-14.1, A-21.8)."""
    try:
        estimate = compiled(expression, environment).cost_estimate
    except CompileError as error:
        return str(error)
    return TOO_COMPLEX if estimate > COST_LIMIT else None


def derived_attribute_cost(environment: Environment, expression: str) -> int:
    """The cost of a derived attribute that counts towards its claim's limit; 0 if it doesn't compile (A-21.8)."""
    if byte_length(expression) > EXPRESSION_MAX:
        return 0
    try:
        return compile_derived_attribute(expression, environment).cost_estimate
    except CompileError:
        return 0


def compiled_rules(gates: FeatureGates) -> Rules:
    """The rules of validation, with expressions compiled in the environment of the gates (A-21.4)."""
    environment = new_expressions(
        consumable_capacity=gates.consumable_capacity, list_attributes=gates.list_type_attributes
    )
    return Rules(
        check_selector=partial(expression_fault, compile_selector, environment),
        check_derived_attribute=partial(expression_fault, compile_derived_attribute, environment),
        derived_attribute_cost=partial(derived_attribute_cost, environment),
        gates=gates,
    )


EMBEDDED_GATES = replace(FeatureGates.all(), fractional_capacity_range=False)
"""All gates on, so that no field is dropped (decision 0007), but one that drops none: off as in a plain 1.37."""
COMPILED = compiled_rules(EMBEDDED_GATES)
