"""DriverFiles on the node's disk, written aside and renamed (D-27, D-34, D-50).

Whether there is a file, and whether it is the one that was read last, is asked without a thread, as locks are: it is in
the kernel's memory, and under load a change of threads costs a claim more than its work.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

_R = TypeVar("_R")

THREADS: Final = 16
"""A file system's journal commits together whatever waits to be synced: 192 files of 2 kB, each with its folder, took
1.4 to 2.4 s by one thread, 0.3 to 0.7 by 4, 0.1 by 16, and no less by 64."""
FILE_MAX: Final = 64 << 20
"""Bytes; a checkpoint of a thousand devices has one million."""
ASIDE: Final = ".aside-"
"""Prefix of files that aren't whole yet; without the endings that CDI readers look for (D-27)."""


class DiskFiles:
    """:class:`node_driver.state.files.DriverFiles` of the real disk, in threads, since fsync blocks."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._kept: dict[str, _KeptFile] = {}

    async def read(self, path: str, *, keep: bool = False) -> str | None:
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            self._keep(path, None)
            return None
        kept = self._kept.get(path)
        if kept is not None and kept.is_still(status):
            return kept.text
        if not keep:
            return await self._in_thread(lambda: _read_closed(Path(path)))
        read = await self._open_in_thread(lambda: _read(Path(path)))
        self._keep(path, read)
        return None if read is None else read.text

    async def replace(self, path: str, content: str, *, mode: int = 0o600) -> None:
        written = await self._open_in_thread(lambda: _replace(Path(path), content, mode, keep=path in self._kept))
        if written is not None:
            self._keep(path, written)

    def _keep(self, path: str, file: _KeptFile | None) -> None:
        earlier = self._kept.pop(path, None)
        if earlier is not None:  # it was removed, so that closing it frees its blocks, which takes milliseconds
            self._threads.submit(os.close, earlier.descriptor)
        if file is not None:
            self._kept[path] = file

    async def rename(self, path: str, new_path: str) -> None:
        def rename() -> None:
            Path(path).replace(new_path)
            _sync_folder(Path(path).parent)

        await self._in_thread(rename)

    async def remove(self, path: str, *, up_to: str = "") -> None:
        await self._in_thread(lambda: _remove(Path(path), Path(up_to) if up_to else None))

    async def _in_thread(self, work: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _open_in_thread(self, work: Callable[[], _KeptFile | None]) -> _KeptFile | None:
        """The open file that ``work`` returns. It is closed if the task is cancelled: nobody else would get it."""
        result = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(result)
        except asyncio.CancelledError:
            result.add_done_callback(_close_dropped)
            raise


@dataclass(frozen=True, slots=True)
class _KeptFile:
    """A file as it was read or written. The driver replaces files, and as long as this one is open, no other has its
    number (inode); size and time are for whoever edits it."""

    descriptor: int
    status: os.stat_result
    text: str

    def is_still(self, status: os.stat_result) -> bool:
        now, then = (
            (result.st_dev, result.st_ino, result.st_size, result.st_mtime_ns) for result in (status, self.status)
        )
        return now == then


def _close_dropped(result: Future[_KeptFile | None]) -> None:
    if result.cancelled() or result.exception() is not None:  # nothing was opened, or it is closed already
        return
    file = result.result()
    if file is not None:
        os.close(file.descriptor)


def _read_closed(path: Path) -> str | None:
    file = _read(path)
    if file is None:
        return None
    os.close(file.descriptor)
    return file.text


def _read(path: Path) -> _KeptFile | None:
    """The file, open."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(FILE_MAX + 1)
        if len(content) > FILE_MAX:
            raise OSError(f"{path} has more than {FILE_MAX} bytes")
        return _KeptFile(descriptor, os.fstat(descriptor), content.decode(errors="replace"))
    except BaseException:
        os.close(descriptor)
        raise


def _replace(path: Path, content: str, mode: int, *, keep: bool) -> _KeptFile | None:
    """The file that was written, open, if it is to be kept."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(prefix=ASIDE, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            os.fchmod(descriptor, mode)
            file.write(content.encode())
            file.flush()
            os.fsync(descriptor)
        Path(aside).replace(path)
        _sync_folder(path.parent)
        written = _KeptFile(descriptor, os.fstat(descriptor), content) if keep else None
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            Path(aside).unlink()
        raise
    if written is None:
        os.close(descriptor)
    return written


def _remove(path: Path, up_to: Path | None) -> None:
    path.unlink(missing_ok=True)
    if up_to is None:
        return
    for folder in path.parents:
        if not folder.is_relative_to(up_to) or folder == up_to:
            return
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # not empty: another request or claim has files here
            return


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
