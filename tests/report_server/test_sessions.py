"""Sessions and failed attempts: how long, how many, and what becomes of the oldest."""

from __future__ import annotations

from itertools import count

from virt_dra.report_server.attempts import AttemptLimits, Attempts
from virt_dra.report_server.sessions import SessionLimits, Sessions


def _sessions(**limits: float) -> Sessions:
    numbers = count()
    return Sessions(SessionLimits(**limits), lambda: f"id-{next(numbers)}")  # type: ignore[arg-type] # whole numbers


def test_an_id_has_256_bits_and_is_another_each_time() -> None:
    sessions = Sessions()
    first, second = sessions.begin("t", "ann", 0.0), sessions.begin("t", "ann", 0.0)
    assert first != second
    assert len(first) == 43  # 256 bits in base64


def test_a_session_is_found_by_its_id_until_its_time_is_over() -> None:
    sessions = _sessions(seconds=60)
    id = sessions.begin("token", "ann", 0.0)
    session = sessions.find(id, 59.9)
    assert session is not None
    assert (session.user, session.token, session.ended) == ("ann", "token", False)
    assert sessions.find("another", 0.0) is None
    assert sessions.find("", 0.0) is None
    assert sessions.find("\ud800", 0.0) is None
    assert sessions.find(id, 60.0) is None
    assert session.ended
    assert len(sessions) == 0


def test_a_sessions_end_is_told_once() -> None:
    sessions, told = _sessions(), []
    session = sessions.find(sessions.begin("t", "ann", 0.0), 0.0)
    assert session is not None
    session.on_end.add(lambda: told.append("end"))
    sessions.finish(session)
    sessions.finish(session)
    assert told == ["end"]


def test_the_oldest_session_of_a_user_ends_for_a_new_one() -> None:
    sessions = _sessions(of_user=2)
    ids = [sessions.begin("t", user, 0.0) for user in ("ann", "bob", "ann", "ann")]
    assert [sessions.find(id, 0.0) is not None for id in ids] == [False, True, True, True]


def test_the_oldest_of_all_ends_where_there_are_too_many() -> None:
    sessions = _sessions(overall=2)
    ids = [sessions.begin("t", user, 0.0) for user in ("ann", "bob", "eve")]
    assert [sessions.find(id, 0.0) is not None for id in ids] == [False, True, True]


def test_a_session_says_nothing_of_its_token() -> None:
    sessions = _sessions()
    assert "secret" not in repr(sessions.find(sessions.begin("secret", "ann", 0.0), 0.0))


# --- attempts ---


def test_an_address_has_so_many_attempts_and_gets_new_ones_with_time() -> None:
    attempts = Attempts(AttemptLimits(per_address=2, address_seconds=10.0))
    assert [attempts.take("a", 0.0) for _ in range(3)] == [0.0, 0.0, 10.0]
    assert attempts.take("b", 0.0) == 0.0
    assert attempts.take("a", 4.0) == 6.0
    assert attempts.take("a", 10.0) == 0.0
    assert attempts.take("a", 10.0) == 10.0


def test_all_addresses_together_have_a_limit() -> None:
    attempts = Attempts(AttemptLimits(overall=3, overall_seconds=1.0))
    assert [attempts.take(f"a{number}", 0.0) for number in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert attempts.take("another", 1.0) == 0.0


def test_a_good_token_was_no_attempt() -> None:
    attempts = Attempts(AttemptLimits(per_address=1, overall=1))
    for _ in range(10):
        assert attempts.take("a", 0.0) == 0.0
        attempts.give_back("a")
    assert attempts.take("a", 0.0) == 0.0
    assert attempts.take("a", 0.0) > 0


def test_many_addresses_are_not_remembered_for_ever() -> None:
    attempts = Attempts(AttemptLimits(per_address=1, overall=10**6))
    for number in range(10_000):
        attempts.take(f"a{number}", 0.0)
    assert len(attempts._addresses) == 4096
