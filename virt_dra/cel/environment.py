"""The environment of an expression: the variables, fields of objects, type names and functions that it may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from virt_dra.cel.functions.registry import Library
from virt_dra.cel.types import Type


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """What an expression may refer to. Compared by identity: compiled expressions are cached by environment."""

    name: str
    variables: Mapping[str, Type]
    objects: Mapping[str, Mapping[str, Type]]
    """Fields by type of object. A value of such a type is a dict with all of them."""
    type_names: Mapping[str, Type]
    functions: Library
