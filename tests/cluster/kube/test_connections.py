"""HTTP as servers and proxies speak it, and as they shouldn't: bytes over real connections."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from devtools.cluster.credentials import Credentials
from virt_dra.cluster.kube import connections as connections_module
from virt_dra.cluster.kube.access import Credentials as ClientCredentials
from virt_dra.cluster.kube.access import Endpoint, tls_context
from virt_dra.cluster.kube.connections import NotConnected, ServerConnections
from virt_dra.cluster.kube.http_connection import ConnectionLost, HttpAnswer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
MIB = 2**20

Script = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RawServer:
    """What was asked, by connection, and where."""

    port: int = 0
    asked: list[list[bytes]] = field(default_factory=list)


@asynccontextmanager
async def raw_server(*answers: bytes | Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """Gives each request of a connection the next answer; after the last one the connection is closed."""
    server = RawServer()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        heads: list[bytes] = []
        server.asked.append(heads)
        try:
            for answer in answers:
                head = await reader.readuntil(b"\r\n\r\n")
                if length := _header(head, b"content-length"):
                    head += await reader.readexactly(int(length))
                heads.append(head)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(head, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has gone
        finally:
            writer.transport.abort() if tls else writer.close()
            serving.discard(task)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in tuple(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        given, _, value = line.partition(b":")
        if given.lower() == name:
            return value.strip()
    return b""


class FixedAccess:
    """To a server, as nobody."""

    source = "a test"

    def __init__(self, server: str, **way: str) -> None:
        self.endpoint = Endpoint(server, tls_context("a test", verify=False), **way)  # type: ignore[arg-type]

    async def authorization(self) -> str | None:
        return None

    async def renewed(self) -> bool:
        return False

    async def credentials(self) -> ClientCredentials:
        raise NotImplementedError


@asynccontextmanager
async def client(server: str, **way: str) -> AsyncIterator[ServerConnections]:
    connections = ServerConnections(FixedAccess(server, **way))
    try:
        yield connections
    finally:
        await connections.close()
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)


async def ask(connections: ServerConnections, target: str = "/a", **given: float) -> HttpAnswer:
    return await connections.ask("GET", target, (), None, **{"connect_timeout": 5.0, "silence": 5.0, **given})


async def whole(answer: HttpAnswer) -> bytes:
    parts = []
    while part := await answer.readany():
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK, b"ok"),
        (CHUNKED + b"1\r\na\r\n2;name=value\r\nbc\r\n0\r\nTrailer: x\r\n\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "end", "old", "none", "hints", "empty"],
)
async def test_bodies(answer: bytes, body: bytes) -> None:
    async def in_single_bytes(_: bytes, writer: asyncio.StreamWriter) -> None:
        for byte in answer:
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0)

    for script in (answer, in_single_bytes):
        async with raw_server(script) as server, client(f"http://127.0.0.1:{server.port}") as connections:
            assert await whole(await ask(connections)) == body


async def test_what_a_request_looks_like() -> None:
    async with raw_server(OK) as server, client(f"http://127.0.0.1:{server.port}/prefix/") as connections:
        answer = await connections.ask("POST", "/a%2Fb?c=d", (("X", "é"), ("X", "2")), b"body", connect_timeout=5.0)
        await whole(answer)
    wanted = f"POST /prefix/a%2Fb?c=d HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX: é\r\nX: 2\r\n"
    assert server.asked == [[f"{wanted}Content-Length: 4\r\n\r\nbody".encode()]]


@pytest.mark.parametrize(
    ("target", "value", "wanted"),
    [
        ("/a", "x\r\nImpersonate-User: admin", "the header Name has a character that none may have"),
        ("/a", "x\0", "the header Name has a character that none may have"),
        ("/a b", "x", "no target of a request: '/a b'"),
        ("/a\r\nX: y", "x", "no target of a request"),
        ("/ä", "x", "no target of a request: '/ä'"),
    ],
)
async def test_nothing_can_be_slipped_into_a_request(target: str, value: str, wanted: str) -> None:
    async with raw_server(OK) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        with pytest.raises(ValueError, match=wanted):
            await connections.ask("GET", target, (("Name", value),), None, connect_timeout=5.0)
        assert await whole(await ask(connections)) == b"ok"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (b"<html>", "what came is no HTTP: "),
        (b"SSH-2.0-OpenSSH\r\n", "what came is no HTTP: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "the server closed it"),
        (CHUNKED + b"5\r\nabc", "the server closed it"),
        (CHUNKED + b"zz\r\n", "what came is no HTTP: "),
        (b"", "the server closed it"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "what came is no HTTP: "),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "to another protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * MIB, "more than 65536 bytes of a head"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MIB, "more than 65536 bytes of a head"),
        (b"HTTP/1.1 103 Hints\r\n\r\n" * MIB, "more than 65536 bytes of a head"),
        (CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * MIB, "more than 65536 bytes of a head"),
        (CHUNKED + b"1;" + b"x" * MIB, "more than 65536 bytes of a head"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx", "that wasn't asked for: 'br'"),
    ],
    ids=["html", "ssh", "short", "short-chunk", "no-chunk", "nothing", "both-lengths", "upgrade", "endless-header",
         "endless-headers", "endless-hints", "endless-trailer", "endless-extension", "other-encoding"],
)  # fmt: skip
async def test_answers_that_are_none(answer: bytes, wanted: str) -> None:
    async with raw_server(answer) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        with pytest.raises(ConnectionLost, match=wanted):
            await whole(await ask(connections))


def zipped(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def test_a_compressed_answer_comes_in_pieces() -> None:
    body = b"".join(b"%d," % number for number in range(300_000)) + b"0" * 10 * MIB
    async with (
        raw_server(zipped(gzip.compress(body))) as server,
        client(f"http://127.0.0.1:{server.port}") as connections,
    ):
        answer = await ask(connections)
        parts = []
        while part := await answer.readany():
            parts.append(part)
    assert b"".join(parts) == body
    assert max(len(part) for part in parts) <= 2**18


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (gzip.compress(b"x" * 1000)[:-9], "the compressed answer has no end"),
        (b"plain", "the compressed answer can't be read"),
        (gzip.compress(b"x") + b"y", "the compressed answer goes on after its end"),
        (gzip.compress(b"x") * 2, "the compressed answer goes on after its end"),
    ],
    ids=["cut", "plain", "more", "twice"],
)
async def test_a_compressed_answer_that_is_none(body: bytes, wanted: str) -> None:
    async with raw_server(zipped(body)) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        with pytest.raises(ConnectionLost, match=wanted):
            await whole(await ask(connections))


async def test_a_connection_is_used_again() -> None:
    async with raw_server(OK, OK, OK) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        for _ in range(3):
            await whole(await ask(connections))
        await asyncio.sleep(0.05)
        assert await whole(await ask(connections)) == b"ok"  # the server has closed the first
    assert [len(heads) for heads in server.asked] == [3, 1]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ],
    ids=["close", "an answer to nothing", "old"],
)
async def test_a_connection_that_is_not_used_again(answer: bytes) -> None:
    async with raw_server(answer, OK) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        for _ in range(2):
            assert await whole(await ask(connections)) == b"ok"
    assert [len(heads) for heads in server.asked] == [1, 1]


async def test_a_connection_that_nobody_uses_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_KEPT", 0.02)
    async with raw_server(OK, OK) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        for _ in range(2):
            await whole(await ask(connections))
            await asyncio.sleep(0.1)
    assert [len(heads) for heads in server.asked] == [1, 1]


async def test_an_aborted_answer_ends_its_connection_alone() -> None:
    async def endless(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        while True:
            writer.write(b"1\r\na\r\n")
            await writer.drain()
            await asyncio.sleep(0.001)

    async with raw_server(endless) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        first, second = await ask(connections), await ask(connections)
        first.abort()
        with pytest.raises(ConnectionLost):
            await whole(first)
        await second.readany()
        assert await second.readany() == b"a"
        second.abort()


async def test_a_server_waits_for_a_slow_reader() -> None:
    sent = 0

    async def fast(head: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(CHUNKED)
        for _ in range(64):
            writer.write(b"%x\r\n%s\r\n" % (MIB, b"x" * MIB))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async with raw_server(fast) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        answer = await ask(connections)
        await asyncio.sleep(0.3)
        assert sent < 16  # 2 MiB are kept, and what the system's buffers hold
        assert len(await whole(answer)) == 64 * MIB


async def test_silence_is_noticed() -> None:
    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"1\r\na\r\n")
        await asyncio.sleep(30)

    async def mute(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async with raw_server(silent) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        answer = await ask(connections, silence=0.1)
        assert await answer.readany() == b"a"
        with pytest.raises(TimeoutError):
            await answer.readany()
        answer.abort()
    async with raw_server(mute) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        with pytest.raises(TimeoutError):
            await ask(connections, silence=0.1)


async def test_so_many_connections_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_MOST", 3)
    going = most = 0

    async def counted(_: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal going, most
        going += 1
        most = max(most, going)
        await asyncio.sleep(0.02)
        going -= 1
        writer.write(OK)

    async with raw_server(*[counted] * 20) as server, client(f"http://127.0.0.1:{server.port}") as connections:
        cancelled = [asyncio.create_task(ask(connections)) for _ in range(8)]
        await asyncio.sleep(0.01)
        for task in cancelled:
            task.cancel()
        answers = await asyncio.gather(*(ask(connections) for _ in range(12)))
        assert [await whole(answer) for answer in answers] == [b"ok"] * 12
    assert most <= 6  # those that were cancelled are still being answered


async def test_other_credentials_end_what_goes_on() -> None:
    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\na")
        await asyncio.sleep(30)

    access = FixedAccess("http://127.0.0.1:1")
    connections = ServerConnections(access)
    async with raw_server(silent) as before, raw_server(OK) as after:
        access.endpoint = FixedAccess(f"http://127.0.0.1:{before.port}").endpoint
        watch = await ask(connections)
        await watch.readany()
        access.endpoint = FixedAccess(f"http://127.0.0.1:{after.port}").endpoint
        assert await whole(await ask(connections)) == b"ok"
        with pytest.raises(ConnectionLost):
            await watch.readany()
        await connections.close()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        ("http://127.0.0.1:1", "Connection refused"),
        ("http://nowhere.invalid", "the name isn't known: "),
        ("ftp://127.0.0.1", r"the server's address 'ftp://127.0.0.1' can't be used: http:// or https://, a host and"),
        ("http://127.0.0.1:x", r"the server's address 'http://127.0.0.1:x' can't be used"),
        ("http://:80", "can't be used"),
        ("https://a..b:6443", r"the server's address 'https://a..b:6443' can't be used"),
        (f"https://{'ü' * 70}.example", "can't be used"),
        ("https://a b.example", "can't be used"),
        ("http://a\x00b", "can't be used"),
    ],
)
async def test_no_connection(server: str, wanted: str) -> None:
    async with client(server) as connections:
        with pytest.raises(NotConnected, match=wanted):
            await ask(connections)


async def test_a_configured_path_is_encoded() -> None:
    async with raw_server(OK) as server, client(f"http://127.0.0.1:{server.port}/clüster a%20b/") as connections:
        assert await whole(await ask(connections)) == b"ok"
    assert server.asked[0][0].startswith(b"GET /cl%C3%BCster%20a%20b/a HTTP/1.1\r\n")


async def test_a_server_that_does_not_answer_a_handshake() -> None:
    async with raw_server(OK) as server, client(f"https://127.0.0.1:{server.port}") as connections:
        with pytest.raises(NotConnected, match=r"no connection within 0\.1 s"):
            await ask(connections, connect_timeout=0.1)


# --- over TLS and through proxies -------------------------------------------------------------------------------------


@pytest.fixture
def serving_tls(tmp_path: Path) -> ssl.SSLContext:
    credentials = Credentials(tmp_path / "pki")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(credentials.certificate, credentials.key)
    return context


@asynccontextmanager
async def tunnel_proxy(refuses: bool = False, answer: bytes = ESTABLISHED) -> AsyncIterator[RawServer]:
    """A proxy that passes bytes on to whatever CONNECT names."""

    async def connect(head: bytes, writer: asyncio.StreamWriter) -> None:
        if refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(answer)
        reader: asyncio.StreamReader = writer.transport.get_protocol()._stream_reader  # type: ignore[attr-defined]
        try:
            await asyncio.gather(pumped(reader, back), pumped(there, writer))
        finally:
            back.transport.abort()

    async def pumped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
        writer.transport.abort()

    async with raw_server(connect) as proxy:
        yield proxy


async def test_a_server_behind_a_proxy(serving_tls: ssl.SSLContext) -> None:
    async with raw_server(OK, OK, tls=serving_tls) as server, tunnel_proxy() as proxy:
        way = {"proxy": f"http://us%40er:pass@127.0.0.1:{proxy.port}"}
        async with client(f"https://127.0.0.1:{server.port}", **way) as connections:
            for _ in range(2):
                assert await whole(await ask(connections)) == b"ok"
    tunnel = f"127.0.0.1:{server.port}"
    assert proxy.asked == [
        [f"CONNECT {tunnel} HTTP/1.1\r\nHost: {tunnel}\r\nProxy-Authorization: Basic dXNAZXI6cGFzcw==\r\n\r\n".encode()]
    ]
    assert server.asked == [[f"GET /a HTTP/1.1\r\nHost: {tunnel}\r\n\r\n".encode()] * 2]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 Connection established\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    ],
)
async def test_what_a_proxy_says_of_its_answers_end_does_not_count(answer: bytes, serving_tls: ssl.SSLContext) -> None:
    async with raw_server(OK, OK, tls=serving_tls) as server, tunnel_proxy(answer=answer) as proxy:
        way = {"proxy": f"http://127.0.0.1:{proxy.port}"}
        async with client(f"https://127.0.0.1:{server.port}", **way) as connections:
            for _ in range(2):
                assert await whole(await ask(connections)) == b"ok"


async def test_a_proxy_that_refuses() -> None:
    async with tunnel_proxy(refuses=True) as proxy:
        way = {"proxy": f"http://127.0.0.1:{proxy.port}"}
        async with client("https://cluster.invalid", **way) as connections:
            wanted = f"the proxy 127.0.0.1:{proxy.port} answered 407 to CONNECT cluster.invalid:443"
            with pytest.raises(NotConnected, match=wanted):
                await ask(connections)


async def test_a_proxy_of_plain_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://a:b@127.0.0.1:{proxy.port}")
        async with client("http://cluster.invalid:8001/prefix") as connections:
            assert await whole(await ask(connections)) == b"ok"
    wanted = (
        "GET http://cluster.invalid:8001/prefix/a HTTP/1.1\r\nHost: cluster.invalid:8001\r\n"
        "Proxy-Authorization: Basic YTpi\r\n\r\n"
    )
    assert proxy.asked == [[wanted.encode()]]


async def test_a_proxy_that_speaks_something_else() -> None:
    async with client("https://cluster.invalid", proxy="socks5://127.0.0.1:1080") as connections:
        with pytest.raises(NotConnected, match=r"the proxy's address 'socks5://127.0.0.1:1080' can't be used"):
            await ask(connections)


async def test_a_large_answer_over_tls(serving_tls: ssl.SSLContext) -> None:
    body = b"x" * 20 * MIB
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with (
        raw_server(head + body, OK, tls=serving_tls) as server,
        client(f"https://127.0.0.1:{server.port}") as connections,
    ):
        answer = await ask(connections)
        await asyncio.sleep(0.1)
        assert await whole(answer) == body
        assert await whole(await ask(connections)) == b"ok"
    assert len(server.asked) == 1
