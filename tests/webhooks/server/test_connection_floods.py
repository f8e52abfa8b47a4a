"""A real server beset by connections that ask nothing, or never finish asking: the API server's reviews are answered
all the same."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from devtools.cluster.credentials import client_authority, client_certificate
from devtools.webhooks.serving import Served, body, serving
from webhooks.server.app import ServerLimits
from webhooks.server.callers import LIMIT, Callers
from webhooks.tls.authority import SystemKeys

pytestmark = pytest.mark.slow

DATA = body()
_LINES = (
    "POST /validate-vmi?timeout=10s HTTP/1.1",
    "Host: x",
    "Content-Type: application/json",
    f"Content-Length: {len(DATA)}",
    "",
    "",
)
HEAD = "\r\n".join(_LINES).encode()
API_SERVER = "127.0.9.9"
GOAL = 3.0
"""Seconds in which a review is answered during a flood: 1 is the goal where nothing else runs."""


@asynccontextmanager
async def beset(
    folder: Path, limits: ServerLimits | None = None
) -> AsyncIterator[tuple[Served, list[asyncio.StreamWriter]]]:
    """A server that verifies its callers and answers others by what they carry; connections in the list are cut at the
    end."""
    authority = client_authority(SystemKeys())
    shown = client_certificate(authority, "kube-apiserver")
    (folder / "client-ca.crt").write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    key = shown.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "client.pem").write_bytes(shown.certificate.public_bytes(serialization.Encoding.PEM) + key)
    held: list[asyncio.StreamWriter] = []
    async with serving(folder, limits=limits, callers=Callers(LIMIT), client_ca=folder / "client-ca.crt") as served:
        try:
            yield served, held
        finally:
            for writer in held:
                writer.transport.abort()


def _verified(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "current" / "ca.crt"))
    context.load_cert_chain(folder / "client.pem")
    return context


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(served: Served, address: str, trust: ssl.SSLContext | None) -> Connection:
    name = "localhost" if trust is not None else None
    return await asyncio.open_connection(
        "127.0.0.1", served.port, ssl=trust, local_addr=(address, 0), server_hostname=name
    )


async def _answered(connection: Connection) -> bool:
    reader, writer = connection
    writer.write(HEAD + DATA)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return bool(json.loads(await reader.readexactly(length))["response"]["allowed"])


async def _seconds(served: Served, address: str, trust: ssl.SSLContext) -> float:
    """For a review on a new connection. Of three, the fastest: the machine may be busy with something else."""
    taken = []
    for _ in range(3):
        begin = time.perf_counter()
        connection = await _connect(served, address, trust)
        assert await _answered(connection)
        taken.append(time.perf_counter() - begin)
        connection[1].transport.abort()
    return min(taken)


async def _idle(
    served: Served, held: list[asyncio.StreamWriter], count: int, address: Callable[[int], str], trust: ssl.SSLContext
) -> int:
    """So many connections that shook hands; how many could."""
    limit = asyncio.Semaphore(50)

    async def one(number: int) -> bool:
        async with limit:
            try:
                held.append((await _connect(served, address(number), trust))[1])
            except OSError:
                return False
            return True

    return sum(await asyncio.gather(*(one(number) for number in range(count))))


@pytest.mark.parametrize("addresses", [1, 8])
@pytest.mark.parametrize("same", [False, True])
async def test_idle_connections_keep_nobody_out(tmp_path: Path, addresses: int, same: bool) -> None:
    """1,200 of them, where there is room for 1,000: from one address or several, the API server's own among them or
    not."""

    async with beset(tmp_path) as (served, held):

        def address(number: int) -> str:
            return API_SERVER if same and not number % addresses else f"127.0.1.{1 + number % addresses}"

        begin = time.perf_counter()
        # On an idle machine some come faster than handshakes are admitted, and are closed.
        assert await _idle(served, held, 1200, address, served.trust) > 1000
        assert time.perf_counter() - begin > 3.5, "200 handshakes at once, then 200 a second"
        assert sum(map(len, served.server._connections)) <= 1000
        for trust in (served.trust, _verified(tmp_path)):
            assert await _seconds(served, API_SERVER, trust) < GOAL


@pytest.mark.parametrize("same", [False, True])
async def test_connections_that_never_shake_hands_keep_nobody_out(tmp_path: Path, same: bool) -> None:
    async with beset(tmp_path) as (served, held):
        for _ in range(2000):
            held.append((await _connect(served, API_SERVER if same else "127.0.1.1", None))[1])
        await asyncio.sleep(0.1)
        assert sum(map(len, served.server._connections)) <= 250, (
            "an address has a limit of its own, from the first packet on"
        )
        for trust in (served.trust, _verified(tmp_path)):
            assert await _seconds(served, API_SERVER, trust) < GOAL


async def test_a_connection_that_is_in_use_outlives_a_flood(tmp_path: Path) -> None:
    """One of a verified client, from an address from which a flood comes, and one without a certificate that got a
    verdict once."""

    async with beset(tmp_path) as (served, held):
        kept = [await _connect(served, API_SERVER, trust) for trust in (_verified(tmp_path), served.trust)]
        for connection in kept:
            assert await _answered(connection)
        await _idle(served, held, 400, lambda _: API_SERVER, served.trust)
        for connection in kept:
            assert await _answered(connection)
            connection[1].transport.abort()


@pytest.mark.parametrize("sent", [HEAD[:20], HEAD + DATA[:10]])
async def test_requests_that_never_end_keep_nobody_out(tmp_path: Path, sent: bytes) -> None:
    async with beset(tmp_path, ServerLimits(connections=60, connections_per_address=30)) as (served, held):
        await _idle(served, held, 80, lambda number: f"127.0.1.{1 + number % 4}", served.trust)
        for writer in held:
            writer.write(sent)
        await asyncio.sleep(0.2)
        for trust in (served.trust, _verified(tmp_path)):
            assert await _seconds(served, API_SERVER, trust) < GOAL


async def test_bodies_that_are_announced_only_take_no_room(tmp_path: Path) -> None:
    """64 MiB may be held by all requests together: 40 that announce 3 MiB each and send nothing hold none."""

    async with beset(tmp_path) as (served, held):
        await _idle(served, held, 40, lambda _: "127.0.1.1", served.trust)
        for writer in held:
            writer.write(HEAD.replace(f"Content-Length: {len(DATA)}".encode(), b"Content-Length: 3000000") + b" ")
        await asyncio.sleep(0.2)
        assert await _seconds(served, API_SERVER, served.trust) < GOAL


async def test_one_address_holds_no_more_than_half_of_what_bodies_may_take(tmp_path: Path) -> None:
    limits = ServerLimits(body_bytes=100_000, buffered_bytes=200_000)
    async with beset(tmp_path, limits) as (served, held):
        await _idle(served, held, 4, lambda _: "127.0.1.1", served.trust)
        for writer in held:
            writer.write(
                HEAD.replace(f"Content-Length: {len(DATA)}".encode(), b"Content-Length: 90000") + b" " * 80_000
            )
        await asyncio.sleep(0.3)
        assert served.server._bodies.buffered <= 100_000
        assert await _seconds(served, API_SERVER, served.trust) < GOAL


async def test_who_reads_no_answer_is_cut_off(tmp_path: Path) -> None:
    """Pipelined requests whose answers fill all buffers."""

    async with beset(tmp_path, ServerLimits(head_seconds=0.5)) as (served, _):
        reader, writer = await _connect(served, "127.0.1.1", served.trust)
        reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own way
        async with asyncio.timeout(60):
            while sum(map(len, served.server._connections)):
                if not writer.is_closing():
                    writer.write((b"GET /" + b"x" * 6000 + b" HTTP/1.1\r\nHost: x\r\n\r\n") * 50)
                await asyncio.sleep(0.01)
        writer.transport.abort()
