"""The port to the files that the driver writes: its checkpoint, CDI files and metadata files."""

from __future__ import annotations

from typing import Protocol


class DriverFiles(Protocol):
    """Paths are absolute. Whatever the disk refuses raises :class:`OSError`."""

    async def read(self, path: str, *, keep: bool = False) -> str | None:
        """The content, None if there is no such file. ``keep``: it will be read again; as long as the file is
        unchanged, later reads return the same string without reading."""

    async def replace(self, path: str, content: str, *, mode: int = 0o600) -> None:
        """Writes the file so that a crash leaves the old content or the new one, and makes its folders. Returns once
        both are on the disk."""

    async def rename(self, path: str, new_path: str) -> None: ...

    async def remove(self, path: str, *, up_to: str = "") -> None:
        """Removes the file, if it is there, and the folders between it and ``up_to`` that are empty then."""
