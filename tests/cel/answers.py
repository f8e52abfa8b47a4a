"""What this engine answers to a question, in the form in which the Go witness (tests/upstream/cel) writes its answers."""

from __future__ import annotations

from typing import Any

from tests.cel.rendering import render
from virt_dra.cel import STORED_EXPRESSIONS, CompileError, Environment, EvaluationError, compile_expression, new_expressions
from virt_dra.cli.cel import answer as answer_request

Question = dict[str, Any]
"""A request of ``virt-dra cel --jsonl``; or, with the ``mode`` "language", an expression to be evaluated without a device."""

Answer = dict[str, Any]
"""The members that have a value of ``compile_error``, ``type``, ``cost_estimate``, ``result``, ``error`` and ``cost``."""


def answer(question: Question) -> Answer:
    """Compile and evaluate."""
    if question.get("mode") == "language":
        return _language(question)
    told = {key: value for key, value in answer_request(question).items() if value is not None}
    if "compile_error" not in told:
        told["type"] = str(compile_expression(question["expression"], environment_of(question)).type)
    return told


def environment_of(question: Question) -> Environment:
    """What the question's expression is compiled with."""
    if not question.get("new"):
        return STORED_EXPRESSIONS
    features = question.get("features") or {"consumable": True, "list": True}
    return new_expressions(consumable_capacity=features.get("consumable", False), list_attributes=features.get("list", False))


def _language(question: Question) -> Answer:
    try:
        program = compile_expression(question["expression"], environment_of(question))
    except CompileError as error:
        return {"compile_error": error.message}
    try:
        return {"type": str(program.type), "result": render(program.evaluate({}))}
    except EvaluationError as error:
        return {"type": str(program.type), "error": error.message}
