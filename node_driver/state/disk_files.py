"""DriverFiles on the node's disk, written aside and renamed (D-27, D-34, D-50)."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

_R = TypeVar("_R")

THREADS: Final = 4
"""More would wait for the same disk."""
FILE_MAX: Final = 64 << 20
"""Bytes; a checkpoint of a thousand devices has one million."""
ASIDE: Final = ".aside-"
"""Prefix of files that aren't whole yet; without the endings that CDI readers look for (D-27)."""


class DiskFiles:
    """:class:`node_driver.state.files.DriverFiles` of the real disk, in threads, since fsync blocks."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")

    async def read(self, path: str) -> str | None:
        return await self._in_thread(lambda: _read(Path(path)))

    async def replace(self, path: str, content: str, *, mode: int = 0o600) -> None:
        await self._in_thread(lambda: _replace(Path(path), content.encode(), mode))

    async def rename(self, path: str, new_path: str) -> None:
        def rename() -> None:
            Path(path).replace(new_path)
            _sync_folder(Path(path).parent)

        await self._in_thread(rename)

    async def remove(self, path: str, *, up_to: str = "") -> None:
        await self._in_thread(lambda: _remove(Path(path), Path(up_to) if up_to else None))

    async def _in_thread(self, work: Callable[[], _R]) -> _R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_MAX + 1)
    except FileNotFoundError:
        return None
    if len(content) > FILE_MAX:
        raise OSError(f"{path} has more than {FILE_MAX} bytes")
    return content.decode(errors="replace")


def _replace(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(prefix=ASIDE, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(aside).unlink()
        raise
    _sync_folder(path.parent)


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
