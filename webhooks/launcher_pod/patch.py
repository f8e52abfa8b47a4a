"""JSON patches (RFC 6902), and the volumes and references that the pod webhook adds to pods. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.core_v1 import Volume
from virt_dra.api.wire import Json


class Patch:
    """A list of operations, applied in order."""

    def __init__(self) -> None:
        self._operations: list[Json] = []

    @property
    def operations(self) -> tuple[Json, ...]:
        return tuple(self._operations)

    def put(self, path: Sequence[str | int], value: object) -> None:
        """Set a member, whether it exists or not."""
        self._operations.append({"op": "add", "path": pointer(path), "value": value})

    def remove(self, path: Sequence[str | int]) -> None:
        """Remove an existing member."""
        self._operations.append({"op": "remove", "path": pointer(path)})

    def append(self, path: Sequence[str | int], length: int, values: Sequence[object]) -> None:
        """Append to a list of ``length`` items; an empty list may be absent."""
        if length:
            for value in values:
                self.put((*path, "-"), value)
        elif values:
            self.put(path, list(values))


def pointer(path: Sequence[str | int]) -> str:
    """``("metadata", "annotations", "a/b")`` -> ``/metadata/annotations/a~1b`` (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


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
