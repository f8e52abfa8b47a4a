"""A difference made small: whatever can be taken away while a difference of the same kind stays, is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

from devtools.upstream.allocator.problems import FEATURES, Json
from devtools.upstream.allocator.problems.mix import BASE

_NAMES = re.compile(r"claim \S+|request \S+|device \S+|pool \S+|class \S+|slice \S+|#\d+|\d+|\"[^\"]*\"")
_KEPT = frozenset(
    (
        *(
            "metadata",
            "name",
            "spec",
            "driver",
            "pool",
            "generation",
            "resourceSliceCount",
            "node",
            "slices",
            "classes",
            "claims",
        ),
        *(
            "allocated",
            "deviceClassName",
            "counterSet",
            "value",
            "request",
            "device",
            "status",
            "allocation",
            "devices",
        ),
    )
)
"""Without these an object isn't one."""

Path = tuple[str | int, ...]
Edit = Callable[[Json], None]
Same = Callable[[Json], bool]


def kind(theirs: Json, mine: Json) -> tuple[str, ...]:
    """What a difference is about. ``theirs`` and ``mine`` are comparable answers."""
    if theirs["results"] is not None and mine["results"] is not None:
        return ("results", *sorted(set(_differing(theirs["results"], mine["results"], ""))))
    return tuple(_outline(answer) for answer in (theirs, mine))


def _outline(answer: Json) -> str:
    if answer["error"] is not None:
        return f"node error {answer['node_error']}: {_NAMES.sub('_', answer['error'])}"
    return "none" if answer["results"] is None else "allocated"


def _differing(left: Any, right: Any, key: str) -> Iterator[str]:
    """The innermost keys below which two results differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in left.keys() | right.keys():
            yield from _differing(left.get(name), right.get(name), name)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for ours, theirs in zip(left, right, strict=True):
            yield from _differing(ours, theirs, key)
    elif left != right:
        yield key


def shrink(problem: Json, same: Same) -> Json:
    """The smallest problem found for which ``same`` holds, as it does for ``problem``."""
    while (smaller := _pass(problem, same)) is not problem:
        problem = smaller
    return problem


def _pass(problem: Json, same: Same) -> Json:
    """One attempt at each thing that can be taken away; what follows a success moves into its place."""
    edits = list(_edits(problem))
    i = 0
    while i < len(edits):
        smaller = deepcopy(problem)
        edits[i](smaller)
        if smaller != problem and same(smaller):
            problem, edits = smaller, list(_edits(smaller))
        else:
            i += 1
    return problem


def _edits(problem: Json) -> Iterator[Edit]:
    """What makes a problem smaller, the big things first. Edits change what they are given."""
    for i in range(len(problem["slices"])):
        yield partial(_drop_slice, i)
    paths = sorted(_paths(problem, ()), key=len)
    for path in paths:
        if isinstance(path[-1], int):
            yield partial(_drop, path)
    for path in paths:
        if isinstance(path[-1], str) and path[-1] not in _KEPT and path[0] != "features":
            yield partial(_drop, path)
    features = dict.fromkeys(FEATURES, True) | problem.get("features", {})
    for name in FEATURES:
        if features[name] != (name in BASE):
            yield partial(_replace, ("features",), features | {name: name in BASE})
    for path in paths:
        for simpler in _simpler(_at(problem, path), path[-1]):
            yield partial(_replace, path, simpler)
    yield lambda changed: changed["slices"].sort(key=lambda slice_: slice_["metadata"]["name"])


def _drop_slice(number: int, problem: Json) -> None:
    """Its pool stays complete."""
    gone = problem["slices"].pop(number)["spec"]
    for other in (slice_["spec"] for slice_ in problem["slices"]):
        if (other["driver"], other["pool"]["name"]) == (gone["driver"], gone["pool"]["name"]):
            other["pool"] = other["pool"] | {"resourceSliceCount": other["pool"]["resourceSliceCount"] - 1}


def _drop(path: Path, problem: Json) -> None:
    del _at(problem, path[:-1])[path[-1]]


def _replace(path: Path, value: Any, problem: Json) -> None:
    _at(problem, path[:-1])[path[-1]] = value


def _simpler(value: Any, key: str | int) -> Iterator[Any]:
    """Values of their own that say less."""
    match key:
        case "firstAvailable":
            return
        case "count" if value > 1:
            yield value - 1
            yield 1
        case "expression" if value != "true":
            yield "true"
        case "nodeName" if value != "n1":
            yield "n1"
        case "generation" if value > 1:
            yield 1
        case "deviceClassName" if value != "c0":
            yield "c0"


def _paths(value: Any, path: Path) -> Iterator[Path]:
    """Of everything inside."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield (*path, key)
            yield from _paths(member, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield (*path, i)
            yield from _paths(item, (*path, i))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value
