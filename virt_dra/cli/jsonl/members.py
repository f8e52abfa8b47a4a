"""The members of a JSON request, read with their types checked. A wrong one raises :class:`BadLine`, or WireError with
the whole path."""

from __future__ import annotations

import traceback
from collections.abc import Collection
from typing import Any

from virt_dra.api.wire import JSON_TYPES, Json, WireError


class BadLine(ValueError):
    """A request that can't be understood. The message says which member is wrong and what is expected."""


def member(request: Json, name: str, kind: type, default: Any = None) -> Any:
    """A member of the request with its JSON type checked; ``null`` counts as absent."""
    value: object = request.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise BadLine(f"{name}: must be {JSON_TYPES[kind]}, not {found_type(value)}")
    return value


def found_type(value: object) -> str:
    """The JSON type of a value, for messages."""
    return JSON_TYPES[type(value)]


def under(name: str, error: WireError) -> WireError:
    """The error with its paths below a member of the request."""
    return WireError(
        error.kind, tuple((f"{name}.{path}" if path else name, message) for path, message in error.problems)
    )


def switches(request: Json, names: Collection[str]) -> dict[str, bool] | None:
    """The member ``features``: the given names, each true or false; a missing one is false. None without the
    member."""
    raw: Json | None = member(request, "features", dict)
    if raw is None:
        return None
    chosen = dict.fromkeys(names, False)
    for name in raw:
        if name not in chosen:
            raise BadLine(f"features.{name}: no such feature; there are {', '.join(names)}")
        try:
            chosen[name] = member(raw, name, bool, False)
        except BadLine as error:
            raise BadLine(f"features.{error}") from None
    return chosen


def internal_error(fault: Exception) -> str:
    """The error of an answer where it is our fault, while others are still answered."""
    where = traceback.extract_tb(fault.__traceback__)[-1]
    return f"internal error, please report it: {type(fault).__name__} in {where.name}: {fault}"
