"""Changes of written objects: the whole text afterwards, and that it means the changed value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from virt_dra.api.editing.changes import (
    AppendItem,
    CannotChange,
    NestMembers,
    RemoveMember,
    RenameMember,
    SetMember,
    UnnestMember,
    ValueChange,
    WrapMember,
    changed,
)
from virt_dra.api.editing.member_edits import WrittenObjects
from virt_dra.api.editing.text_edits import edited
from virt_dra.api.editing.text_nodes import NodePlace
from virt_dra.api.reading.documents import read_documents

KINDS: dict[str, type[Any]] = {
    "append": AppendItem,
    "nest": NestMembers,
    "remove": RemoveMember,
    "rename": RenameMember,
    "set": SetMember,
    "unnest": UnnestMember,
    "wrap": WrapMember,
}
CASES = list(yaml.safe_load_all((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8")))


def _changes(case: dict[str, Any]) -> list[ValueChange]:
    changes: list[ValueChange] = []
    for kind, path, *arguments in case["changes"]:
        if kind in ("append", "set"):
            arguments = [json.dumps(arguments[0])]
        elif kind == "nest":
            arguments = [tuple(arguments[0]), arguments[1]]
        changes.append(KINDS[kind](tuple(path), *arguments))
    return changes


def _place(case: dict[str, Any]) -> NodePlace:
    return NodePlace(*case.get("place", [1]))


@pytest.mark.parametrize("case", [case for case in CASES if "after" in case], ids=lambda case: case["name"])
def test_a_change_is_made_where_it_belongs_and_nowhere_else(case: dict[str, Any]) -> None:
    changes = _changes(case)
    after = edited(case["before"], WrittenObjects(case["before"], [_place(case)]).edits({_place(case): changes}))
    assert after == case["after"]
    before = read_documents(case["before"].encode(), "before")
    wanted = [
        changed(document.raw, changes) if _is_at(document.source, _place(case)) else document.raw for document in before
    ]
    assert [document.raw for document in read_documents(after.encode(), "after")] == wanted


def _is_at(source: Any, place: NodePlace) -> bool:
    return (source.document, source.item) == (place.document, place.item)


@pytest.mark.parametrize("case", [case for case in CASES if "refused" in case], ids=lambda case: case["name"])
def test_a_change_that_would_lose_something_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(CannotChange) as refused:
        WrittenObjects(case["before"], [_place(case)]).edits({_place(case): _changes(case)})
    assert str(refused.value) == case["refused"]
