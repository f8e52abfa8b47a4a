"""The same attacks on each of the four users of the sandbox: the parent goes on, says what is wrong, works again."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.sandbox.programs import EXPLOITED, HOSTILE, hangs
from tests.sandbox.users import EVALUATING, NOT_YET, USERS, Main, Started, User, until_answered

pytestmark = pytest.mark.slow

each_user = pytest.mark.parametrize("started", USERS, ids=lambda started: started.__name__)
_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _gone(pid: int) -> None:
    async with asyncio.timeout(60):
        while _alive(pid):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("main", HOSTILE, ids=lambda main: main.__name__)
async def test_one_that_is_taken_over_is_killed_and_its_user_says_that_there_is_no_answer(
    main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All users at the same time, since most of it is waiting for deadlines."""
    shutil.rmtree(EXPLOITED, ignore_errors=True)
    attacked = await asyncio.gather(*(_attacked(started, main, monkeypatch) for started in USERS))
    assert [sorted(attack.problems & {""}) for attack in attacked] == [[]] * len(USERS)
    # After 0.1, 0.4, 1.6 seconds and so on, half of each by chance, and as long as each lived.
    assert max(attack.starts for attack in attacked) <= 6
    assert not Path(EXPLOITED).exists(), "nothing is unpickled"
    for attack in attacked:
        for pid in attack.pids - {0}:
            await _gone(pid)


@dataclass
class _Attack:
    problems: set[str] = field(default_factory=set)
    pids: set[int] = field(default_factory=set)
    starts: int = 0


async def _attacked(started: Started, main: Main, patch: pytest.MonkeyPatch) -> _Attack:
    attack = _Attack()
    async with started(main, patch) as user:
        began = time.monotonic()
        while time.monotonic() - began < 2.5 or not attack.problems - {NOT_YET}:
            attack.problems.add(await asyncio.wait_for(user.problem(), 30))
            attack.pids.add(user.pid)
            await asyncio.sleep(0.02)
        attack.starts = user.starts.count
    return attack


@each_user
async def test_a_killed_one_is_replaced_and_works_again(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(None, monkeypatch) as user:
        await until_answered(user)
        first = user.pid
        os.kill(first, signal.SIGKILL)
        await _changed(user, first)
        await until_answered(user)
        assert user.pid not in (0, first)
        assert user.starts.count == 2


@each_user
async def test_one_that_is_killed_while_it_starts_is_replaced(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(None, monkeypatch) as user:
        asking = asyncio.create_task(until_answered(user))
        async with asyncio.timeout(30):
            while not user.pid:
                await asyncio.sleep(0.001)
        first = user.pid
        os.kill(first, signal.SIGKILL)
        await asking
        assert user.starts.count == 2
        assert user.pid not in (0, first)


@each_user
async def test_one_that_stands_still_is_killed_and_replaced(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(None, monkeypatch) as user:
        await until_answered(user)
        monkeypatch.setattr("webhooks.worker.replica._ALIVE_SECONDS", 1.0)
        monkeypatch.setattr("virt_dra.extender.advising_process._PREPARING", 1.0)
        first = user.pid
        os.kill(first, signal.SIGSTOP)
        await _changed(user, first)
        await _gone(first)
        monkeypatch.undo()  # a loaded machine takes longer to start the next
        await until_answered(user)


async def _changed(user: User, first: int) -> None:
    """Until the process with this id is no longer the user's."""
    async with asyncio.timeout(30):
        while user.pid == first:
            await user.problem()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("started", EVALUATING, ids=lambda started: started.__name__)
async def test_what_takes_for_ever_is_given_up_and_others_are_answered(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(None, monkeypatch) as user:
        await until_answered(user)
        for _ in range(3):
            await asyncio.wait_for(user.problem(hostile=True), 15)
            await until_answered(user)


@each_user
async def test_nothing_is_left_when_its_user_ends(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())

    others, files = children(), len(list(Path("/proc/self/fd").iterdir()))
    async with started(None, monkeypatch) as user:
        await until_answered(user)
        pid = user.pid
    await _gone(pid)
    assert children() == others
    assert len(list(Path("/proc/self/fd").iterdir())) <= files


@pytest.mark.parametrize("number", range(len(USERS)), ids=lambda number: USERS[number].__name__)
@pytest.mark.parametrize("program", ["its own", "hangs"])
def test_it_ends_when_its_parent_is_killed(number: int, program: str) -> None:
    """Also one that doesn't read its connection."""
    command = [sys.executable, "-m", "tests.sandbox.test_users", str(number), program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.kill()
    until = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _alive(pid)


@each_user
async def test_the_parent_cannot_be_read_by_its_user(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """PR_GET_DUMPABLE is 0: the memory of the parent, which has the credentials, is root's alone; no core is dumped."""
    kernel = ctypes.CDLL(None)
    kernel.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    async with started(None, monkeypatch) as user:
        await until_answered(user)
        assert kernel.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into a process that is not dumpable")
@each_user
async def test_it_has_nothing_of_its_parents_environment_and_files_and_is_limited(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    monkeypatch.setenv("PYTHONSTARTUP", "/somewhere")
    with (tmp_path / "token").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        async with started(None, monkeypatch) as user:
            await until_answered(user)
            own = Path(f"/proc/{user.pid}")
            environment = (own / "environ").read_bytes()
            opened = {str(descriptor.readlink()) for descriptor in (own / "fd").iterdir()}
            limits = {
                line[:25].strip(): line[25:].split()[:2] for line in (own / "limits").read_text().splitlines()[1:]
            }
            group, session = _ids(user.pid)[:2]
            assert (own / "oom_score_adj").read_text() == "1000\n"
    assert b"s3cret" not in environment
    assert b"PYTHONSTARTUP" not in environment
    assert str(tmp_path / "token") not in opened
    assert limits["Max core file size"] == ["0", "0"]
    assert 2**30 <= int(limits["Max address space"][1]) <= 6 * 2**30
    assert group == user.pid or group not in (0, os.getpgrp()), "killed as one"
    assert session == os.getsid(0), "where the kernel shares processors between sessions, niceness counts within one"


def _ids(pid: int) -> tuple[int, int, int]:
    """Of a process: its group, its session, and its terminal, 0 for none."""
    group, session, terminal = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[2:5]
    return int(group), int(session), int(terminal)


def test_it_has_no_terminal_where_its_parent_has() -> None:
    command = [sys.executable, "-m", "tests.sandbox.test_users", "0", "its own"]
    parent, terminal = pty.fork()
    if parent == 0:
        os.execv(command[0], command)
    try:
        with os.fdopen(terminal, "r") as shown:
            pid = int(shown.readline())
            (_, sessions, theirs), (_, session, its) = _ids(parent), _ids(pid)
    finally:
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
    assert (sessions, session) == (parent, parent)
    assert theirs != 0
    assert its == 0


async def _show_pid(number: int, main: Main | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        async with USERS[number](main, patch) as user:
            asking = asyncio.create_task(until_answered(user))
            while not user.pid:
                await asyncio.sleep(0.001)
            if main is None:
                await asking
            sys.stdout.write(f"{user.pid}\n")
            sys.stdout.flush()
            await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(_show_pid(int(sys.argv[1]), hangs if sys.argv[2] == "hangs" else None))
