"""Files are replaced whole or not at all, and removed with their empty folders."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from node_driver.state.disk_files import DiskFiles


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (path.read_text(), path.stat().st_mode & 0o777)
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_a_file_is_written_read_replaced_and_renamed(tmp_path: Path) -> None:
    files, path = DiskFiles(), str(tmp_path / "a/b/c.json")
    assert await files.read(path) is None
    await files.replace(path, "first", mode=0o644)
    await files.replace(path, "second", mode=0o644)
    assert await files.read(path) == "second"
    await files.rename(path, f"{path}.bad")
    assert contents(tmp_path) == {"a/b/c.json.bad": ("second", 0o644)}


async def test_folders_that_are_empty_go_with_the_last_file(tmp_path: Path) -> None:
    files, top = DiskFiles(), str(tmp_path)
    await files.replace(f"{top}/claim/one/metadata.json", "1")
    await files.replace(f"{top}/claim/two/metadata.json", "2")

    await files.remove(f"{top}/claim/one/metadata.json", up_to=top)
    assert sorted(path.name for path in (tmp_path / "claim").iterdir()) == ["two"]
    await files.remove(f"{top}/claim/two/metadata.json", up_to=top)
    await files.remove(f"{top}/claim/two/metadata.json", up_to=top)
    assert list(tmp_path.iterdir()) == []


async def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = DiskFiles(), str(tmp_path / "checkpoint.json")
    await files.replace(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        await files.replace(path, "new")
    assert contents(tmp_path) == {"checkpoint.json": ("old", 0o600)}


async def test_a_kept_file_is_read_again_only_if_it_is_another_one(tmp_path: Path) -> None:
    files, other, path = DiskFiles(), DiskFiles(), str(tmp_path / "checkpoint.json")
    assert await files.read(path, keep=True) is None
    await other.replace(path, "first")
    first = await files.read(path, keep=True)
    assert first == "first"
    assert await files.read(path, keep=True) is first

    await files.replace(path, ours := "from this process")
    assert await files.read(path, keep=True) is ours
    for text in ("from another one.", "and once more...."):  # as long, and in no time
        assert len(text) == len(ours)
        await other.replace(path, text)
        assert await files.read(path, keep=True) == text

    Path(path).write_text("edited in place", encoding="utf-8")
    assert await files.read(path, keep=True) == "edited in place"
    await other.remove(path)
    assert await files.read(path, keep=True) is None


async def test_files_that_are_kept_are_open_once(tmp_path: Path) -> None:
    files, path = DiskFiles(), str(tmp_path / "checkpoint.json")
    await files.replace(path, "0")
    await files.read(path, keep=True)

    assert _opened(tmp_path) == 1
    for number in range(20):
        await files.replace(path, str(number))
    assert await _opened_in_the_end(tmp_path, 1) == 1


@pytest.mark.parametrize("use", ["read", "read to keep", "replace a kept file"])
async def test_a_file_is_closed_if_its_task_is_cancelled_while_the_thread_has_it(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = DiskFiles(), str(tmp_path / "checkpoint.json")
    await files.replace(path, "0")
    if use == "replace a kept file":
        await files.read(path, keep=True)
    before = _opened(tmp_path)
    is_open, may_go_on, fdopen = threading.Event(), threading.Event(), os.fdopen

    def slow(*arguments: Any, **options: Any) -> Any:
        is_open.set()
        may_go_on.wait()
        return fdopen(*arguments, **options)

    monkeypatch.setattr(os, "fdopen", slow)
    task: asyncio.Task[str | None] = asyncio.create_task(
        files.replace(path, "1") if use == "replace a kept file" else files.read(path, keep=use == "read to keep")
    )
    try:
        await asyncio.to_thread(is_open.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert _opened(tmp_path) == before + 1
    finally:
        may_go_on.set()
    assert await _opened_in_the_end(tmp_path, before) == before
    assert await files.read(path) == ("1" if use == "replace a kept file" else "0")


def _opened(folder: Path) -> int:
    return sum(_target(link).startswith(str(folder)) for link in Path("/proc/self/fd").iterdir())


async def _opened_in_the_end(folder: Path, expected: int) -> int:
    """Threads close files a little later."""
    for _ in range(200):
        if _opened(folder) == expected:
            break
        await asyncio.sleep(0.01)
    return _opened(folder)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # the folder's own descriptor
        return ""
