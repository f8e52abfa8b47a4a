"""Reads a tree of small files, such as what ``/sys`` or ``/proc`` holds or a copy of it: never outside of its root, and
never more than a bound. An edge: the rest of the room reads through it.

Paths are relative to the root, without a leading slash.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from node_driver.hardware.inventory import UnreadableDevice

ReadT = TypeVar("ReadT")

ATTRIBUTE_MAX: Final = 64 * 1024
"""Bytes of a file; an attribute of sysfs has a page at most."""
ENTRIES_MAX: Final = 65_536
"""Entries of a folder."""
_CHUNK: Final = 1 << 16
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ELOOP})
"""Also the answers for a device that goes while it is read, and for a link where a file should be."""
_SHOWN: Final = 40


class UnreadableFile(OSError):
    """A file that isn't as the kernel writes it. ``str(error)`` names it and what it has."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path} {message}")


def has_text(path: str, text: str, wanted: str) -> UnreadableFile:
    """The error about a file whose text isn't ``wanted``."""
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return UnreadableFile(path, f"has {shown!r} instead of {wanted}")


def read_each(
    names: Iterable[str], read: Callable[[str], ReadT | None], group: Callable[[str], int | None] = lambda name: None
) -> tuple[dict[str, ReadT], list[UnreadableDevice]]:
    """What is read of devices, by name, and those that can't be; ``read`` returns None for what isn't one. ``group``:
    the IOMMU group of a device that can't be read."""
    devices: dict[str, ReadT] = {}
    unreadable = []
    for name in names:
        try:
            if (device := read(name)) is not None:
                devices[name] = device
        except UnreadableFile as error:
            unreadable.append(UnreadableDevice(name, str(error), group(name)))
    return devices, unreadable


class FileTree:
    """One look at a tree: what is found out about folders is remembered, so make one for each scan."""

    def __init__(self, root: str | Path) -> None:
        self._root = os.path.realpath(root)
        self._folders: dict[str, str | None] = {}

    def resolved(self, path: str) -> str | None:
        """The folder's path without links; None if it isn't there or a link leads out of the root."""
        if path not in self._folders:
            self._folders[path] = self._found(path)
        return self._folders[path]

    def _found(self, path: str) -> str | None:
        parent, _, name = path.rpartition("/")
        folder = self.resolved(parent) if parent else ""
        if folder is None:
            return None
        try:
            mode = os.lstat(f"{self._root}/{folder}/{name}").st_mode
        except OSError:
            return None
        if stat.S_ISDIR(mode) and name.strip("."):  # mostly: no link to follow
            return f"{folder}/{name}".lstrip("/")
        real = os.path.realpath(f"{self._root}/{folder}/{name}")
        below = f"{real}/".startswith(f"{self._root.rstrip('/')}/")
        return real.removeprefix(self._root).lstrip("/") if below and os.path.isdir(real) else None  # noqa: PTH112 - a text

    def names(self, folder: str) -> tuple[str, ...]:
        """The sorted names in a folder; none if it isn't there. Raises :class:`UnreadableFile`."""
        path = self.resolved(folder)
        if path is None:
            return ()
        try:
            with os.scandir(f"{self._root}/{path}") as entries:
                names = [entry.name for entry in islice(entries, ENTRIES_MAX + 1)]
        except OSError as error:
            if error.errno in _ABSENT:
                return ()
            raise UnreadableFile(folder, f"can't be listed: {error.strerror}") from None
        if len(names) > ENTRIES_MAX:
            raise UnreadableFile(folder, f"has more than {ENTRIES_MAX} entries")
        return tuple(sorted(names))

    def text(self, path: str, limit: int = ATTRIBUTE_MAX) -> str | None:
        """The file's text without white space at its ends; None if it isn't there. Raises :class:`UnreadableFile`."""
        folder, _, name = path.rpartition("/")
        inside = self.resolved(folder) if folder else ""
        if inside is None:
            return None
        try:
            content = _content(f"{self._root}/{inside}/{name}", limit)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise UnreadableFile(path, f"can't be read: {error.strerror}") from None
        if content is None:
            raise UnreadableFile(path, "isn't a regular file")
        if len(content) > limit:
            raise UnreadableFile(path, f"has more than {limit} bytes")
        return content.decode(errors="backslashreplace").strip("\0 \t\r\n")

    def optional_text(self, path: str) -> str:
        """As :meth:`text`; "" where it isn't there or can't be read."""
        try:
            return self.text(path) or ""
        except UnreadableFile:
            return ""

    def link(self, path: str) -> str:
        """The last name in a link's text, whether or not what it points to is in the tree; "" if there is no link."""
        folder, _, name = path.rpartition("/")
        inside = self.resolved(folder)
        if inside is None:
            return ""
        try:
            return os.readlink(f"{self._root}/{inside}/{name}").rpartition("/")[2]  # noqa: PTH115 - a text
        except OSError:
            return ""


def _content(path: str, limit: int) -> bytes | None:
    """At most one byte more than the limit; None for what isn't a regular file. Waits for nothing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = b""
        while len(content) <= limit and (chunk := os.read(descriptor, min(_CHUNK, limit + 1 - len(content)))):
            content += chunk
        return content
    finally:
        os.close(descriptor)
