"""The rendering process and the handle on it: what changes a page, what a process that ends, hangs or sends nonsense
does to it."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import pytest

from tests.extender.objects import node
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.report_server.following import Following, FollowSettings, Rendered
from virt_dra.report_server.messages import encoded, read_message
from virt_dra.report_server.pace import Pace
from virt_dra.report_server.rendering import RenderingLimits, RenderingProcess

# --- following ---


class _Sent:
    """What a process has sent."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def __call__(self, message: bytes) -> None:
        self.messages.append(message)

    def count(self, kind: str) -> int:
        return sum(f'"kind": "{kind}"'.encode() in each for each in self.messages)

    async def pages(self) -> list[list[bytes]]:
        """The parts of each page."""
        found = []
        for data in self.messages:
            reader = asyncio.StreamReader()
            reader.feed_data(data)
            message = await read_message(reader.readexactly)
            if message.kind == "page":
                found.append(list(message.parts))
        return found


class _Names:
    """Renders the names of all objects, and how often what waits was explained, from the second time on slowly."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.explained = seconds, 0

    def __call__(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
        if explain:
            time.sleep(self.seconds)
            self.explained += 1
        page = f"{' '.join(each.name for each in objects)} explained: {min(self.explained, 1)}".encode()
        return Rendered(page.hex(), page, b"{}")


@asynccontextmanager
async def _following(cluster: MemoryCluster, render: _Names, pace: Pace | None = None) -> AsyncIterator[_Sent]:
    sent = _Sent()
    following = Following(cluster, FollowSettings(render, pace=pace or Pace(least=0.0, times=0.0)), sent)
    task = asyncio.create_task(following.run())
    try:
        yield sent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_page_comes_before_what_waits_is_explained_and_another_with_each_change() -> None:
    cluster = embedded_cluster()
    await cluster.create(node("n1"))
    async with _following(cluster, _Names()) as sent:
        await _until(lambda: sent.count("page") == 2)
        await cluster.create(node("n0"))
        await _until(lambda: sent.count("page") == 3)
        first, second, third = await sent.pages()
    assert (first[0], first[1], gzip.decompress(first[2])) == (b"n1 explained: 0", b"{}", b"n1 explained: 0")
    assert (second[0], third[0]) == (b"n1 explained: 1", b"n0 n1 explained: 1")


async def test_what_no_report_reads_is_no_change_and_what_renders_equally_is_no_new_page() -> None:
    cluster = embedded_cluster()
    await cluster.create(node("n1"))
    async with _following(cluster, _Names()) as sent:
        await _until(lambda: sent.count("page") == 2)
        before = len(sent.messages)
        await cluster.patch(Node, "n1", merge={"metadata": {"annotations": {"heartbeat": "1"}}})
        await asyncio.sleep(0.5)
        assert len(sent.messages) == before
        await cluster.patch(Node, "n1", merge={"metadata": {"labels": {"a": "b"}}})
        await _until(lambda: sent.count("same") == 1)
        assert sent.count("page") == 2


async def test_where_explaining_takes_long_changes_are_shown_without_it() -> None:
    cluster, render = embedded_cluster(), _Names(seconds=0.3)
    await cluster.create(node("n1"))
    async with _following(cluster, render, Pace(least=0.0, times=1000.0)) as sent:
        await _until(lambda: sent.count("page") == 2)
        await cluster.create(node("n0"))
        await _until(lambda: sent.count("page") == 3)
    assert render.explained == 1


# --- the handle; each of these is the entry point of a process ---

_PARTS = [b"page", b"{}", gzip.compress(b"page"), gzip.compress(b"{}")]
_AT = {"at": 1_795_000_000.0, "version": "a1", "seconds": 0.5}


def _page(**fields: object) -> bytes:
    return encoded("page", {**_AT, **fields}, _PARTS)


def lives(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(encoded("alive", {"staleSince": None}) + _page())
    time.sleep(60)


def ends(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page())
    os._exit(1)


def hangs(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page())
    time.sleep(60)


def takes_too_long(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + encoded("rendering"))
    while True:
        time.sleep(0.05)
        connection.sendall(encoded("alive", {"staleSince": None}))


def sends_nonsense(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + b"GET / HTTP/1.1\r\n\r\n")
    time.sleep(60)


def sends_another_kind(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + encoded("run", {"command": "rm"}))
    time.sleep(60)


def sends_a_version_of_its_own(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + _page(version='"\r\nSet-Cookie: a=b'))
    time.sleep(60)


def sends_no_time(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + _page(at=1e300))
    time.sleep(60)


def hears_nothing_of_the_cluster(settings: FollowSettings, connection: socket.socket) -> None:
    connection.sendall(_page() + encoded("alive", {"staleSince": 1_795_000_100.0}))
    time.sleep(60)


@asynccontextmanager
async def _process(
    entry: Callable[[FollowSettings, socket.socket], None], **limits: float
) -> AsyncIterator[RenderingProcess]:
    made = RenderingProcess(FollowSettings(_Names()), limits=RenderingLimits(**limits), entry=entry)
    async with made.running():
        yield made


@pytest.mark.slow
async def test_a_page_is_taken_over_and_its_readers_are_told() -> None:
    told: list[bool] = []
    async with _process(lives) as process:
        process.on_change = lambda: told.append(True)
        await _until(lambda: process.content is not None)
        assert process.content is not None
        assert (process.content.version, process.content.page, process.content.seconds) == ("a1", b"page", 0.5)
        assert (process.stale, told) == (None, [True])
        pid = process.pid
        assert pid
    await _until(lambda: not _alive(pid))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (ends, "the process that renders the page has ended"),
        (hangs, "the process that renders the page hangs, and was ended"),
        (takes_too_long, "the process that renders the page took too long, and was ended"),
        (
            sends_nonsense,
            "the process that renders the page sends what is no page (a header of 1195725856 bytes), and was ended",
        ),
        (
            sends_another_kind,
            "the process that renders the page sends what is no page (a message of kind 'run'), and was ended",
        ),
        (
            sends_a_version_of_its_own,
            "the process that renders the page sends what is no page (a page "
            "without its time and version), and was ended",
        ),
        (sends_no_time, "the process that renders the page sends what is no page (a time that is none), and was ended"),
        (hears_nothing_of_the_cluster, "the cluster's API server doesn't answer"),
    ],
)
async def test_the_last_page_stays_and_is_stale(
    entry: Callable[[FollowSettings, socket.socket], None], why: str
) -> None:
    async with _process(entry, silence=6.0, longest=0.5, first_pause=30.0) as process:
        await _until(lambda: process.stale is not None)
        assert process.stale is not None
        assert process.content is not None
        assert (process.stale.why, process.content.page) == (why, b"page")


@pytest.mark.slow
async def test_another_process_is_started_after_a_pause_and_makes_the_page_current() -> None:
    changes: list[str] = []
    async with _process(ends, first_pause=0.1, longest_pause=0.2) as process:
        process.on_change = lambda: changes.append("stale" if process.stale is not None else "current")
        await _until(lambda: changes.count("current") >= 3)
    assert changes[:5] == ["current", "stale", "current", "stale", "current"]
