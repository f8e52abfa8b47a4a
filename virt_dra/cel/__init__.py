"""The Common Expression Language as Kubernetes' device selectors use it (docs/spec/cel.md).

An expression becomes tokens, a tree, a checked tree, and Python source that is compiled once and run per device. This package knows no
slices, claims or clusters, does no I/O, and sees no clock and no randomness.
"""

from __future__ import annotations

from virt_dra.cel.compiler import Program
from virt_dra.cel.device import LANGUAGE, STORED_EXPRESSIONS, DeviceInput, Selector, compile_expression, compile_selector, device_input
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import CelError, CompileError, EvaluationError

__all__ = [
    "LANGUAGE",
    "STORED_EXPRESSIONS",
    "CelError",
    "CompileError",
    "DeviceInput",
    "Environment",
    "EvaluationError",
    "Program",
    "Selector",
    "compile_expression",
    "compile_selector",
    "device_input",
]
