"""What the rendering process sends: whole, bounded, and never carried out; and when it renders."""

from __future__ import annotations

import asyncio
import json

import pytest

from virt_dra.report_server.messages import MOST_BYTES, BadMessage, RenderingMessage, encoded, read_message
from virt_dra.report_server.pace import Pace


async def _read(data: bytes) -> RenderingMessage:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_message(reader.readexactly)


async def test_a_message_is_read_as_it_was_written() -> None:
    message = await _read(encoded("page", {"version": "a1", "seconds": 0.5}, [b"<html>", b""]))
    assert message == RenderingMessage("page", {"version": "a1", "seconds": 0.5}, (b"<html>", b""))


def _with(header: object) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xff\xff\xff", "a header of 4294967295 bytes"),
        (b"\0\0\0\0", "a header of 0 bytes"),
        (_with(b"{not"), "the header is no JSON"),
        (_with(b"[" * 50_000), "the header is no JSON"),
        (_with([1]), "the header says no kind and parts"),
        (_with({"kind": 1, "parts": []}), "the header says no kind and parts"),
        (_with({"kind": "page"}), "the header says no kind and parts"),
        (_with({"kind": "page", "parts": [-1]}), "the header says parts that are too many or too large"),
        (_with({"kind": "page", "parts": [True]}), "the header says parts that are too many or too large"),
        (_with({"kind": "page", "parts": [MOST_BYTES + 1]}), "the header says parts that are too many or too large"),
        (_with({"kind": "page", "parts": [0] * 9}), "the header says parts that are too many or too large"),
    ],
)
async def test_what_is_no_message_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadMessage) as refused:
        await _read(data)
    assert str(refused.value) == said


async def test_a_message_that_ends_early_is_none() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        await _read(encoded("page", {}, [b"abc"])[:-1])


def test_what_would_not_be_read_is_not_sent() -> None:
    with pytest.raises(BadMessage, match="a page of 67108865 bytes is more than is sent, 67108864"):
        encoded("page", {}, [bytes(MOST_BYTES + 1)])


# --- pace ---


def test_the_first_rendering_is_at_once_and_the_next_a_moment_after_a_change() -> None:
    pace = Pace()
    assert pace.due() == 0.0
    pace.begin(100.0)
    pace.end(100.5)
    assert pace.due() == 400.5  # without a change
    pace.change(200.0)
    pace.change(200.1)
    assert pace.due() == 200.2  # with those that come with it


def test_renderings_are_seconds_apart_however_much_changes() -> None:
    pace = Pace()
    pace.begin(100.0)
    pace.change(100.2)  # while it renders
    pace.end(100.5)
    assert pace.due() == 103.5


def test_what_takes_long_is_done_in_a_fifth_of_the_time() -> None:
    pace = Pace()
    pace.begin(100.0)
    pace.change(101.0)
    pace.end(110.0)
    assert pace.due() == 150.0
    pace.begin(150.0)
    pace.end(250.0)
    assert pace.due() == 650.0
