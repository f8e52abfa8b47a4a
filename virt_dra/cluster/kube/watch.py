"""A watch's stream: bytes to lines of any length to events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from pydantic_core import from_json

from virt_dra.cluster.kube.errors import unavailable
from virt_dra.cluster.kube.limits import MIB, ClientLimits


class Bytes(Protocol):
    """A byte stream; reading gives b"" at its end."""

    async def readany(self) -> bytes: ...


async def lines(stream: Bytes, limits: ClientLimits) -> AsyncGenerator[bytes]:
    """Complete lines without their end; what follows the last end was cut off and is left out. Asks for more only when
    it is asked for more. Raises :class:`~virt_dra.cluster.port.Unavailable` for a line beyond the limits."""
    pending: list[bytes] = []
    size = 0
    while chunk := await stream.readany():
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            pending.append(line)
            event = b"".join(pending)
            pending.clear()
            size = 0
            if event.count(b"{") + event.count(b"[") > limits.answer_containers:
                raise unavailable(
                    f"an event of a watch has more than {limits.answer_containers:,} JSON objects and lists"
                )
            yield event
            del event
        if rest:
            pending.append(rest)
            size += len(rest)
            if size > limits.answer_bytes:
                raise unavailable(f"an event of a watch has more than {limits.answer_bytes // MIB} MiB")


_OF_OBJECTS = ("ADDED", "MODIFIED", "DELETED")


def parsed_event(line: bytes, kind: str) -> tuple[str, Mapping[str, Any]]:
    """Type and object of an event of a watch of one kind. Raises :class:`~virt_dra.cluster.port.Unavailable` for
    anything else (a proxy's error page, an object of another kind): going on would be going on without knowing what
    changed."""
    try:
        event: object = from_json(line, cache_strings="all")
    except ValueError as error:
        raise unavailable(f"a watch sent invalid JSON: {error}") from error
    if (
        not isinstance(event, dict)
        or not isinstance(event.get("type"), str)
        or not isinstance(event.get("object"), dict)
    ):
        raise unavailable("a watch sent something that is no event")
    type_, about = event["type"], event["object"]
    if type_ in _OF_OBJECTS:
        meta = about.get("metadata")
        if (
            about.get("kind") != kind
            or not isinstance(meta, dict)
            or not isinstance(meta.get("name"), str)
            or not meta["name"]
        ):
            raise unavailable(f"a watch of {kind} sent something that is no {kind}")
    return type_, about
