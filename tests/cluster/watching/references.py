"""The reference to an object that an Event is about."""

from __future__ import annotations

from virt_dra.api.core_v1 import ObjectReference
from virt_dra.api.meta import TypedObject


def reference_to(obj: TypedObject) -> ObjectReference:
    """What an Event names its object by."""
    api_version, kind = obj.api_version or obj.API_VERSION, obj.kind or obj.KIND
    given = {
        "namespace": obj.metadata.namespace,
        "uid": obj.metadata.uid,
        "resource_version": obj.metadata.resource_version,
    }
    return ObjectReference(
        api_version=api_version,
        kind=kind,
        name=obj.metadata.name,
        **{key: value for key, value in given.items() if value},
    )
