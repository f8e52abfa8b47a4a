"""What this engine answers to a question, in the form in which the Go witness (tests/upstream/cel) writes its answers."""

from __future__ import annotations

from typing import Any

from tests.cel.rendering import render
from virt_dra.api.resource_v1 import Device
from virt_dra.cel import CompileError, EvaluationError, compile_expression, compile_selector, device_input

Question = dict[str, Any]
"""``expression``; ``mode``: "language" or "selector"; for a selector ``device``: driver, attributes, capacity … in wire form."""

Answer = dict[str, Any]
"""``compile_error``, or ``type`` and ``result``, or ``type`` and ``error``."""


def answer(question: Question) -> Answer:
    """Compile and evaluate."""
    return (_selector if question["mode"] == "selector" else _language)(question)


def _language(question: Question) -> Answer:
    try:
        program = compile_expression(question["expression"])
    except CompileError as error:
        return {"compile_error": error.message}
    try:
        return {"type": str(program.type), "result": render(program.evaluate({}))}
    except EvaluationError as error:
        return {"type": str(program.type), "error": error.message}


def _selector(question: Question) -> Answer:
    try:
        selector = compile_selector(question["expression"])
    except CompileError as error:
        return {"compile_error": error.message}
    kind = str(compile_expression(question["expression"]).type)
    given = question["device"]
    device = Device.from_wire({"name": "d", **{key: value for key, value in given.items() if key != "driver"}})
    try:
        return {"type": kind, "result": selector.matches(device_input(given["driver"], device))}
    except EvaluationError as error:
        return {"type": kind, "error": error.message}
