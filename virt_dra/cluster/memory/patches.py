"""Merge patches (RFC 7396) and JSON patches (RFC 6902), as pure functions over JSON values.

JSON patches are applied as the API server's library does it, not as the RFC: an absent value is null; an object's
absent member can be replaced, copied (as null) and tested (for null); an index may be negative (-1 is the last place);
only ``replace`` and ``test`` work on the whole document.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

JsonValue = Any
"""Any JSON value."""

OPERATIONS_LIMIT = 10_000
"""As many operations the API server takes in one JSON patch."""


class PatchError(ValueError):
    """A JSON patch that is malformed or can't be applied. The text names the operation by its index."""


def merged(target: JsonValue, patch: JsonValue) -> JsonValue:
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


def patched(target: JsonValue, operations: Sequence[Mapping[str, JsonValue]]) -> JsonValue:
    """Apply operations in order, all or none. Raises :class:`PatchError`."""
    if len(operations) > OPERATIONS_LIMIT:
        raise PatchError(f"The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {len(operations)}")
    document = copy.deepcopy(target)
    for index, operation in enumerate(operations):
        try:
            document = _apply(document, operation)
        except PatchError as error:
            raise PatchError(f"operation {index}: {error}") from None
    return document


def equal(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: numbers by value, but a boolean is no number (Python's ``True == 1``)."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _apply(document: JsonValue, operation: object) -> JsonValue:
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
            return _add(document, path, copy.deepcopy(_member(document, _text(operation, "from"), "copy")))
        case "test":
            if not equal(_member(document, path, "test") if path else document, _value(operation)):
                raise PatchError(f'test: the value at "{path}" is another one')
            return document
        case _:
            raise PatchError(f"unexpected op {name!r}: must be add, remove, replace, move, copy or test")


def _text(operation: Mapping[str, JsonValue], member: str) -> str:
    value = operation.get(member)
    if not isinstance(value, str):
        raise PatchError(f'"{member}" is required and must be a string')
    return value


def _value(operation: Mapping[str, JsonValue]) -> JsonValue:
    """Absent is null, as to the API server."""
    return copy.deepcopy(operation.get("value"))


def _steps(pointer: str) -> list[str]:
    """RFC 6901: ``/a~1b/0`` -> ``["a/b", "0"]``."""
    if pointer and not pointer.startswith("/"):
        raise PatchError(f'"{pointer}" is not a JSON pointer: must be empty or start with "/"')
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _find(document: JsonValue, steps: Sequence[str], operation: str) -> JsonValue:
    node = document
    for depth in range(len(steps)):
        node = _child(node, steps[: depth + 1], operation)
    return node


def _child(node: JsonValue, steps: Sequence[str], operation: str) -> JsonValue:
    """What the last of ``steps`` leads to from the node that the others led to."""
    step, where = steps[-1], _pointer(steps)
    if isinstance(node, dict) and step in node:
        return node[step]
    if isinstance(node, list):
        return node[_index(step, len(node), operation, where)]
    raise PatchError(f'{operation}: "{where}" does not exist')


def _member(document: JsonValue, pointer: str, operation: str) -> JsonValue:
    """What the pointer points to; None for an absent member of an object."""
    steps = _inner_steps(pointer, operation)
    parent = _find(document, steps[:-1], operation)
    return parent.get(steps[-1]) if isinstance(parent, dict) else _child(parent, steps, operation)


def _inner_steps(pointer: str, operation: str) -> list[str]:
    steps = _steps(pointer)
    if not steps:
        raise PatchError(f"{operation}: must be a part of the document, not the whole")
    return steps


def _add(document: JsonValue, pointer: str, value: JsonValue) -> JsonValue:
    steps = _inner_steps(pointer, "add")
    parent = _find(document, steps[:-1], "add")
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    elif isinstance(parent, list):
        place = len(parent) if steps[-1] == "-" else _index(steps[-1], len(parent) + 1, "add", pointer)
        parent.insert(place, value)
    else:
        raise PatchError(f'add: "{_pointer(steps[:-1])}" is neither an object nor a list')
    return document


def _remove(document: JsonValue, pointer: str) -> tuple[JsonValue, JsonValue]:
    """The document without the value, and the value."""
    steps = _inner_steps(pointer, "remove")
    parent = _find(document, steps[:-1], "remove")
    value = _child(parent, steps, "remove")
    del parent[int(steps[-1]) if isinstance(parent, list) else steps[-1]]
    return document, value


def _replace(document: JsonValue, pointer: str, value: JsonValue) -> JsonValue:
    if not pointer:
        if not isinstance(value, dict | list):
            raise PatchError("replace: the whole document can only become an object or a list")
        return value
    steps = _steps(pointer)
    parent = _find(document, steps[:-1], "replace")
    if isinstance(parent, dict):
        parent[steps[-1]] = value
    elif isinstance(parent, list):
        parent[_index(steps[-1], len(parent), "replace", pointer)] = value
    else:
        raise PatchError(f'replace: "{_pointer(steps[:-1])}" is neither an object nor a list')
    return document


def _index(step: str, places: int, operation: str, where: str) -> int:
    """A place from 0; negative steps count from the end."""
    if not re.fullmatch(r"[+-]?[0-9]+", step):
        raise PatchError(f'{operation}: "{where}": "{step}" is not a list index')
    if len(step) > 18 or not -places <= int(step) < places:
        raise PatchError(f'{operation}: "{where}" is beyond the end of the list')
    return int(step) % places


def _pointer(steps: Sequence[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
