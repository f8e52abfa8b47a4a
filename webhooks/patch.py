"""JSON patches (RFC 6902) as the mutating webhooks answer them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
