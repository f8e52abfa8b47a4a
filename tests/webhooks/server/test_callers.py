"""Who is answered: API servers by their client certificate, and nobody else, where there is an authority for them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from devtools.cluster.credentials import client_authority, client_certificate
from devtools.webhooks.serving import JSON, Served, body, launcher_pod, serving, trusting, vm, vmi
from webhooks.review import BadReview
from webhooks.server.callers import LIMIT, REFUSE, TELL, Callers
from webhooks.tls.authority import KeyPair, SystemKeys
from webhooks.tls.folder import AuthorityFolder
from webhooks.tls.reloading import CertificateError, ReloadingTls

KEYS = SystemKeys()
REFUSING = Callers(REFUSE)
REVIEWS = (("/validate-vmi", vmi()), ("/validate-vm", vm()), ("/mutate-launcher-pod", launcher_pod()))


@dataclass
class Room:
    served: Served
    folder: Path
    authority: KeyPair
    client_ca: Path

    def context(self, shown: KeyPair | None) -> ssl.SSLContext:
        context = trusting(self.folder)
        if shown is not None:
            path = self.folder / f"client-{shown.certificate.serial_number}.pem"
            path.write_bytes(_pem(shown) + _key(shown))
            context.load_cert_chain(path)
        return context

    async def ask(
        self, shown: KeyPair | None, path: str = "/validate-vmi", data: bytes | None = None
    ) -> tuple[int, Any]:
        """Over a connection of its own."""
        connector = aiohttp.TCPConnector(ssl=self.context(shown))
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post(self.served.url(path), data=body() if data is None else data, headers=JSON) as response,
        ):
            return response.status, await response.json()

    def metric(self, name: str, **labels: str) -> float:
        return self.served.server.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def room(folder: Path, callers: Callers = REFUSING) -> AsyncIterator[Room]:
    authority = client_authority(KEYS)
    client_ca = folder / "client-ca.crt"
    client_ca.write_bytes(_pem(authority))
    async with serving(folder, callers=callers, client_ca=client_ca) as served:
        yield Room(served, folder, authority, client_ca)


def _pem(pair: KeyPair) -> bytes:
    return pair.certificate.public_bytes(serialization.Encoding.PEM)


def _key(pair: KeyPair) -> bytes:
    return pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


async def test_only_who_shows_the_certificate_of_an_api_server_is_answered(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        shown = client_certificate(here.authority, "kube-apiserver")
        for path, obj in REVIEWS:
            code, refusal = await here.ask(None, path, body(obj))
            assert (code, refusal["reason"], refusal["kind"]) == (401, "Unauthorized", "Status")
            assert "--admission-control-config-file" in refusal["message"]
            assert (await here.ask(shown, path, body(obj)))[0] == 200
        assert here.metric("virt_dra_webhook_callers_total", verified="false") == 3
        assert here.metric("virt_dra_webhook_callers_total", verified="true") == 3
        assert here.metric("virt_dra_webhook_failures_total", code="401") == 3
        assert here.metric("virt_dra_webhook_unverified_callers_mode", mode="refuse") == 1


@pytest.mark.slow
async def test_a_refusal_needs_no_body_and_ends_the_connection(tmp_path: Path) -> None:
    async def all_of_it() -> bytes:
        async with room(tmp_path) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.served.port, ssl=here.context(None))
            writer.write(
                b"POST /validate-vmi HTTP/1.1\r\nHost: x\r\nContent-Type: "
                b"application/json\r\nContent-Length: 3000000\r\n\r\n"
            )
            async with asyncio.timeout(30):
                answer = await reader.read()
            writer.transport.abort()
            return answer

    assert (await all_of_it()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("names", "common", "dns", "want"),
    [
        ((), "kube-apiserver", (), 200),
        ((), "system:node:a", ("kube-apiserver",), 200),
        ((), "system:node:a", (), 403),
        ((), "kube-apiserver-kubelet-client", (), 403),
        (("front-proxy-client", "other"), "front-proxy-client", (), 200),
        (("front-proxy-client", "other"), "kube-apiserver", (), 403),
    ],
)
async def test_a_certificate_of_the_authority_needs_the_name(
    tmp_path: Path, names: tuple[str, ...], common: str, dns: tuple[str, ...], want: int
) -> None:
    async def all_of_it() -> tuple[int, Any]:
        async with room(tmp_path, Callers(REFUSE, frozenset(names)) if names else REFUSING) as here:
            return await here.ask(client_certificate(here.authority, common, dns_names=dns))

    code, answer = await all_of_it()
    assert code == want
    assert want == 200 or repr(common) in answer["message"]


async def test_certificates_that_are_not_valid_end_the_handshake(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        foreign = client_certificate(client_authority(KEYS), "kube-apiserver")
        server = client_certificate(here.authority, "kube-apiserver", usage=ExtendedKeyUsageOID.SERVER_AUTH)
        expired = client_certificate(here.authority, "kube-apiserver", until=datetime.now(UTC) - timedelta(seconds=1))
        for shown in (foreign, server, expired):
            with pytest.raises(aiohttp.ClientError):
                await here.ask(shown)
        assert (await here.ask(None))[0] == 401


def test_who_shows_nothing_is_told_no_more_by_a_certificate_that_has_expired_since() -> None:
    peer = {"subject": ((("commonName", "kube-apiserver"),),), "notAfter": "Jan  2 00:00:00 2026 GMT"}
    assert REFUSING.verified(peer, datetime(2026, 1, 1, tzinfo=UTC))
    assert not REFUSING.verified(peer, datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(BadReview) as refused:
        REFUSING.full_answer(verified=False)
    assert refused.value.code == 401
    assert Callers(TELL).full_answer(verified=False)
    assert not Callers(LIMIT).full_answer(verified=False)
    assert Callers(LIMIT).full_answer(verified=True)


async def test_probes_need_no_certificate(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        for path in ("/healthz", "/readyz"):
            async with here.served.client.get(here.served.url(path)) as response:
                assert response.status == 200
            assert (await here.served.plain(path))[0] == 200


async def test_other_authorities_are_taken_over_and_clients_of_former_ones_are_unverified(tmp_path: Path) -> None:
    async with room(tmp_path) as here:
        old, other = client_certificate(here.authority, "kube-apiserver"), client_authority(KEYS)
        new = client_certificate(other, "kube-apiserver")
        connector = aiohttp.TCPConnector(ssl=here.context(old), limit=1)
        async with aiohttp.ClientSession(connector=connector) as kept:
            async with kept.post(here.served.url("/validate-vmi"), data=body(), headers=JSON) as response:
                assert response.status == 200
            keeping = asyncio.create_task(here.served.server.keep_certificate(0.01))
            here.client_ca.write_bytes(_pem(other))
            async with asyncio.timeout(30):
                while not here.metric("virt_dra_webhook_certificate_reloads_total", result="loaded"):
                    await asyncio.sleep(0.01)
            assert (await here.ask(new))[0] == 200
            with pytest.raises(aiohttp.ClientError):
                await here.ask(old)
            with pytest.raises(aiohttp.ClientError):  # its connection was closed, and the next one is refused
                await kept.post(here.served.url("/validate-vmi"), data=body(), headers=JSON)
            # A file that can't be read leaves the authorities in service.
            here.client_ca.write_text("nonsense")
            async with asyncio.timeout(30):
                while not here.metric("virt_dra_webhook_certificate_reloads_total", result="failed"):
                    await asyncio.sleep(0.01)
            assert (await here.ask(new))[0] == 200
            keeping.cancel()


@pytest.mark.parametrize(
    "content", [None, "", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_without_authorities_is_no_reason_to_ask_for_no_certificate(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "client-ca.crt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CertificateError, match=r"client-ca.crt: no (such file|certificates in PEM)"):
        ReloadingTls(AuthorityFolder(tmp_path / "tls", ("localhost",), lambda: datetime.now(UTC)), file)


async def test_a_flood_of_refused_reviews_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def all_of_it() -> None:
        async with room(tmp_path) as here:
            for number in range(20):
                await here.ask(None, data=json.dumps({"n": number}).encode())

    with caplog.at_level("INFO", "virt_dra.webhook"):
        await all_of_it()
    assert sum(record.message == "request without a verdict" for record in caplog.records) == 1
