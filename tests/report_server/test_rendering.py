"""The rendering process and the handle on it: what changes a page, what a process that ends, hangs or sends nonsense
does to it."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.extender.objects import node
from virt_dra.api.core_v1 import Node
from virt_dra.api.meta import TypedObject
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.report_server.following import Following, FollowSettings, Rendered
from virt_dra.report_server.messages import RENDERING_MESSAGES, Alive, Begun, Content, RenderingMessage, Unchanged
from virt_dra.report_server.pace import Pace
from virt_dra.report_server.rendering import PROGRAM, RenderingLimits, RenderingProcess
from virt_dra.sandbox.inside import Connection
from virt_dra.sandbox.keeping import Pauses

# --- following ---


class _Sent:
    """What a process has sent."""

    def __init__(self) -> None:
        self.messages: list[RenderingMessage] = []

    def __call__(self, message: RenderingMessage) -> None:
        self.messages.append(message)

    @property
    def pages(self) -> list[Content]:
        return [message for message in self.messages if isinstance(message, Content)]


class _Names:
    """Renders the names of all objects, and how often what waits was explained, from the second time on slowly."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.explained = seconds, 0

    def __call__(self, objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
        if explain:
            time.sleep(self.seconds)
            self.explained += 1
        page = f"{' '.join(obj.name for obj in objects)} explained: {min(self.explained, 1)}".encode()
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
        await _until(lambda: len(sent.pages) == 2)
        await cluster.create(node("n0"))
        await _until(lambda: len(sent.pages) == 3)
        first, second, third = sent.pages
    assert (first.page, first.document, gzip.decompress(first.page_gzip)) == (
        b"n1 explained: 0", b"{}", b"n1 explained: 0",
    )  # fmt: skip
    assert (second.page, third.page) == (b"n1 explained: 1", b"n0 n1 explained: 1")


async def test_what_no_report_reads_is_no_change_and_what_renders_equally_is_no_new_page() -> None:
    cluster = embedded_cluster()
    await cluster.create(node("n1"))
    async with _following(cluster, _Names()) as sent:
        await _until(lambda: len(sent.pages) == 2)
        before = len(sent.messages)
        await cluster.patch(Node, "n1", merge={"metadata": {"annotations": {"heartbeat": "1"}}})
        await asyncio.sleep(0.5)
        assert len(sent.messages) == before
        await cluster.patch(Node, "n1", merge={"metadata": {"labels": {"a": "b"}}})
        await _until(lambda: any(isinstance(message, Unchanged) for message in sent.messages))
        assert len(sent.pages) == 2


async def test_where_explaining_takes_long_changes_are_shown_without_it() -> None:
    cluster, render = embedded_cluster(), _Names(seconds=0.3)
    await cluster.create(node("n1"))
    async with _following(cluster, render, Pace(least=0.0, times=1000.0)) as sent:
        await _until(lambda: len(sent.pages) == 2)
        await cluster.create(node("n0"))
        await _until(lambda: len(sent.pages) == 3)
    assert render.explained == 1


# --- the handle; each of these is the entry point of a process ---

_AT = datetime.fromtimestamp(1_795_000_000, UTC)
_PAGE = Content("a1", _AT, 0.5, b"page", b"{}", gzip.compress(b"page"), gzip.compress(b"{}"))


def _send(connection: Connection, *messages: RenderingMessage) -> None:
    for message in messages:
        connection.send(RENDERING_MESSAGES.encoded(message))


def lives(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, Alive(None), _PAGE)
    time.sleep(60)


def ends(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE)
    os._exit(1)


def fails(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE)
    raise MemoryError


def hangs(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE)
    time.sleep(60)


def takes_too_long(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE, Begun())
    while True:
        time.sleep(0.05)
        _send(connection, Alive(None))


def sends_nonsense(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE)
    connection.send(b"GET / HTTP/1.1\r\n\r\n")
    time.sleep(60)


def sends_a_version_of_its_own(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE, replace(_PAGE, version='"\r\nSet-Cookie: a=b'))
    time.sleep(60)


def sends_no_time(connection: Connection, settings: FollowSettings) -> None:
    frame = RENDERING_MESSAGES.encoded(Unchanged(_AT, 0.5))
    _send(connection, _PAGE)
    connection.send(frame.replace(b"2026-", b"9026-").replace(b"T", b"x"))
    time.sleep(60)


def hears_nothing_of_the_cluster(connection: Connection, settings: FollowSettings) -> None:
    _send(connection, _PAGE, Alive(_AT))
    time.sleep(60)


_Entry = Callable[[Connection, FollowSettings], None]


@asynccontextmanager
async def _process(entry: _Entry, pauses: Pauses, **limits: float) -> AsyncIterator[RenderingProcess]:
    made = RenderingProcess(
        FollowSettings(_Names()), limits=RenderingLimits(**limits), pauses=pauses, program=replace(PROGRAM, main=entry)
    )
    async with made.running():
        yield made


@pytest.mark.slow
async def test_a_page_is_taken_over_and_its_readers_are_told() -> None:
    told: list[bool] = []
    async with _process(lives, Pauses()) as process:
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
        (fails, "MemoryError: "),
        (hangs, "the process that renders the page was killed: it did not answer within 15 s"),
        (takes_too_long, "the process that renders the page was killed: one page took too long"),
        (
            sends_nonsense,
            "the process that renders the page was killed: it sent a frame of 1195725856 bytes, more than 268435456",
        ),
        (
            sends_a_version_of_its_own,
            "the process that renders the page was killed: it sent Content: version: String should match pattern "
            "'^[0-9A-Za-z]{1,64}$'",
        ),
        (
            sends_no_time,
            "the process that renders the page was killed: it sent Unchanged: at: Input should be a valid datetime, "
            "invalid datetime separator, expected `T`, `t`, `_` or space",
        ),
        (hears_nothing_of_the_cluster, "the cluster's API server doesn't answer"),
    ],
)
async def test_the_last_page_stays_and_is_stale(entry: _Entry, why: str) -> None:
    silence = 15.0 if entry is hangs else 60.0  # in which it must have started, too
    async with _process(entry, Pauses(chance=lambda: 600.0), silence=silence, longest=0.5) as process:
        await _until(lambda: process.stale is not None, 60.0)
        assert process.stale is not None
        assert process.content is not None
        assert (process.stale.why, process.content.page) == (why, b"page")


@pytest.mark.slow
async def test_another_process_is_started_after_a_pause_and_makes_the_page_current() -> None:
    changes: list[str] = []
    async with _process(ends, Pauses(longest=0.2)) as process:
        process.on_change = lambda: changes.append("stale" if process.stale is not None else "current")
        await _until(lambda: changes.count("current") >= 3)
    assert changes[:5] == ["current", "stale", "current", "stale", "current"]
