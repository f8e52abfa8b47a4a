"""Merge patches (RFC 7396) and JSON patches (RFC 6902), as pure functions over JSON values. Inputs are never changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

Json = Any
"""Any JSON value."""

OPERATIONS_LIMIT = 10_000
"""As many operations the API server takes in one JSON patch."""


class PatchError(ValueError):
    """A JSON patch that is malformed or can't be applied. The text names the operation by its index."""


def merged(target: Json, patch: Json) -> Json:
    """RFC 7396: objects are merged key by key, ``null`` removes, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def patched(target: Json, operations: Sequence[Mapping[str, Json]]) -> Json:
    """RFC 6902: apply operations in order, all or none. Raises :class:`PatchError`."""
    if len(operations) > OPERATIONS_LIMIT:
        raise PatchError(f"The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {len(operations)}")
    document = copy.deepcopy(target)
    for index, operation in enumerate(operations):
        try:
            document = _apply(document, operation)
        except PatchError as error:
            raise PatchError(f"operation {index}: {error}") from None
    return document


def equal(one: Json, other: Json) -> bool:
    """Equality of JSON values: numbers by value, but a boolean is no number (Python's ``True == 1``)."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def _apply(document: Json, operation: object) -> Json:
    if not isinstance(operation, Mapping):
        raise PatchError("an operation must be an object")
    name = operation.get("op")
    path = _text(operation, "path")
    match name:
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            return _replace(document, path, _value(operation))
        case "move":
            source = _text(operation, "from")
            if path.startswith(f"{source}/"):
                raise PatchError(f'move: "{source}" cannot be moved into itself at "{path}"')
            rest, value = _remove(document, source)
            return _add(rest, path, value)
        case "copy":
            return _add(document, path, copy.deepcopy(_find(document, _steps(_text(operation, "from")), "copy")))
        case "test":
            if not equal(_find(document, _steps(path), "test"), _value(operation)):
                raise PatchError(f'test: the value at "{path}" is another one')
            return document
        case _:
            raise PatchError(f"unexpected op {name!r}: must be add, remove, replace, move, copy or test")


def _text(operation: Mapping[str, Json], member: str) -> str:
    value = operation.get(member)
    if not isinstance(value, str):
        raise PatchError(f'"{member}" is required and must be a string')
    return value


def _value(operation: Mapping[str, Json]) -> Json:
    if "value" not in operation:
        raise PatchError('"value" is required')
    return copy.deepcopy(operation["value"])


def _steps(pointer: str) -> list[str]:
    """RFC 6901: ``/a~1b/0`` -> ``["a/b", "0"]``."""
    if pointer and not pointer.startswith("/"):
        raise PatchError(f'"{pointer}" is not a JSON pointer: must be empty or start with "/"')
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _find(document: Json, steps: Sequence[str], operation: str) -> Json:
    node = document
    for depth, step in enumerate(steps):
        where = _pointer(steps[: depth + 1])
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list):
            node = node[_index(step, len(node) - 1, operation, where)]
        else:
            raise PatchError(f'{operation}: "{where}" does not exist')
    return node


def _add(document: Json, pointer: str, value: Json) -> Json:
    steps = _steps(pointer)
    if not steps:
        return value
    parent = _find(document, steps[:-1], "add")
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    elif isinstance(parent, list):
        last = len(parent) if steps[-1] == "-" else _index(steps[-1], len(parent), "add", pointer)
        parent.insert(last, value)
    else:
        raise PatchError(f'add: "{_pointer(steps[:-1])}" is neither an object nor a list')
    return document


def _remove(document: Json, pointer: str) -> tuple[Json, Json]:
    """The document without the value, and the value."""
    steps = _steps(pointer)
    if not steps:
        raise PatchError("remove: the whole document cannot be removed")
    value = _find(document, steps, "remove")
    parent = _find(document, steps[:-1], "remove")
    del parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]]
    return document, value


def _replace(document: Json, pointer: str, value: Json) -> Json:
    steps = _steps(pointer)
    _find(document, steps, "replace")
    if not steps:
        return value
    parent = _find(document, steps[:-1], "replace")
    parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]] = value
    return document


def _index(step: str, last: int, operation: str, where: str) -> int:
    if not (step.isascii() and step.isdigit()) or (len(step) > 1 and step[0] == "0"):
        raise PatchError(f'{operation}: "{where}": "{step}" is not a list index')
    if len(step) > 9 or int(step) > last:
        raise PatchError(f'{operation}: "{where}" is beyond the end of the list')
    return int(step)


def _pointer(steps: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
