"""The steps of a parsed JSONPath template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TemplateLiteral:
    """Text outside braces or in quotes, a number, true or false."""

    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class TemplateKeyword:
    """``range``, ``end``, or a word that is refused when it is applied."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldStep:
    """``.name``."""

    name: str


@dataclass(frozen=True, slots=True)
class WildcardStep:
    """``.*``: every member of an object or list."""


@dataclass(frozen=True, slots=True)
class RecursiveStep:
    """``..``: a value and everything below it."""


@dataclass(frozen=True, slots=True)
class SliceStep:
    """``[first:last:step]``; None for a part that isn't given. ``index``: it is one position, and ``last`` the next."""

    first: int | None
    last: int | None
    step: int | None
    index: bool = False


@dataclass(frozen=True, slots=True)
class UnionStep:
    """``[0,2]``: the values of several paths."""

    paths: tuple[TemplatePath, ...]


@dataclass(frozen=True, slots=True)
class FilterStep:
    """``[?(left operator right)]``; without ``right``, the items for which ``left`` has a value."""

    left: TemplatePath
    operator: str
    right: TemplatePath


TemplateStep: TypeAlias = (
    TemplateLiteral | TemplateKeyword | FieldStep | WildcardStep | RecursiveStep | SliceStep | UnionStep | FilterStep
)
TemplatePath: TypeAlias = tuple[TemplateStep, ...]
"""What one pair of braces holds."""
TemplatePart: TypeAlias = TemplateLiteral | TemplatePath
"""Text outside braces, or a path."""

EXISTS = "exists"
"""The operator of a filter without comparison."""
