"""Reads past the watches, for what must not follow from a watch that is late."""

from __future__ import annotations

from virt_dra.api.meta import TypedObject
from virt_dra.cluster.port import Reader


async def is_there(reader: Reader, obj: TypedObject) -> bool:
    """True if the API server has this very object, by a list, which needs no right to get. Then another owner of this
    kind and name is gone, and the garbage collector may have forgotten its dependents (P-15)."""
    named = (await reader.list(type(obj), obj.namespace, fields=f"metadata.name={obj.name}")).items
    return [current.metadata.uid for current in named] == [obj.metadata.uid]
