"""What a controller has to tell about an object, as data. Whoever runs the controller prints it or writes an Event object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from virt_dra.api.meta import TypedObject
from virt_dra.cluster.port import ApiError, Conflict, NotFound


@dataclass(frozen=True)
class Event:
    """An event on one object. ``retry``: whether trying again without any change of the object may help."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    retry: bool = True


def warning(obj: TypedObject, reason: str, message: str, *, retry: bool = True) -> Event:
    return Event(obj.KIND, obj.namespace, obj.name, obj.metadata.uid, "Warning", reason, message, retry)


def outdated(error: ApiError) -> bool:
    """Whether the write failed only because the object changed or went since it was read: gathering again decides anew."""
    return isinstance(error, Conflict | NotFound)


def normal(obj: TypedObject, reason: str, message: str) -> Event:
    """Something that went well and is worth telling."""
    return Event(obj.KIND, obj.namespace, obj.name, obj.metadata.uid, "Normal", reason, message, retry=False)


MESSAGE_LIMIT = 1024
"""Characters of an event's note that Kubernetes takes."""


def shortened(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text, cut where it is too long, and saying so."""
    return text if len(text) <= limit else f"{text[: limit - 2].rstrip()} …"
