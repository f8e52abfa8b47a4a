"""The schemas of outputs are those of the types, and no document is without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict

import pytest

from devtools.output_kinds import OUTPUTS, OutputKind
from devtools.schemas import FOLDER, schema_of, schema_text
from tests.guides.outputs import SCHEMA_OF_KIND
from tests.json_schema import faults

PACKAGE: Final = Path(__file__).parents[2] / "virt_dra"
_MAKES_DOCUMENTS: Final = ("output_document", "output_list", "print_output")


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_schema_is_that_of_its_type(name: str) -> None:
    written = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert written == schema_text(name), "renew it with: python -m devtools.schemas"


def _named_kinds() -> Iterator[str]:
    """The kinds of which the code makes documents."""
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if not any(name in text for name in _MAKES_DOCUMENTS):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MAKES_DOCUMENTS:
                kind = node.args[0] if node.args else None
                if isinstance(kind, ast.Constant) and isinstance(kind.value, str) and kind.value[0].isupper():
                    yield kind.value


def test_every_kind_has_a_schema() -> None:
    kinds = set(_named_kinds())
    assert len(kinds) > 20
    assert kinds - SCHEMA_OF_KIND.keys() == set()


class _PartJson(TypedDict):
    """A part."""

    size: Literal["s", "l"]


_NamedJson = TypedDict("_NamedJson", {"for": list[_PartJson]})


class _WholeJson(_NamedJson):
    """A whole,
    in two lines."""

    weight: float | None
    """In kg."""
    more: NotRequired[dict[str, int]]
    anything: NotRequired[Any]


def test_a_schema_is_strict() -> None:
    schema = schema_of(OutputKind("A title", (("Whole", _WholeJson),)))
    head = {"apiVersion": "output.virt-dra.io/v1", "kind": "Whole"}
    good = {**head, "for": [{"size": "s"}], "weight": 1.5}
    assert (schema["title"], schema["description"]) == ("A title", "A whole, in two lines.")
    assert schema["properties"]["weight"] == {"type": ["number", "null"], "description": "In kg."}
    assert faults({**good, "more": {"a": 1}, "anything": [None]}, schema) == []
    for wrong, fault in [
        ({**good, "kind": "Part"}, ".kind: 'Part' isn't allowed"),
        ({**good, "weight": True}, ".weight: not of type ['number', 'null']"),
        ({**good, "colour": "red"}, ".colour: unknown"),
        ({**good, "for": [{"size": "m"}]}, ".for[0].size: 'm' isn't allowed"),
        ({**good, "more": {"a": "1"}}, ".more.a: not of type integer"),
        (head, ".for: missing"),
    ]:
        assert fault in faults(wrong, schema)


def test_an_answer_to_a_line_has_its_id() -> None:
    schema = schema_of(OutputKind("A title", (("Part", _PartJson),), answers=True))
    assert schema["required"] == ["apiVersion", "kind", "id", "size"]
    assert faults({"apiVersion": "output.virt-dra.io/v1", "kind": "Part", "id": None, "size": "l"}, schema) == []
