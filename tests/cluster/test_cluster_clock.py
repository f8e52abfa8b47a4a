"""The cluster's time, whatever is done to the machine's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from virt_dra.cluster.cluster_clock import ClusterClock

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
S = timedelta(seconds=1)


class Machine:
    """``wall`` can be set; ``seconds`` only pass."""

    def __init__(self) -> None:
        self.wall, self.seconds = NOON, 100.0

    def passes(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.seconds += seconds

    def clock(self) -> ClusterClock:
        return ClusterClock(lambda: self.wall, lambda: self.seconds)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_time_passes_as_it_does_when_the_machines_clock_is_set(jump: timedelta) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(5)
    machine.wall += jump
    assert clock() == NOON + 5 * S


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_a_machine_whose_clock_is_wrong_learns_the_time_from_the_first_answer(wrong: timedelta) -> None:
    machine = Machine()
    machine.wall += wrong
    clock = machine.clock()
    clock.observe(format_datetime(NOON, usegmt=True))
    assert clock() == NOON
    machine.passes(7.5)
    assert clock() == NOON + 7.5 * S


def test_what_a_header_leaves_out_is_no_difference() -> None:
    machine = Machine()
    clock = machine.clock()
    for behind in (0, 1, 2.9):
        machine.passes(2)
        clock.observe(format_datetime(machine.wall - timedelta(seconds=behind), usegmt=True))
        assert clock() == machine.wall


def test_an_answer_that_was_read_late_sets_nothing_back() -> None:
    """As after the process stood still for a minute."""
    machine = Machine()
    clock = machine.clock()
    machine.passes(60)
    clock.observe(format_datetime(NOON, usegmt=True), took=60)
    assert clock() == machine.wall


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_the_server_clock_is_followed_where_it_is_set(jump: timedelta) -> None:
    machine = Machine()
    clock = machine.clock()
    clock.observe(format_datetime(NOON, usegmt=True))
    machine.passes(2)
    clock.observe(format_datetime(machine.wall + jump, usegmt=True))
    assert clock() == machine.wall + jump


@pytest.mark.parametrize(
    "date", [None, "", "now", "Sun, 99 Nov 2026 12:00:00 GMT", "Sun, 31 Dec 9999 23:59:59 -2359", "1"]
)
def test_what_is_no_date_changes_nothing(date: str | None) -> None:
    machine = Machine()
    clock = machine.clock()
    clock.observe(date)
    assert clock() == NOON


def test_a_timestamp_that_is_past_stands_for_itself() -> None:
    assert Machine().clock().count_from(NOON - HOUR) == NOON - HOUR


def test_a_timestamp_that_is_yet_to_come_counts_from_when_it_was_first_seen_about() -> None:
    machine = Machine()
    clock = machine.clock()
    ahead = NOON + HOUR
    assert clock.count_from(ahead) == NOON
    machine.passes(60)
    assert clock.count_from(ahead) == NOON
    assert clock.count_from(ahead + S) == NOON + 60 * S
    machine.passes(7200)  # it is past now, and no younger for that
    assert clock.count_from(ahead) == NOON


def test_timestamps_from_before_the_servers_clock_was_set_back_keep_their_age() -> None:
    machine = Machine()
    clock = machine.clock()
    machine.passes(60)
    made = machine.wall
    machine.passes(10)
    clock.observe(format_datetime(machine.wall - HOUR, usegmt=True))
    assert clock.count_from(made) == clock()
    machine.passes(120)
    assert clock() - clock.count_from(made) == timedelta(seconds=120)


def test_what_is_remembered_of_timestamps_to_come_is_bounded() -> None:
    machine = Machine()
    clock = machine.clock()
    for number in range(10_000):
        clock.count_from(NOON + HOUR + timedelta(seconds=number))
    assert len(clock._first_seen) <= 4096
