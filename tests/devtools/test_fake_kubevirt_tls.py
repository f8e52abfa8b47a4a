"""The tests' virt-api ends a connection on a client certificate of another authority, as KubeVirt's does."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

from devtools.agents.kubevirt_admission import KubeVirtAdmission
from devtools.agents.kubevirt_webhooks import served
from devtools.cluster.credentials import Credentials
from virt_dra.api.kubevirt_versions import Gates, KubeVirtVersion

ADMISSION = KubeVirtAdmission(Gates.for_version(KubeVirtVersion.parse("1.9.0")))


async def _first_line(url: str, trusted: bytes, certificate: Path | None) -> bytes:
    context = ssl.create_default_context(cadata=trusted.decode())
    if certificate is not None:
        context.load_cert_chain(certificate)
    host, port = url.removeprefix("https://").split("/")[0].split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, server_hostname=host)
    try:
        writer.write(b"GET /validate HTTP/1.1\r\nHost: virt-api\r\nConnection: close\r\n\r\n")
        return await reader.readline()
    finally:
        writer.transport.abort()


async def test_a_foreign_client_certificate_ends_the_connection_and_none_is_needed(tmp_path: Path) -> None:
    certificate = Credentials(tmp_path).webhook_client
    async with served(ADMISSION) as (mutating, _):
        client = mutating["webhooks"][0]["clientConfig"]
        url, trusted = client["url"], base64.b64decode(client["caBundle"])
        assert await _first_line(url, trusted, None) == b"HTTP/1.1 405 Method Not Allowed\r\n"
        assert await _first_line(url, trusted, certificate) == b""
