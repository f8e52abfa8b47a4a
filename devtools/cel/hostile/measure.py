"""The time an expression takes: to compile, to evaluate with and without a budget, and between two polls of the
deadline."""

from __future__ import annotations

import gc
import time
import tracemalloc
from dataclasses import dataclass

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import (
    COST_LIMIT,
    CompiledSelector,
    CompileError,
    EvaluationError,
    Work,
    device_input,
    new_expressions,
)
from virt_dra.cel.compilations import kept_size
from virt_dra.cel.compiler import COUNTED_NODE, KEPT_NODES
from virt_dra.cel.expression import whole
from virt_dra.cel.functions import regex
from virt_dra.cel.selector import selector_in_pieces

DEVICE = device_input(
    "d",
    Device.from_wire(
        {
            "name": "x",
            "attributes": {
                "l": {"strings": ["a"] * 40},
                "m": {"string": "x" * 64},
                "n": {"int": 7},
                "v": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "40Gi"}},
        }
    ),
)
ALLOWED = 200_000.0
"""Microseconds of work, as a review has."""
_LONGEST = 10_240


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of processor time. ``watched``: with ALLOWED; ``stretch``: the longest between two looks; ``charged``:
    seconds of work."""

    compiling: float
    charged_compiling: float
    estimating: float
    watched: float
    charged: float
    stretch: float
    free: float = 0.0
    outcome: str = ""

    @property
    def ratio(self) -> float:
        """Real to charged work of the evaluation."""
        return self.watched / max(self.charged, 1e-6)


class _Looks:
    """A deadline that never passes, and measures the longest time between checks."""

    def __init__(self) -> None:
        self.last = time.thread_time()
        self.longest = 0.0

    def __call__(self) -> bool:
        now = time.thread_time()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        return False


def accepted(expression: str) -> CompiledSelector | None:
    """The selector, if the API server takes it: it compiles as new text, and its worst case is within the limit."""
    if len(expression) > _LONGEST:
        return None
    try:
        selector = whole(selector_in_pieces(expression, new_expressions()))
    except CompileError:
        return None
    return selector if selector.cost_estimate <= COST_LIMIT else None


def forget() -> None:
    """What an earlier measurement has left: patterns and answers."""
    regex.forget()


def measured(expression: str, *, free: bool = False) -> Times | None:
    """None for one that the API server refuses. ``free``: measure the evaluation without a budget too, which may take
    seconds."""
    if len(expression) > _LONGEST:
        return None
    forget()
    gc.freeze()  # what the process holds besides is not the expression's
    try:
        return _measured(expression, free=free)
    finally:
        gc.unfreeze()


def _measured(expression: str, *, free: bool) -> Times | None:
    compiling_work = Work(1e12)

    def spend(microseconds: float) -> None:
        compiling_work.spent(microseconds)

    begin = time.thread_time()
    try:
        selector = whole(selector_in_pieces(expression, new_expressions(), spend))
    except CompileError:
        return None
    compiled = time.thread_time()
    if selector.cost_estimate > COST_LIMIT:
        return None
    estimated = time.thread_time()
    looks = _Looks()
    work = Work(ALLOWED, looks)
    began = time.thread_time()
    outcome = _outcome(selector, work)
    watched = time.thread_time() - began
    looks()
    left = work.left or 0.0
    unwatched = 0.0
    if free:
        forget()
        began = time.thread_time()
        _outcome(selector, None)
        unwatched = time.thread_time() - began
    patterns = (1e12 - (compiling_work.left or 0.0)) / 1e6
    return Times(
        compiled - begin,
        patterns,
        estimated - compiled,
        watched,
        (ALLOWED - left) / 1e6,
        looks.longest,
        unwatched,
        outcome,
    )


def _outcome(selector: CompiledSelector, work: Work | None) -> str:
    try:
        return str(selector.matches(DEVICE, work))
    except EvaluationError as error:
        return f"{type(error).__name__}: {error.message[:80]}"


def kept(expression: str) -> tuple[int, int] | None:
    """Bytes that a compiled selector keeps once it was evaluated, and what the caches count it with; None if
    refused."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            selector = whole(selector_in_pieces(expression, new_expressions()))
        except CompileError:
            return None
        _outcome(selector, Work(ALLOWED))
        gc.collect()
        nodes = selector.program.work_estimate.nodes
        beside = COUNTED_NODE * nodes if nodes > KEPT_NODES else 0
        return tracemalloc.get_traced_memory()[0] - before, kept_size(expression, selector) + beside
    finally:
        tracemalloc.stop()
