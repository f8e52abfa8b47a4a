"""Changing an object that others change, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from virt_dra.api.meta import ObjectT
from virt_dra.cluster.port import Conflict, Reader, Writer


class ReadWrite(Reader, Writer, Protocol):
    """What is read and written."""


async def update_with_retry(
    cluster: ReadWrite, kind: type[ObjectT], key: tuple[str, str], change: Callable[[ObjectT], ObjectT | None], *,
    status: bool = False, known: ObjectT | None = None, attempts: int = 5,
) -> ObjectT:  # fmt: skip
    """Read an object, change it and write it back; retry on a conflict. Returns the object as stored.

    ``key`` is (namespace, name). ``change`` gets the object and gives the new one, or None (or the same) if nothing is
    to be written; it may be called several times. ``known`` is tried first, without reading (an informer's copy).
    ``status``: only the status is written. Raises :class:`~virt_dra.cluster.port.Conflict` after so many attempts, and
    whatever reading and writing raise.
    """
    namespace, name = key
    current = known
    for attempt in range(1, attempts + 1):
        if current is None:
            current = await cluster.get(kind, name, namespace)
        changed = change(current)
        if changed is None or changed == current:
            return current
        try:
            return await (cluster.update_status(changed) if status else cluster.update(changed))
        except Conflict:
            if attempt == attempts:
                raise
            current = None
    raise ValueError(f"attempts must be at least 1, not {attempts}")
