"""Classes that stand for kinds we have no type for."""

from __future__ import annotations

from functools import lru_cache

from virt_dra.api.meta import UnknownObject
from virt_dra.api.reading.namespaces import is_namespaced


@lru_cache(maxsize=1024)
def unknown_kind(api_version: str, kind: str) -> type[UnknownObject]:
    """A class that stands for a kind we have no type for, to be handed to ``get``, ``list``, ``patch``, ``delete`` and
    ``watch``.

    Whether it is namespaced, :func:`virt_dra.api.reading.namespaces.is_namespaced` says.
    """
    attributes = {"API_VERSION": api_version, "KIND": kind, "NAMESPACED": is_namespaced(api_version, kind)}
    return type(kind, (UnknownObject,), {**attributes, "__module__": __name__})
