"""A file with manifests, opened and replaced so that what somebody wrote into a folder can't lead elsewhere.

A path that a user names is opened as it is (links, pipes, devices); one that another file names only if it is a regular
file. A file found in a folder is read and replaced only if it is a regular file below that folder; its links may lead
anywhere below it, as a mounted ConfigMap's do. This holds against changes meanwhile: once links are resolved, every
step is taken from the folder that was opened before, without following another one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_SPECIAL: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link that leads nowhere"),
)

Excluded = Callable[[str], bool]
"""Whether a path isn't to be read; that of a folder ends with a slash."""


class ChangedMeanwhile(Exception):
    """A file changed since it was read. The message names the remedy."""


@dataclass(frozen=True)
class ManifestFile:
    """``folder``: in which it was found; None if the file itself was named. ``by_file``: by another file, not a
    user."""

    path: str
    folder: str | None = None
    by_file: bool = False

    @property
    def identity(self) -> str:
        """Equal for two paths that lead to one file which may be read."""
        resolved = os.path.realpath(self.path)
        return resolved if resolved.startswith(self._base) else self.path

    @property
    def _base(self) -> str:
        """The path, with a slash at its end, with which that of the file itself must begin."""
        return "/" if self.folder is None else f"{os.path.realpath(self.folder).rstrip('/')}/"

    @property
    def target(self) -> str:
        """The path of the file itself, which differs from ``path`` if that is a link."""
        return os.path.realpath(self.path) if Path(self.path).is_symlink() else self.path

    def read(self, limit: int) -> bytes:
        """At most ``limit`` bytes. Raises OSError."""
        if self.folder is None:
            if self.by_file:
                return _read(None, os.path.realpath(self.path), limit)
            with Path(self.path).open("rb") as file:
                return file.read(limit)
        try:
            with self._place() as (folder, name):
                return _read(folder, name, limit)
        except FileNotFoundError:
            if Path(self.path).is_symlink():
                raise OSError(errno.ENOLINK, f"a link to {Path(self.path).readlink()}, which does not exist") from None
            raise

    def replace(self, before: bytes, after: bytes) -> None:
        """Replaces the content atomically, even over a power failure. What a symbolic link leads to is replaced, not
        the link. The file keeps its mode and, where this user may do that, its owner. ``before``: what was read. Raises
        :class:`ChangedMeanwhile` if the file has something else now, and OSError with the file's name."""
        try:
            with self._place() as (folder, name):
                _replace(folder, name, before, after)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), self.path) from error

    @contextmanager
    def _place(self) -> Iterator[tuple[int, str]]:
        """The folder in which the file itself is, open, and its name there."""
        base, target = self._base, os.path.realpath(self.path)
        if not target.startswith(base):
            link = "a link" if Path(self.path).is_symlink() else "below a link"
            raise OSError(
                errno.EXDEV, f"{link} to {target}, which is outside of this folder. Name the file itself if it is meant"
            )
        *folders, name = target.removeprefix(base).split("/")
        handle = os.open(base, _FOLDER)
        try:
            for folder in folders:
                inner = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = inner
            yield handle, name
        finally:
            os.close(handle)


def manifests_in(folder: str, suffixes: tuple[str, ...], excluded: Excluded, errors: list[OSError]) -> Iterator[str]:
    """The paths of the files below a folder that have one of the suffixes; hidden ones are skipped, and links to
    folders aren't followed. ``errors`` gets those of folders that can't be listed."""
    folders = [folder]
    while folders:
        parent = folders.pop()
        try:
            with os.scandir(parent) as listed:
                entries = list(listed)
        except OSError as error:
            errors.append(error)
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not excluded(f"{entry.path}/"):
                    folders.append(entry.path)
            elif (
                entry.name.endswith(suffixes)
                and not os.path.isdir(entry.path)  # noqa: PTH112 - that of Path raises for what can't be looked at
                and not excluded(entry.path)
            ):
                yield entry.path


def _read(folder: int | None, name: str, limit: int = -1) -> bytes:
    _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))  # before it is opened: devices act on that
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        _check_regular(os.fstat(file.fileno()))
        return file.read(limit)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        noun = next((noun for is_kind, noun in _SPECIAL if is_kind(status.st_mode)), "something else")
        raise OSError(errno.EINVAL, f"not a regular file but {noun}")


def _replace(folder: int, name: str, before: bytes, after: bytes) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    _check_regular(status)
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(errno.EACCES, "permission denied; it must be writable for this user")
    handle, path = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=f"/proc/self/fd/{folder}")
    temporary = Path(path).name
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(after)
            with contextlib.suppress(PermissionError):  # only root gives files away
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            file.flush()
            os.fsync(file.fileno())
        if _read(folder, name) != before:
            raise ChangedMeanwhile("it has changed since it was read, so it is left as it is; run the command again")
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    _sync(folder)


def _sync(folder: int) -> None:
    """Makes a rename in the folder durable, where the file system supports that."""
    with contextlib.suppress(OSError):
        handle = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
