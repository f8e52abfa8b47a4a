"""Lines that clients provoke: the same once in a while, all together a bounded number, and none lost without being
counted."""

from __future__ import annotations

import logging

import pytest

from webhooks.server.log import Repeats
from webhooks.server.quiet_logger import QuietLogger


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_same_is_told_once_in_a_while() -> None:
    clock = Clock()
    repeats = Repeats(clock, every=60)
    assert [repeats.suppressed_before("a") for _ in range(3)] == [0, None, None]
    assert repeats.suppressed_before("b") == 2
    clock.now += 59
    assert repeats.suppressed_before("a") is None
    clock.now += 1
    assert repeats.suppressed_before("a") == 1


def test_a_flood_of_different_lines_is_bounded_and_counted() -> None:
    clock = Clock()
    repeats = Repeats(clock, rate=10, burst=50)
    told = [repeats.suppressed_before(number) for number in range(10_000)]
    assert (told[:50], told[50:]) == ([0] * 50, [None] * 9950)
    clock.now += 1
    again = [repeats.suppressed_before(number) for number in range(20_000, 20_020)]
    assert again == [9950, *[0] * 9, *[None] * 10]


def test_it_remembers_no_more_than_it_must() -> None:
    clock = Clock()
    repeats = Repeats(clock, rate=1e9, burst=1e9)
    for number in range(5000):
        repeats.suppressed_before(number)
    assert len(repeats._logged) == 1000
    assert repeats.suppressed_before(0) == 0
    assert repeats.suppressed_before(4999) is None


def test_connections_that_are_closed_in_the_middle_of_requests_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """aiohttp writes one for each, with its address."""
    clock = Clock()
    quiet = QuietLogger(logging.getLogger("test"), Repeats(clock))
    for number in range(1000):
        quiet.error(
            f"Error handling request from 127.0.{number % 8}.{number % 250}",
            exc_info=ConnectionResetError("Connection lost"),
        )
    assert len(caplog.records) == 1
    clock.now += 60
    quiet.error("Error handling request from 192.0.2.1", exc_info=ConnectionResetError("Connection lost"))
    assert [record.__dict__["fields"] for record in caplog.records] == [{}, {"suppressed": 999}]
