"""Certificates renewed under load, and shutdown: no request is lost by either."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from devtools.webhooks.serving import NAMES, Served, body, hang_up, serving, trusting, vmi
from tests.webhooks.server.test_server import ADMITTED, LARGE, Held, _head, _until
from webhooks.server.app import ServerLimits
from webhooks.server.log import json_logging
from webhooks.tls.authority import Bundle, SystemKeys, bootstrap, renewed
from webhooks.tls.reloading import CertificateFolder

DATA = body(vmi())


async def _answer(reader: asyncio.StreamReader) -> tuple[bytes, Any]:
    """The head and body of one answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, json.loads(await reader.readexactly(length))


def _write(folder: Path, bundle: Bundle) -> None:
    for name, content in bundle.to_files().items():
        (folder / name).write_bytes(content)


async def test_renewed_certificates_disturb_nobody(tmp_path: Path) -> None:
    """Twenty renewals, file by file, while eight clients ask without a pause, half of them over a new connection each
    time."""
    log = StringIO()
    keys, now = SystemKeys(), datetime.now(UTC)
    names = [f"renewal-{number}" for number in range(20)]
    bundle = bootstrap((*NAMES, *names), now, keys)  # so that the authority may sign for each of them
    _write(tmp_path, bundle)

    async def all_of_it() -> None:
        async with serving(tmp_path, source=CertificateFolder(tmp_path)) as served:
            held = await served.connect()
            first = _serial(held[1])
            renewing = asyncio.create_task(served.server.keep_certificate(0.001))
            stop = asyncio.Event()
            clients = [asyncio.create_task(_ask_on(served, stop, fresh=number % 2 == 0)) for number in range(8)]
            for number, name in enumerate(names):
                _write(tmp_path, renewed(bundle, (*NAMES, name), now, keys))
                await _until(functools.partial(_has_loaded, served, number + 1))
            stop.set()
            answered = await asyncio.gather(*clients)
            assert all(count > 0 for count in answered)
            held[1].write(_head(len(DATA)) + DATA)
            assert (await _answer(held[0]))[1] == ADMITTED[1], "a connection from before the first renewal still is one"
            await hang_up(held[1])
            _, anew = await served.connect()
            assert _serial(anew) != first
            await hang_up(anew)
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    handler = json_logging(log, logging.ERROR)
    try:
        await all_of_it()
    finally:
        logging.getLogger().removeHandler(handler)
    # A renewal may be seen half; nothing else goes wrong.
    told = {json.loads(line)["message"] for line in log.getvalue().splitlines()}
    assert told <= {"certificate not reloaded, the one in service stays"}


def _has_loaded(served: Served, certificates: int) -> bool:
    loaded = served.server.metrics.registry.get_sample_value(
        "virt_dra_webhook_certificate_reloads_total", {"result": "loaded"}
    )
    return (loaded or 0) >= certificates


async def _ask_on(served: Served, stop: asyncio.Event, *, fresh: bool) -> int:
    count = 0
    reader, writer = await served.connect()
    while not stop.is_set():
        if fresh:
            await hang_up(writer)
            reader, writer = await served.connect()
        writer.write(_head(len(DATA)) + DATA)
        assert (await _answer(reader))[1] == ADMITTED[1]
        count += 1
    await hang_up(writer)
    return count


def _serial(writer: asyncio.StreamWriter) -> str:
    connection = writer.get_extra_info("ssl_object")
    assert isinstance(connection, ssl.SSLObject)
    certificate = connection.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


async def test_a_certificate_that_cannot_be_used_is_told_once(tmp_path: Path) -> None:
    log = StringIO()

    async def all_of_it() -> None:
        async with serving(tmp_path) as served:
            (tmp_path / "current" / "tls.key").write_text("nonsense")
            renewing = asyncio.create_task(served.server.keep_certificate(0.001))
            await _until(lambda: "failed" in served.server.metrics.exposition().decode())
            assert await served.ask(DATA) == ADMITTED
            failed = {"result": "failed"}
            name = "virt_dra_webhook_certificate_reloads_total"
            await _until(lambda: (served.server.metrics.registry.get_sample_value(name, failed) or 0) > 2)
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    handler = json_logging(log, logging.ERROR)
    try:
        await all_of_it()
    finally:
        logging.getLogger().removeHandler(handler)
    (line,) = (json.loads(line) for line in log.getvalue().splitlines())
    assert line["message"] == "certificate not reloaded, the one in service stays"
    assert line["reason"] == f"{tmp_path}: tls.key holds no unencrypted private key in PEM"


@pytest.mark.slow
async def test_shutdown_loses_no_request(tmp_path: Path) -> None:
    """One request is being decided, one half received, one connection idle when it begins; one comes while it is
    announced."""
    held = Held()

    async with serving(tmp_path, held, ServerLimits(seconds=30)) as served:
        half = await served.connect()
        half[1].write(_head(len(DATA)) + DATA[:100])
        await _until(lambda: served.server._in_flight == 1)
        idle = await served.connect()
        deciding = asyncio.create_task(served.ask(LARGE))
        await asyncio.to_thread(held.asked.wait, 30)

        stopping = asyncio.create_task(served.server.stop(announce_seconds=3.0))
        await _until(lambda: not served.server.ready)
        assert await served.plain("/readyz") == (503, "shutting down\n")
        assert await served.plain("/healthz") == (200, "ok\n")
        late = await served.connect()
        probe = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        late[1].write(probe)
        assert b"\r\nConnection: close\r\n" in await late[0].readuntil(b"\r\n\r\n"), "whoever asks is asked to go"

        await _until(lambda: not served.server._connections[0].port)
        try:
            _, refused = await served.connect()
        except OSError:
            pass
        else:
            await hang_up(refused)
            raise AssertionError("a connection was taken after the announcement")
        assert await idle[0].read() == b"", "an idle connection is closed"

        held.let_go.set()
        half[1].write(DATA[100:])
        head, answer = await _answer(half[0])
        assert (head[:15], answer) == (b"HTTP/1.1 200 OK", ADMITTED[1])
        assert b"\r\nConnection: close\r\n" in head
        assert await deciding == ADMITTED
        await stopping
        for _, writer in (half, idle, late):
            await hang_up(writer)


@pytest.mark.slow
async def test_a_request_that_never_ends_does_not_keep_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path, limits=ServerLimits(seconds=0.5)) as served:
        reader, writer = await served.connect()
        writer.write(_head(100) + b"{")
        await _until(lambda: served.server._in_flight == 1)
        async with asyncio.timeout(30):
            await served.server.stop(0)
        assert (await reader.read())[:13] == b"HTTP/1.1 408 "
        await hang_up(writer)


async def test_servers_can_share_an_authority(tmp_path: Path) -> None:
    """Replicas know nothing of each other; a client that trusts the folder's authority trusts each of them."""

    async with serving(tmp_path) as first, serving(tmp_path) as other:
        assert trusting(tmp_path).get_ca_certs() == first.trust.get_ca_certs()
        assert await first.ask(DATA) == ADMITTED
        await first.server.stop(0)
        assert await other.ask(DATA) == ADMITTED
