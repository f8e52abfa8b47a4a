"""What this engine answers to a question, in the form in which the Go witness (devtools/upstream/cel) writes its
answers."""

from __future__ import annotations

from typing import Any

from devtools.cel.rendering import render
from virt_dra.api.resource_v1 import Device
from virt_dra.cel import (
    STORED_EXPRESSIONS,
    CompileError,
    DerivedAttribute,
    DeviceInput,
    Environment,
    EvaluationError,
    compile_derived_attribute,
    compile_expression,
    compile_selector,
    device_input,
    new_expressions,
)
from virt_dra.cel.errors import enhanced
from virt_dra.cel.values import Value
from virt_dra.cli.cel.command import answer as answer_request

Question = dict[str, Any]
"""A request of ``virt-dra cel --jsonl``; or, with the ``mode`` "language", an expression to be evaluated without a
device."""

Answer = dict[str, Any]
"""The members that have a value: ``compile_error``, ``type``, ``cost_estimate``, ``result``, ``error``, ``cost``. For
``plain`` see :func:`answer`."""


def answer(question: Question) -> Answer:
    """Compile and evaluate, in both forms that a program has: the fast one must say what the counted one says."""
    if question.get("mode") == "language":
        return _language(question)
    reported = {key: value for key, value in answer_request(question).items() if value is not None}
    if "compile_error" not in reported:
        reported["type"] = str(compile_expression(question["expression"], environment_of(question)).type)
        _agree(reported, _plainly(question))
    return reported


def _agree(counted: Answer, plain: Answer) -> None:
    """Add what the fast form says if it is something else."""
    if any(counted.get(key) != plain.get(key) for key in ("result", "error")):
        counted["plain"] = plain


def _plainly(question: Question) -> Answer:
    given = question.get("device", {})
    device = Device.from_wire({key: value for key, value in given.items() if key != "driver"})
    expression, environment = question["expression"], environment_of(question)
    try:
        made = device_input(given.get("driver", ""), device)
        if question.get("derived"):
            return _plain_derived(compile_derived_attribute(expression, environment), made)
        return {"result": compile_selector(expression, environment).matches(made)}
    except EvaluationError as error:
        return {"error": error.message}


def _plain_derived(attribute: DerivedAttribute, device: DeviceInput) -> Answer:
    """What the allocator gets, with the advice that ``virt-dra cel`` adds to errors (A-16.4)."""
    try:
        return {"result": attribute.evaluate(device).to_wire()}
    except EvaluationError as error:
        return {"error": enhanced(error.message)}


def environment_of(question: Question) -> Environment:
    """What the question's expression is compiled with."""
    if not question.get("new"):
        return STORED_EXPRESSIONS
    features = question.get("features") or {"consumable": True, "list": True}
    return new_expressions(
        consumable_capacity=features.get("consumable", False), list_attributes=features.get("list", False)
    )


def _language(question: Question) -> Answer:
    try:
        program = compile_expression(question["expression"], environment_of(question))
    except CompileError as error:
        return {"compile_error": error.message}
    value, cost = program.evaluate_with_cost({})
    reported = _outcome(value)
    try:
        plain = _outcome(program.evaluate({}))
    except EvaluationError as error:
        plain = _outcome(error)
    _agree(reported, plain)
    return {"type": str(program.type), "cost_estimate": program.estimate_cost(), **reported, "cost": cost}


def _outcome(value: Value | EvaluationError) -> Answer:
    return {"error": value.message} if isinstance(value, EvaluationError) else {"result": render(value)}
