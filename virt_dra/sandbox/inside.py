"""The side of the child: its connection, and the program that every sandbox starts with, run by
:mod:`virt_dra.sandbox.process` as ``python -P -m virt_dra.sandbox.inside FD PARENT``."""

from __future__ import annotations

import os
import pickle
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from virt_dra.sandbox.confinement import confine, die_with_parent, leave_terminal
from virt_dra.sandbox.messages import LENGTH, Failed, Messages, failed

Q = TypeVar("Q")
A = TypeVar("A")


class Connection:
    """A blocking connection to the parent, whose frames are trusted."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        """Sends a frame to the parent. Raises OSError where the parent has closed its end."""
        self._socket.sendall(frame)

    def receive(self) -> bytes | None:
        """The next frame, without its length; None where the parent has closed its end."""
        prefix = self._exactly(LENGTH.size)
        return None if prefix is None else self._exactly(LENGTH.unpack(prefix)[0])

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, length: int) -> bytes | None:
        read = bytearray(length)
        left = memoryview(read)
        while left:
            received = self._socket.recv_into(left)
            if not received:
                return None
            left = left[received:]
        return bytes(read)


def serve(connection: Connection, requests: Messages[Q], answers: Messages[A], handle: Callable[[Q], A | None]) -> None:
    """Answers requests until the parent closes its end; None is no answer. A request that fails is answered with
    :class:`~virt_dra.sandbox.messages.Failed`; but where memory runs out, the process ends."""
    while (frame := connection.receive()) is not None:
        try:
            answer = handle(requests.decoded(frame))
            reply = None if answer is None else answers.encoded(answer)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - sent to the parent; a fault over one request must not end the process
            reply = answers.encoded(failed(error))
        if reply is not None:
            connection.send(reply)


def main() -> None:
    """Runs the program that the parent sends; never returns."""
    descriptor, parent = map(int, sys.argv[1:3])
    die_with_parent(parent)
    leave_terminal()
    connection = Connection(socket.socket(fileno=descriptor))
    code = 0
    try:
        start = connection.receive()
        if start is not None:
            # Pickled by the parent, which is trusted; nothing is unpickled on the way back.
            limits, program = pickle.loads(start)
            confine(limits)
            run, settings = pickle.loads(program)  # in its limits, since it imports what runs
            run(connection, settings)
    except BaseException as error:  # noqa: BLE001 - the parent logs it
        with suppress(OSError):
            connection.send(Messages[Failed]({}).encoded(failed(error)))
        code = 1
    os._exit(code)  # without waiting for threads


if __name__ == "__main__":
    main()
