"""What the documents of the command line have in common: ``apiVersion`` and ``kind``, which name their schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from virt_dra.api.wire import Json

OUTPUT_VERSION: Final = "output.virt-dra.io/v1"


def output_document(kind: str, members: Mapping[str, Any]) -> Json:
    """The members as a document of a kind."""
    return {"apiVersion": OUTPUT_VERSION, "kind": kind, **members}


def output_list(kind: str, items: Iterable[Any]) -> Json:
    """A list of a kind, as Kubernetes' lists are."""
    return output_document(kind, {"items": list(items)})
