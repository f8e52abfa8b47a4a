"""Trampoline: recursion on a list instead of the interpreter's stack.

A recursive algorithm is written as generators: ``result = yield child(...)`` instead of ``result = child(...)``.
:func:`run` keeps the pending ones on a list, so how deeply an expression nests never decides how deep Python's stack
gets.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Step: TypeAlias = Generator["Step[Any]", Any, T]
"""A computation that yields sub-computations, is sent their results (of any types) and returns T."""


def run(task: Step[T]) -> T:
    """Run a computation with all its sub-computations; the first error ends it."""
    waiting: list[Step[Any]] = []
    current: Step[Any] = task
    value: Any = None
    while True:
        try:
            child = current.send(value)
        except StopIteration as finished:
            value = finished.value
            if not waiting:
                result: T = value
                return result
            current = waiting.pop()
        else:
            waiting.append(current)
            current = child
            value = None
