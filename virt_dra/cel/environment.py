"""What an expression may refer to: variables, fields of objects, type names and functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from virt_dra.cel.functions.registry import Library
from virt_dra.cel.types import Type


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object type: its CEL type and the Python attribute that holds it."""

    type: Type
    attribute: str


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """Immutable; compiled expressions are cached by it, so there is one object for each environment."""

    name: str
    variables: Mapping[str, Type]
    objects: Mapping[str, Mapping[str, Field]]
    type_names: Mapping[str, Type]
    functions: Library
