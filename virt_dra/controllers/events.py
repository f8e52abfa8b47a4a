"""Events that controllers emit, as data. The command line prints them, the operator writes them to the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from virt_dra.api.core_v1 import ObjectReference
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import all_kinds
from virt_dra.cluster.port import ApiError, Conflict, NotFound


@dataclass(frozen=True)
class Event:
    """An event about one object. ``retry``: True if the same write may succeed later without a change of the object."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    retry: bool = True

    @property
    def regarding(self) -> ObjectReference:
        """The object, for an Event of the cluster."""
        return ObjectReference(
            api_version=_api_versions().get(self.kind, ""),
            kind=self.kind,
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
        )


@cache
def _api_versions() -> Mapping[str, str]:
    return {kind.KIND: kind.API_VERSION for kind in all_kinds()}


def warning(obj: TypedObject, reason: str, message: str, *, retry: bool = True) -> Event:
    return Event(obj.KIND, obj.namespace, obj.name, obj.metadata.uid, "Warning", reason, message, retry)


def is_stale(error: ApiError) -> bool:
    """True if the write failed only because the object changed or was deleted since it was read: gather again."""
    return isinstance(error, Conflict | NotFound)


def normal(obj: TypedObject, reason: str, message: str) -> Event:
    """An event of type Normal."""
    return Event(obj.KIND, obj.namespace, obj.name, obj.metadata.uid, "Normal", reason, message, retry=False)


MESSAGE_LIMIT = 1024
"""Characters of an event's note that Kubernetes takes."""


def shortened(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text, cut with an ellipsis if it is longer than the limit."""
    return text if len(text) <= limit else f"{text[: limit - 2].rstrip()} …"
