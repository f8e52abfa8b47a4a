"""Compiling an expression: its text is parsed, checked and compiled to a program (L-2.*, L-3.7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from virt_dra.cel.checker import check
from virt_dra.cel.compiler import Program, compile_tree
from virt_dra.cel.declarations import STORED_EXPRESSIONS
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import CompileError, Issue, compile_error
from virt_dra.cel.functions.regex import PatternsTooLarge, Spend, free
from virt_dra.cel.literals import InvalidConstant, check_constants
from virt_dra.cel.syntax.parser import parse
from virt_dra.cel.syntax.tokens import SyntaxFault
from virt_dra.cel.types import Type, TypeTooLarge

T = TypeVar("T")

Pieces: TypeAlias = Generator[None, None, T]
"""Work that returns T, in pieces between which it may rest: those of the longest expression take some 10 ms."""

ResultRule = Callable[[Type], str | None]
"""Maps the static type of an expression to the reason for refusing it, or None."""


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which JSON escapes may contain; Kubernetes reads the replacement character."""


def compile_expression(
    text: str, environment: Environment = STORED_EXPRESSIONS, result_rule: ResultRule | None = None, spend: Spend = free
) -> Program:
    """Parse, check and compile an expression; without a ``result_rule`` its value may be of any type.

    ``spend`` is charged for constant patterns, in microseconds, before each is compiled. Raises CompileError.
    """
    return whole(compiling(text, environment, result_rule, spend))


def whole(pieces: Pieces[T]) -> T:
    """The result of work that isn't left for later."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            result: T = done.value
            return result


def compiling(
    text: str, environment: Environment = STORED_EXPRESSIONS, result_rule: ResultRule | None = None, spend: Spend = free
) -> Pieces[Program]:
    """:func:`compile_expression` in pieces."""
    if not text.isascii():
        text = _LONE_SURROGATE.sub("\ufffd", text)
    try:
        root = parse(text)
        yield
        issues = check(root, environment, spend)
    except SyntaxFault as fault:
        raise compile_error(text, list(fault.issues)) from None
    except (TypeTooLarge, PatternsTooLarge) as error:
        raise _too_complex(text, error) from None
    if issues:
        raise compile_error(text, issues)
    refusal = result_rule(root.type) if result_rule is not None else None
    if refusal is not None:
        raise CompileError(refusal)
    yield
    try:
        check_constants(root, spend)
    except PatternsTooLarge as error:
        raise _too_complex(text, error) from None
    except InvalidConstant as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    yield
    return compile_tree(text, root, environment)


def _too_complex(text: str, why: TypeTooLarge | PatternsTooLarge) -> CompileError:
    return compile_error(text, [Issue(None, f"the expression is too complex: {why}")])
