"""Test cases as changes of a base: ``path.to.0.field`` -> value; null removes."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.wire import Json


def cases_in(folder: Path) -> list[Any]:
    """The cases of all files but base.yaml, as parameters named ``file: case``."""
    files = sorted(path for path in folder.glob("*.yaml") if path.name != "base.yaml")
    return [
        pytest.param(case, id=f"{path.stem}: {case['case']}")
        for path in files
        for case in yaml.load(path.read_text(), yaml.CSafeLoader)
    ]


def base_of(folder: Path) -> Json:
    base: Json = yaml.load((folder / "base.yaml").read_text(), yaml.CSafeLoader)
    return base


def changed(base: Json, changes: Json) -> Json:
    """A copy of the base with the changes made, in their order. An index one past the end of a list appends."""
    objects = deepcopy(base)
    for path, value in deepcopy(changes).items():  # anchors share values between cases
        parts: list[Any] = [int(part) if part.isdigit() else part for part in path.split(".")]
        *parents, last = parts
        owner: Any = objects
        for part in parents:
            owner = owner[part] if isinstance(owner, list) else owner.setdefault(part, {})
        if value is not None:
            if isinstance(owner, list) and last == len(owner):
                owner.append(value)
            else:
                owner[last] = value
        elif isinstance(owner, list) or last in owner:
            del owner[last]
    return objects
