"""The Common Expression Language as Kubernetes' device selectors use it (docs/spec/cel.md).

An expression becomes tokens, a tree, a checked tree, and Python source that is compiled once and run per device. This
package knows no slices, claims or clusters, does no I/O, and has no clock and no randomness.
"""

from __future__ import annotations

from virt_dra.cel.compiler import Program
from virt_dra.cel.cost.meter import COST_LIMIT, CostExceeded
from virt_dra.cel.declarations import LANGUAGE, STORED_EXPRESSIONS, new_expressions
from virt_dra.cel.derived import DerivedAttribute, compile_derived_attribute
from virt_dra.cel.device import DeviceInput, convertible, device_input
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import BudgetExceeded, CelError, CompileError, EvaluationError, Interrupted
from virt_dra.cel.examined import Examined
from virt_dra.cel.expression import compile_expression
from virt_dra.cel.limits.budget import InterruptCheck, Work
from virt_dra.cel.selector import CompiledSelector, compile_selector

__all__ = [
    "COST_LIMIT",
    "LANGUAGE",
    "STORED_EXPRESSIONS",
    "BudgetExceeded",
    "CelError",
    "CompileError",
    "CompiledSelector",
    "CostExceeded",
    "DerivedAttribute",
    "DeviceInput",
    "Environment",
    "EvaluationError",
    "Examined",
    "InterruptCheck",
    "Interrupted",
    "Program",
    "Work",
    "compile_derived_attribute",
    "compile_expression",
    "compile_selector",
    "convertible",
    "device_input",
    "new_expressions",
]
