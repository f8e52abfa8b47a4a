"""Programs of sandboxes that are taken over: each takes the place of a user's own."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import time
from collections.abc import Callable
from typing import Final

from virt_dra.sandbox.inside import Connection


class _Exploit:
    """Unpickling one makes a folder."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self._path,)


EXPLOITED: Final = "/tmp/virt-dra-tests-unpickled"


def hangs(connection: Connection, settings: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def computes(connection: Connection, settings: object) -> None:
    while True:
        pass


def reads_and_hangs(connection: Connection, settings: object) -> None:
    while connection.receive() is not None:
        pass


def dies(connection: Connection, settings: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def dies_at_a_request(connection: Connection, settings: object) -> None:
    connection.receive()
    os._exit(0)


def fails(connection: Connection, settings: object) -> None:
    raise LookupError("\ud800 and more" * 1000)


def takes_all_memory(connection: Connection, settings: object) -> None:
    kept: list[bytearray] = []
    while True:
        kept.append(bytearray(2**28))  # zeros, which take address space and no memory


def sends_text(connection: Connection, settings: object) -> None:
    connection.send(b"HTTP/1.1 200 OK\r\n\r\n" * 1000)
    hangs(connection, settings)


def sends_too_long_a_frame(connection: Connection, settings: object) -> None:
    connection.send(struct.pack("!I", 2**32 - 1))
    hangs(connection, settings)


def sends_for_ever(connection: Connection, settings: object) -> None:
    while True:
        connection.send(struct.pack("!I", 50) + bytes(50))


def sends_half_a_frame(connection: Connection, settings: object) -> None:
    connection.send(struct.pack("!I", 50) + b"\2")
    os._exit(0)


def sends_a_pickle(connection: Connection, settings: object) -> None:
    head = pickle.dumps(_Exploit(EXPLOITED))
    parts = (b"ViewLoaded", head)
    frame = b"\2" + b"".join(struct.pack("!I", len(part)) for part in parts) + b"".join(parts)
    connection.send(struct.pack("!I", len(frame)) + frame)
    connection.send(struct.pack("!I", len(head)) + head)
    hangs(connection, settings)


def confirms_everything(connection: Connection, settings: object) -> None:
    """Answers questions, too, as if they were only to be taken note of."""
    while (frame := connection.receive()) is not None:
        count, length = struct.unpack_from("!BI", frame)
        kind = frame[1 + 4 * count :][:length]
        parts = (_CONFIRMATIONS[kind], b"{}")
        answer = b"\2" + b"".join(struct.pack("!I", len(part)) for part in parts) + b"".join(parts)
        connection.send(struct.pack("!I", len(answer)) + answer)
    hangs(connection, settings)


_CONFIRMATIONS: Final = {
    **dict.fromkeys((b"SampleLines", b"ExplanationRequest"), b"ViewLoaded"),
    **dict.fromkeys((b"Changes", b"Prepare", b"Advise"), b"AdvisorPrepared"),
    **dict.fromkeys((b"PutSlice", b"DropSlices"), b"ChangeApplied"),
}

HOSTILE: Final = (
    hangs, computes, reads_and_hangs, dies, dies_at_a_request, fails, takes_all_memory, sends_text,
    sends_too_long_a_frame, sends_for_ever, sends_half_a_frame, sends_a_pickle, confirms_everything,
)  # fmt: skip
