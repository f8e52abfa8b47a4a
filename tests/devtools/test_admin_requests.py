"""The admin's connection over an idle close, which kube-apiserver does after 90 seconds: opened anew, and nothing is
asked twice."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devtools.cluster.admin_requests import AdminRequests
from devtools.cluster.credentials import Credentials


@dataclass
class Server:
    """Answers one request on each connection, then closes it as ``closing`` says; counts what it got."""

    port: int
    closing: str
    asked: list[str] = field(default_factory=list)
    idle: threading.Event = field(default_factory=threading.Event)
    """Set by the client: the answer was read."""
    closed: threading.Event = field(default_factory=threading.Event)

    def serve(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        with suppress(OSError):
            while True:
                raw, _ = listening.accept()
                with suppress(OSError):
                    self._one(raw, context)
                self.closed.set()

    def _one(self, raw: socket.socket, context: ssl.SSLContext) -> None:
        connection = context.wrap_socket(raw, server_side=True)
        data = b""
        while b"\r\n\r\n" not in data or (b"POST" in data and not data.endswith(b"}")):
            data += connection.recv(65536)
        self.asked.append(data.split(b" ", 1)[0].decode())
        if self.closing != "unanswered":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
            self.idle.wait(10)
            self.idle.clear()
        if self.closing == "close_notify":
            connection.settimeout(0.1)
            with suppress(OSError):
                connection.unwrap()  # as Go does: TLS's own end, and not waiting for the client's
        elif self.closing == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.close()


@contextmanager
def _asking(folder: Path, closing: str) -> Iterator[tuple[Server, AdminRequests]]:
    credentials = Credentials(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(credentials.certificate, credentials.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server, admin = Server(listening.getsockname()[1], closing), AdminRequests()
        threading.Thread(target=server.serve, args=(listening, context), daemon=True).start()
        pool = admin._connect(server.port, ssl.create_default_context(cafile=str(credentials.authority)))
        try:
            yield server, admin
        finally:
            pool.close()
            listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("closing", ["tcp", "reset", "close_notify"])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_a_connection_that_was_closed_while_idle_is_opened_anew(tmp_path: Path, closing: str, method: str) -> None:
    with _asking(tmp_path, closing) as (server, admin):
        for count in (1, 2, 3):
            assert admin.request(method, "/path", {"a": 1} if method != "GET" else None) == {}
            assert server.asked == [method] * count
            server.idle.set()
            assert server.closed.wait(10)
            server.closed.clear()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_was_sent_and_not_answered_is_not_sent_again(tmp_path: Path, method: str) -> None:
    with _asking(tmp_path, "unanswered") as (server, admin):
        with pytest.raises(OSError, match=r"closed|aborted|EOF"):
            admin.request(method, "/path", {"a": 1} if method == "POST" else None)
        assert server.asked == [method]


def test_nobody_there_is_an_os_error(tmp_path: Path) -> None:
    with _asking(tmp_path, "tcp") as (server, admin):
        pool = admin._connect(1, ssl.create_default_context())
        with pytest.raises(OSError, match="refused"):
            admin.request("GET", "/path")
        pool.close()
        assert server.asked == []
