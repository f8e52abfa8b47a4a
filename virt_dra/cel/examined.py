"""The outcome of evaluating an expression on one device, with its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Examined(Generic[V]):
    """A value or an error. ``cost`` is Kubernetes' run-time cost so far (L-4.1); None if nothing was evaluated."""

    value: V | None = None
    error: str | None = None
    cost: int | None = None
