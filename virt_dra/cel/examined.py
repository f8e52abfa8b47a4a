"""What evaluating an expression on one device came to, with what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Examined(Generic[V]):
    """A value, or else an error. ``cost`` is Kubernetes' run-time cost up to there (L-4.1); None where nothing was evaluated."""

    value: V | None = None
    error: str | None = None
    cost: int | None = None
