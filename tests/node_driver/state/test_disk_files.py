"""Files are replaced whole or not at all, and removed with their empty folders."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

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

    def opened() -> int:
        return sum(_target(link).startswith(str(tmp_path)) for link in Path("/proc/self/fd").iterdir())

    before = opened()
    for number in range(20):
        await files.replace(path, str(number))
    for _ in range(200):
        if opened() == before:
            break
        await asyncio.sleep(0.01)
    assert opened() == before == 1


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # the folder's own descriptor
        return ""
