"""A real server on a loopback port for a test, with a certificate made by the bootstrap, and what asks it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp

from virt_dra.api.kubevirt_versions import NEWEST, Gates
from webhooks.knowledge import Knowledge, KubeVirtOnly
from webhooks.review import Review, answer, read_review
from webhooks.server.app import ServerLimits, WebhookServer
from webhooks.server.callers import Callers
from webhooks.server.metrics import Metrics
from webhooks.tls.folder import AuthorityFolder
from webhooks.tls.reloading import CertificateSource, ReloadingTls
from webhooks.validation import Webhook, verdict_on
from webhooks.verdict import Verdict
from webhooks.worker.parent import WorkerLimits

NAMES = ("localhost", "127.0.0.1")
KNOWLEDGE = KubeVirtOnly(Gates.for_version(NEWEST))
GPU = {"name": "g", "claimName": "c", "requestName": "r"}
SPEC = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}], "domain": {"devices": {"gpus": [GPU]}}}
JSON = {"Content-Type": "application/json"}


def vmi(spec: object = SPEC, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "v", **metadata},
        "spec": spec,
    }


def vm(spec: object = SPEC, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": "v", **metadata},
        "spec": {"runStrategy": "Halted", "template": {"spec": spec}},
    }


def launcher_pod(claims: object = (("c", "r"),), **metadata: object) -> dict[str, Any]:
    """A pod as virt-controller creates it for the VMI v of :data:`SPEC`, as far as it matters here."""
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "name": "v",
        "uid": "u1",
        "controller": True,
    }
    pairs: Any = claims
    uses = [{"name": claim, "request": request} for claim, request in pairs]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "virt-launcher-v-",
            "labels": {"kubevirt.io": "virt-launcher"},
            "annotations": {"kubevirt.io/domain": "v"},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {
            "containers": [
                {
                    "name": "compute",
                    "image": "registry.example.com/virt-launcher:1.9.0",
                    "imagePullPolicy": "IfNotPresent",
                    "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "resources": {"claims": uses, "limits": {"devices.kubevirt.io/kvm": "1"}},
                    "volumeMounts": [{"name": "private", "mountPath": "/var/run/kubevirt-private"}],
                    "securityContext": {"runAsUser": 107, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
                },
                {"name": "guest-console-log", "image": "registry.example.com/virt-launcher:1.9.0"},
            ],
            "volumes": [{"name": "private", "emptyDir": {}}],
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        },
    }


def request(obj: object = None, old: object = None, **members: object) -> dict[str, Any]:
    """The ``request`` of an AdmissionReview, as an API server sends it."""
    kind = obj.get("kind") if isinstance(obj, dict) else "VirtualMachineInstance"
    group = "" if kind == "Pod" else "kubevirt.io"
    given: dict[str, Any] = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team-a",
        "name": "v",
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "dryRun": False,
        "object": obj,
        "oldObject": old,
    }
    return given | members


def review(obj: object = None, old: object = None, **members: object) -> dict[str, Any]:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request(obj, old, **members)}


def body(obj: object = None, old: object = None, **members: object) -> bytes:
    return json.dumps(review(vmi() if obj is None else obj, old, **members)).encode()


def decide_body(webhook: Webhook, data: bytes, knowledge: Knowledge) -> tuple[Review, bytes, Verdict]:
    """As a server does that knows all answers about selectors: the review in a body, the JSON of the answer, and the
    verdict."""
    reviewed = read_review(data)
    verdict = verdict_on(webhook, reviewed, knowledge)
    return reviewed, json.dumps(answer(reviewed.uid, verdict)).encode(), verdict


@dataclass
class Served:
    server: WebhookServer
    folder: Path
    port: int
    plain_port: int
    client: aiohttp.ClientSession
    trust: ssl.SSLContext

    def url(self, path: str) -> str:
        return f"https://localhost:{self.port}{path}"

    async def ask(
        self, data: bytes, path: str = "/validate-vmi", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        async with self.client.post(
            self.url(path), data=BytesIO(data), headers=JSON if headers is None else headers
        ) as response:
            return response.status, await response.json()

    async def plain(self, path: str) -> tuple[int, str]:
        async with self.client.get(f"http://localhost:{self.plain_port}{path}") as response:
            return response.status, await response.text()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until it is."""
    writer.close()
    with suppress(OSError):  # the other side was faster
        await writer.wait_closed()


def authority(folder: Path) -> AuthorityFolder:
    return AuthorityFolder(folder, NAMES, lambda: datetime.now(UTC))


def trusting(folder: Path) -> ssl.SSLContext:
    current = folder / "current" / "ca.crt"
    return ssl.create_default_context(cafile=str(current if current.exists() else folder / "ca.crt"))


@asynccontextmanager
async def serving(
    folder: Path,
    knowledge: Knowledge | Callable[[], Knowledge] | None = KNOWLEDGE,
    limits: ServerLimits | None = None,
    source: CertificateSource | None = None,
    callers: Callers | None = None,
    client_ca: Path | None = None,
    evaluation: WorkerLimits | None = None,
) -> AsyncIterator[Served]:
    """A server that is ready, if it has knowledge, and is stopped at the end unless the test did it. Its certificate is
    the folder's authority's, unless there is another source."""
    tls = ReloadingTls(source or authority(folder), client_ca)
    server = WebhookServer(
        knowledge if callable(knowledge) else lambda: knowledge, tls, Metrics(), limits, callers, evaluation
    )
    port, plain_port = await server.start("127.0.0.1", 0, 0)
    async with asyncio.timeout(60):
        while knowledge is not None and not server.ready:
            await asyncio.sleep(0.02)
    assert plain_port is not None
    trust = trusting(folder if source is None else source.certificate.parent)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as client:
            yield Served(server, folder, port, plain_port, client, trust)
    finally:
        await server.stop(0)


def status(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    """A failure as it is answered."""
    wire = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return code, wire
