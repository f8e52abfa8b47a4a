"""The webhook while its cluster fails and its certificate changes: it goes on, knows what happened meanwhile, and loses
no request."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from devtools.cluster.control_plane import ControlPlane, require
from devtools.cluster.ports import free_port
from devtools.deployed.webhook import kubevirt_kinds, until, webhook
from devtools.webhooks.serving import KNOWLEDGE, body, hang_up, request, vmi
from virt_dra.cluster.kube.cluster import connect
from virt_dra.installation.webhook_authority import SECRET, StoredAuthority
from virt_dra.simulator.agents.containers import write_volume
from webhooks.server.app import WebhookServer
from webhooks.server.metrics import Metrics
from webhooks.tls.reloading import CertificateFolder, ReloadingTls
from webhooks.tls.secret import files_of

pytestmark = pytest.mark.control_plane


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own, since it is stopped in between."""
    require()
    with ControlPlane() as running, kubevirt_kinds(running):
        yield running


def _asked(port: int, trust: ssl.SSLContext, namespace: str, template: str) -> Any:
    spec = {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": template}],
        "domain": {"devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": "r"}]}},
    }
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": request(vmi(spec), namespace=namespace),
    }
    asked = urllib.request.Request(
        f"https://localhost:{port}/validate-vmi", json.dumps(review).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=30, context=trust) as answer:
        return json.loads(answer.read())["response"]


def _trust(plane: ControlPlane, namespace: str) -> ssl.SSLContext:
    secret = plane.request("GET", f"/api/v1/namespaces/{namespace}/secrets/virt-dra-webhook-tls")
    trust = ssl.create_default_context(cadata=files_of(secret)["ca.crt"].decode())
    trust.load_cert_chain(plane.webhook_client)
    return trust


def test_it_answers_while_the_api_server_is_gone_and_learns_what_happened(plane: ControlPlane) -> None:
    namespace, port = plane.create_namespace("faults-"), free_port()
    templates = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates"

    def create(name: str) -> None:
        requests = [{"name": "r", "exactly": {"deviceClassName": "x"}}]
        plane.request(
            "POST", templates, {"metadata": {"name": name}, "spec": {"spec": {"devices": {"requests": requests}}}}
        )

    def missing(name: str) -> bool:
        return any(
            "[template-missing]" in warning for warning in _asked(port, trust, namespace, name).get("warnings", ())
        )

    create("before")
    with webhook(plane, namespace, port=port) as running:
        running.wait_until_ready()
        trust = _trust(plane, namespace)
        assert (missing("before"), missing("after")) == (False, True)
        plane.stop_api_server()
        for _ in range(5):
            assert (missing("before"), missing("after")) == (False, True), "what was known last counts"
            time.sleep(0.1)
        plane.start_api_server()
        create("after")
        plane.request("DELETE", f"{templates}/before")
        until(lambda: (missing("before"), missing("after")) == (True, False))
        assert running.process.poll() is None


async def test_a_certificate_that_changes_in_the_secret_costs_no_request(plane: ControlPlane, tmp_path: Path) -> None:
    """Keepers come with other names one after the other, so that the Secret gets another certificate each time, while
    clients ask two servers without a pause, over a new connection each time."""
    namespace = plane.create_namespace("faults-")

    async with connect(str(plane.kubeconfig)) as cluster:

        def keeper(number: int) -> StoredAuthority:
            names = ("localhost", f"replica-{number}.example.com")
            return StoredAuthority(cluster, "authority", "tls", namespace, names, "", lambda: datetime.now(UTC))

        async def files(name: str = "tls") -> dict[str, bytes]:
            return files_of((await cluster.get(SECRET, name, namespace)).to_wire())

        async def mounted() -> bytes:
            """As a kubelet refreshes the volumes of both pods; the certificate."""
            content = await files()
            for folder in folders:
                write_volume(folder, {name: content[name].decode() for name in ("tls.crt", "tls.key")})
            return content["tls.crt"]

        folders = [tmp_path / name for name in ("one", "other")]
        await keeper(0).reconcile()
        seen = {await mounted()}
        tls = [ReloadingTls(CertificateFolder(folder)) for folder in folders]
        servers = [WebhookServer(lambda: KNOWLEDGE, files, Metrics()) for files in tls]
        ports = [(await server.start("127.0.0.1", 0))[0] for server in servers]
        trust = ssl.create_default_context(cadata=(await files())["ca.crt"].decode())
        stop = asyncio.Event()
        background = [asyncio.create_task(server.keep_certificate(0.01)) for server in servers]
        clients = [asyncio.create_task(_ask(port, trust, stop)) for port in ports for _ in range(2)]
        for number in range(2, 10):
            await keeper(number).reconcile()
            # Another set of names has another authority, which clients are told of before anything is served by it.
            trust.load_verify_locations(cadata=(await files())["ca.crt"].decode())
            served = await mounted()
            seen.add(served)
            expires = x509.load_pem_x509_certificate(served).not_valid_after_utc
            while any(files.expires != expires for files in tls):
                await asyncio.sleep(0.01)
        stop.set()
        assert min(await asyncio.gather(*clients)) > 0
        assert len(seen) == 9
        for task in background:
            task.cancel()
        for server in servers:
            await server.stop(0)


async def _ask(port: int, trust: ssl.SSLContext, stop: asyncio.Event) -> int:
    """How many requests were answered; one that isn't raises."""
    count, data = 0, body(vmi())
    head = (
        "POST /validate-vmi HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        f"application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    while not stop.is_set():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="localhost")
        writer.write(head.encode() + data)
        told = (await reader.readuntil(b"\r\n\r\n")).lower()
        answer = await reader.readexactly(int(told.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        assert json.loads(answer)["response"]["allowed"] is True
        await hang_up(writer)
        count += 1
    return count
