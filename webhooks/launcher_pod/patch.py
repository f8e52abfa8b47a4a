"""JSON patches (RFC 6902), and the volumes and references that the pod webhook puts into pods. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from virt_dra.api.core_v1 import Volume
from virt_dra.api.wire import Json


class Patch:
    """Operations in the order in which they are applied; each says what is there already."""

    def __init__(self) -> None:
        self._operations: list[Json] = []

    @property
    def operations(self) -> tuple[Json, ...]:
        return tuple(self._operations)

    def put(self, path: Sequence[str | int], value: object) -> None:
        """Set a member, whether it is there or not."""
        self._operations.append({"op": "add", "path": pointer(path), "value": value})

    def remove(self, path: Sequence[str | int]) -> None:
        """Remove a member that is there."""
        self._operations.append({"op": "remove", "path": pointer(path)})

    def append(self, path: Sequence[str | int], there: int, values: Sequence[object]) -> None:
        """Add to the end of a list of ``there`` items; one without items may be absent."""
        if there:
            for value in values:
                self.put((*path, "-"), value)
        elif values:
            self.put(path, list(values))


def pointer(path: Sequence[str | int]) -> str:
    """``("metadata", "annotations", "a/b")`` -> ``/metadata/annotations/a~1b`` (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def downward_volume(name: str, file: str, annotation: str) -> Json:
    """A volume with one file, whose content is an annotation of the pod; empty as long as there is none."""
    item = {"path": file, "fieldRef": annotation_reference(annotation)}
    return {"name": name, "downwardAPI": {"items": [item]}}


def annotation_reference(annotation: str) -> Json:
    return {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}


def is_downward_volume(volume: Volume, file: str, annotation: str) -> bool:
    """Whether a volume is what :func:`downward_volume` makes, as the API server completes it."""
    items = (volume.downward_api or {}).get("items")
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], dict):
        return False
    return items[0].get("path") == file and refers_to(items[0].get("fieldRef"), annotation)


def refers_to(reference: object, annotation: str) -> bool:
    """Whether a fieldRef names an annotation of the pod."""
    return isinstance(reference, dict) and reference.get("fieldPath") == annotation_reference(annotation)["fieldPath"]


def resources_of(raw: Json) -> Json:
    """The ``resources`` of a container as JSON; {} where there are none."""
    found = raw.get("resources")
    return found if isinstance(found, dict) else {}
