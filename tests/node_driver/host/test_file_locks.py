"""Locks hold within a process, between processes, and as long as a child that inherited one lives."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from node_driver.host.file_locks import FileLocks
from node_driver.host.locks import LockBusy

HOLDER = """
import asyncio, sys
from node_driver.host.file_locks import FileLocks
async def main():
    async with FileLocks(sys.argv[1]).hold(["claim a/../b"], limit=5):
        print("held", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""


async def test_a_lock_has_one_holder_and_names_dont_get_in_each_others_way(tmp_path: Path) -> None:
    locks, other = FileLocks(str(tmp_path)), FileLocks(str(tmp_path))
    async with locks.hold(["b", "a"], limit=1):
        async with other.hold(["c"], limit=1):
            pass
        for instance in (locks, other):
            with pytest.raises(LockBusy, match="a is busy"):
                async with instance.hold(["a"], limit=0.05):
                    pass
    async with other.hold(["a", "b"], limit=1):
        pass
    assert not list(tmp_path.iterdir())


async def test_many_waiters_are_served_one_after_the_other(tmp_path: Path) -> None:
    instances = [FileLocks(str(tmp_path)) for _ in range(3)]
    inside, most = 0, 0

    async def work(index: int) -> None:
        nonlocal inside, most
        async with instances[index % 3].hold(["a"], limit=30):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*map(work, range(60)))
    assert most == 1


async def test_a_process_that_dies_releases_its_locks(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        locks = FileLocks(str(tmp_path))
        with pytest.raises(LockBusy):
            async with locks.hold(["claim a/../b"], limit=0.05):
                pass
        holder.kill()
        async with locks.hold(["claim a/../b"], limit=20):
            pass


async def test_a_lock_that_a_child_inherited_stays_until_it_ends(tmp_path: Path) -> None:
    locks = FileLocks(str(tmp_path))
    async with locks.descriptor("target", limit=1) as descriptor:
        inherited = os.dup(descriptor)
    with pytest.raises(LockBusy):
        async with locks.descriptor("target", limit=0.05):
            pass
    os.close(inherited)
    async with locks.descriptor("target", limit=1):
        pass
