"""The volumes and references that the pod webhook adds to pods. Pure."""

from __future__ import annotations

from virt_dra.api.core_v1 import Volume
from virt_dra.api.wire import Json


def downward_volume(name: str, file: str, annotation: str) -> Json:
    """A volume with one file, whose content is an annotation of the pod; it is empty without the annotation."""
    item = {"path": file, "fieldRef": annotation_reference(annotation)}
    return {"name": name, "downwardAPI": {"items": [item]}}


def annotation_reference(annotation: str) -> Json:
    return {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}


def is_downward_volume(volume: Volume, file: str, annotation: str) -> bool:
    """True for a volume of :func:`downward_volume`, with the API server's defaults."""
    items = (volume.downward_api or {}).get("items")
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], dict):
        return False
    return items[0].get("path") == file and refers_to(items[0].get("fieldRef"), annotation)


def refers_to(reference: object, annotation: str) -> bool:
    """True if a fieldRef refers to an annotation of the pod."""
    return isinstance(reference, dict) and reference.get("fieldPath") == annotation_reference(annotation)["fieldPath"]
