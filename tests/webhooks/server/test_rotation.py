"""A server under steady load while its certificate is replaced, the authority too: no review fails."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from devtools.webhooks.serving import JSON, NAMES, body, serving
from webhooks.tls.authority import Bundle, SystemKeys, bootstrap, succeeded
from webhooks.tls.reloading import CertificateFolder

ROTATIONS = 8
CLIENTS = 6


class Callers:
    """Clients that trust what is published. ``answers``: the status and verdict of each review; ``served``: serial
    numbers that were shown."""

    def __init__(self, port: int, bundle: Bundle) -> None:
        self._port, self._handshakes = port, Counter[ssl.SSLContext]()
        self._trust = _trusting(bundle)
        self.answers: list[tuple[int, bool]] = []
        self.served: set[int] = set()

    async def publish(self, bundle: Bundle) -> None:
        """Returns when nobody connects with the trust of before."""
        before, self._trust = self._trust, _trusting(bundle)
        while self._handshakes[before]:
            await asyncio.sleep(0.01)

    async def keep_asking(self, reviews: int) -> None:
        """Connections of so many reviews: an API server's have many."""
        while True:
            trust = self._trust
            self._handshakes[trust] += 1
            reader, writer = await asyncio.open_connection("localhost", self._port, ssl=trust)
            self._handshakes[trust] -= 1
            self.served.add(int(writer.get_extra_info("peercert")["serialNumber"], 16))
            try:
                for _ in range(reviews):
                    self.answers.append(await _reviewed(reader, writer))
            finally:
                writer.transport.abort()


def _trusting(bundle: Bundle) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=bundle.ca_bundle.decode())


async def _reviewed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bool]:
    data = body()
    lines = ("POST /validate-vmi HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in JSON.items()))
    writer.write("\r\n".join((*lines, f"Content-Length: {len(data)}", "", "")).encode() + data)
    answered = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(answered.partition("content-length:")[2].split()[0])
    return int(answered.split()[1]), json.loads(await reader.readexactly(length))["response"]["allowed"]


def _written(folder: Path, bundle: Bundle) -> None:
    """As the kubelet updates a mounted Secret, except that a reader may see one file before the other."""
    for name, content in bundle.serving_files().items():
        (folder / f"{name}.new").write_bytes(content)
        (folder / f"{name}.new").replace(folder / name)


async def test_no_review_fails_while_certificates_are_replaced(tmp_path: Path) -> None:
    keys, now = SystemKeys(), datetime.now(UTC)
    bundle = bootstrap(NAMES, now, keys)
    _written(tmp_path, bundle)
    serials = {bundle.serving.certificate.serial_number}
    async with serving(tmp_path, source=CertificateFolder(tmp_path)) as served:
        callers = Callers(served.port, bundle)
        keeping = asyncio.create_task(served.server.keep_certificate(0.02))
        load = [asyncio.create_task(callers.keep_asking(50 if number % 2 else 1)) for number in range(CLIENTS)]
        for rotation in range(ROTATIONS):
            if rotation % 2:
                bundle = succeeded(bundle, NAMES, now, keys)
                await callers.publish(bundle)  # trusted before anything is served by it
            bundle = Bundle.of_authority(bundle.authority_files(), NAMES, now, keys)
            _written(tmp_path, bundle)
            serial = bundle.serving.certificate.serial_number
            serials.add(serial)
            async with asyncio.timeout(60):
                while serial not in callers.served:
                    await asyncio.sleep(0.01)
                    assert not any(task.done() for task in load), [task for task in load if task.done()]
        for task in (keeping, *load):
            task.cancel()
        for task in (keeping, *load):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.sleep(0.05)  # connections that were aborted are closed when the loop comes to them
    assert set(callers.answers) == {(200, True)}
    assert callers.served == serials
