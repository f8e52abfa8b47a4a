"""What all documents and JSON lines of commands have: ``apiVersion`` and ``kind``, which name their schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

from virt_dra.api.wire import Json

OUTPUT_VERSION: Final = "output.virt-dra.io/v1"


HEAD: Final = ("apiVersion", "kind")
"""The members that every document and line has."""


class ProblemJson(TypedDict):
    """What is wrong with a file."""

    source: str
    """File and line."""
    message: str


class ErrorJson(TypedDict):
    """Why a command that was asked for JSON or YAML has no answer. It exits with 2."""

    error: str
    problems: list[ProblemJson | str]


def output_document(kind: str, members: Mapping[str, Any]) -> Json:
    """The members as a document of a kind."""
    return {"apiVersion": OUTPUT_VERSION, "kind": kind, **members}


def output_list(kind: str, items: Iterable[Any]) -> Json:
    """A list of a kind, as Kubernetes' lists are."""
    return output_document(kind, {"items": list(items)})
