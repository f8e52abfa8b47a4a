"""Who loses a connection when more want in than there is room for, and whose handshake is next: decided purely."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks.server.connection_table import ConnectionEntry, ConnectionPhase, ConnectionTable, Standing, group_of
from webhooks.server.handshakes import HandshakeQueue


@pytest.mark.parametrize(
    ("address", "group"),
    [
        (("10.0.0.1", 1), "10.0.0.1"),
        (("::ffff:10.0.0.1", 1, 0, 0), "10.0.0.1"),
        (("fd00:1:2:3:4::5", 1, 0, 0), "fd00:1:2:3::/64"),
        (("fd00:1:2:3:ffff::1", 1, 0, 0), "fd00:1:2:3::/64"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::/64"),
        ("", "?"),
        (None, "?"),
        (("nonsense", 1), "?"),
    ],
)
def test_whose_an_address_is(address: object, group: str) -> None:
    assert group_of(address) == group


def _full(table: ConnectionTable, *groups: str) -> list[ConnectionEntry]:
    entries = []
    for number, group in enumerate(groups):
        entry, evicted = table.enter(group, float(number))
        assert entry is not None
        assert evicted is None
        entries.append(entry)
    return entries


def test_the_one_that_has_waited_longest_of_the_address_that_has_most_goes() -> None:
    table = ConnectionTable(limit=4, per_group=4, reserved=0)
    single, first, second, third = _full(table, "a", "b", "b", "b")
    assert table.enter("c", 9)[1] is first
    table.change(second, 10, ConnectionPhase.READING)
    table.change(second, 11, ConnectionPhase.WAITING)
    assert table.enter("a", 12)[1] is third, "second has been used since"
    assert len(table) == 4
    assert single in table._entries


def test_of_one_address_waiting_ones_go_before_arriving_ones_and_never_decided_ones() -> None:
    table = ConnectionTable(limit=3, per_group=3, reserved=0)
    busy, reading, waiting = _full(table, "a", "a", "a")
    table.change(busy, 4, ConnectionPhase.BUSY)
    table.change(reading, 5, ConnectionPhase.READING)
    assert table.enter("a", 6)[1] is waiting
    for entry in tuple(table._entries):
        table.change(entry, 7, ConnectionPhase.BUSY)
    assert table.enter("a", 8) == (None, None)
    assert table.enter("b", 8) == (None, None)
    table.change(busy, 9, ConnectionPhase.WAITING)
    assert table.enter("b", 10)[1] is busy


def test_an_address_has_a_limit_of_its_own() -> None:
    table = ConnectionTable(limit=10, per_group=2, reserved=0)
    first, _ = _full(table, "a", "a")
    assert table.enter("a", 5)[1] is first
    assert table.enter("b", 5)[1] is None


def test_a_client_with_a_verdict_outlives_idle_ones_and_a_verified_one_stays() -> None:
    table = ConnectionTable(limit=4, per_group=4, reserved=1)
    verified, proven, unproven = _full(table, "a", "b", "b")
    table.change(verified, 3, standing=Standing.VERIFIED)
    table.change(proven, 3, standing=Standing.PROVEN)
    fourth, evicted = table.enter("c", 4)
    assert (fourth is not None, evicted) == (True, None)
    assert table.enter("c", 5)[1] is unproven
    assert table.enter("c", 6)[1] is fourth, "the only ones without a verdict are c's"
    for _ in range(5):
        entry, _ = table.enter("d", 7)
        assert entry is not None
        table.change(entry, 7, standing=Standing.PROVEN)
    assert verified in table._entries


def test_room_is_reserved_for_verified_clients() -> None:
    table = ConnectionTable(limit=4, per_group=4, reserved=2)
    entries = _full(table, "a", "b")
    for entry in entries:
        table.change(entry, 2, ConnectionPhase.BUSY)
    assert table.enter("c", 3) == (None, None)
    table.change(entries[0], 4, standing=Standing.VERIFIED)
    assert table.enter("c", 5)[0] is not None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 30)), max_size=60))
def test_whatever_happens_the_limits_hold(steps: list[tuple[str, int, int]]) -> None:
    table = ConnectionTable(limit=6, per_group=4, reserved=2)
    there: list[ConnectionEntry] = []
    for now, (group, deed, which) in enumerate(steps):
        if deed == 0 or not there:
            entry, evicted = table.enter(group, now)
            if evicted is not None:
                assert evicted.phase != ConnectionPhase.BUSY
                assert evicted.standing != Standing.VERIFIED
                there.remove(evicted)
            there += [entry] if entry is not None else []
        elif deed < 4:
            table.change(there[which % len(there)], now, ConnectionPhase(deed - 1))
        elif deed == 4:
            table.change(there[which % len(there)], now, standing=Standing(which % 3))
        else:
            table.leave(there.pop(which % len(there)))
        assert len(table) == len(there) <= 6
        others = [entry for entry in there if entry.standing != Standing.VERIFIED]
        assert len(others) <= 6
        assert all(sum(entry.group == group for entry in others) <= 4 for group in "abc")


def test_handshakes_take_turns_by_address_the_newest_first() -> None:
    turns: HandshakeQueue[str] = HandshakeQueue(per_second=2, burst=3, now=0)
    for group, item in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("a", "a4")):
        turns.add(group, item)
    assert [turns.next(0), turns.next(0), turns.next(0), turns.next(0)] == ["a4", "b1", "a3", None]
    assert turns.pause == 0.5
    turns.remove("a", "a2")
    assert [turns.next(0.5), turns.next(0.5)] == ["a1", None]
    assert turns.next(100) is None
    assert len(turns) == 0
    for number in range(5):
        turns.add("c", f"c{number}")
    assert sum(turns.next(100) is not None for _ in range(5)) == 3, "a pause saves up no more than the burst"
