"""Messages between a process and its sandbox: whole, bounded, validated by type, and never unpickled."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass

import pytest

from virt_dra.sandbox.messages import LENGTH, BadMessage, Failed, Messages, RequestFailed, failed


@dataclass(frozen=True)
class _Page:
    version: str
    lengths: tuple[int, ...] = ()
    body: bytes = b""
    rest: bytes = b""


@dataclass(frozen=True)
class _Pong:
    late: bool


MESSAGES = Messages[_Page | _Pong]({_Page: 1000, _Pong: 100})


def _frame(*parts: bytes) -> bytes:
    return bytes((len(parts),)) + b"".join(map(LENGTH.pack, map(len, parts))) + b"".join(parts)


def _wire(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize("message", [_Page("a1", (1, 2), b"\xff\n", b""), _Page(""), _Pong(late=True)])
def test_a_message_is_read_as_it_was_written(message: _Page | _Pong) -> None:
    frame = MESSAGES.encoded(message)
    assert MESSAGES.length(frame[: LENGTH.size]) == len(frame) - LENGTH.size
    assert MESSAGES.decoded(frame[LENGTH.size :]) == message


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"", "a frame without its parts"),
        (b"\2\0\0", "a frame without its parts"),
        (b"\xff" * 2000, "a frame without its parts"),
        (_frame(b"_Pong"), "a frame without its parts"),
        (_frame(b"_Pong", _wire(late=True)) + b"x", "a frame of another length than its parts"),
        (_frame(b"_Pong", _wire(late=True))[:-1], "a frame of another length than its parts"),
        (_frame(b"_Other", b"{}"), "no such message: b'_Other' with 0 raw fields"),
        (_frame(b"\xff", b"{}"), "no such message: b'\\xff' with 0 raw fields"),
        (_frame(b"_Pong", b"{}", b"raw"), "no such message: b'_Pong' with 1 raw fields"),
        (_frame(b"_Page", _wire(version="1")), "no such message: b'_Page' with 0 raw fields"),
        (_frame(b"_Pong", _wire(late=True, more="x" * 100)), "a _Pong of 140 bytes, more than 100"),
        (_frame(b"_Pong", b"{not"), "_Pong: Invalid JSON: key must be a string at line 1 column 2"),
        (_frame(b"_Page", b"[" * 900, b"", b""), "_Page: Invalid JSON: recursion limit exceeded at line 1 column 202"),
        (_frame(b"_Pong", b"[1]"), "_Pong: Input should be an object"),
        (_frame(b"_Pong", b"{}"), "_Pong: late: Field required"),
        (_frame(b"_Pong", _wire(late=1)), "_Pong: late: Input should be a valid boolean"),
        (_frame(b"_Page", _wire(version=1), b"", b""), "_Page: version: Input should be a valid string"),
        (
            _frame(b"_Page", _wire(version="", lengths=[""]), b"", b""),
            "_Page: lengths.0: Input should be a valid integer",
        ),
        (_frame(b"_Pong", pickle.dumps(_Pong(late=True))), "_Pong: Invalid JSON: expected value at line 1 column 1"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(frame: bytes, said: str) -> None:
    with pytest.raises(BadMessage) as refused:
        MESSAGES.decoded(frame)
    assert str(refused.value) == said


def test_too_long_a_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadMessage, match="a frame of 1195725856 bytes, more than 8192"):
        MESSAGES.length(b"GET ")


def test_what_would_not_be_read_is_not_sent() -> None:
    with pytest.raises(BadMessage, match="a _Page of 1050 bytes, more than 1000"):
        MESSAGES.encoded(_Page("1", body=bytes(1000)))
    with pytest.raises(BadMessage, match="_Page can't be written"):
        MESSAGES.encoded(_Page("\ud800"))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RequestFailed("there is no view"), "there is no view"),
        (ValueError("wrong \ud800"), "ValueError: wrong ?"),
        (ValueError("x" * 10_000), f"ValueError: {'x' * 488}"),
    ],
)
def test_a_failure_is_a_message_of_every_side(error: Exception, reason: str) -> None:
    with pytest.raises(RequestFailed) as raised:
        MESSAGES.decoded(MESSAGES.encoded(failed(error))[LENGTH.size :])
    assert str(raised.value) == reason


def test_a_failure_that_says_too_much_is_cut() -> None:
    with pytest.raises(RequestFailed) as raised:
        MESSAGES.decoded(MESSAGES.encoded(Failed("x" * 5000))[LENGTH.size :])
    assert len(str(raised.value)) == 500
