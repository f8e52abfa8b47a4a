"""A report server on loopback whose viewers and pages the test makes."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import TypedObject
from virt_dra.cli.report.page_forms import LIVE, LIVE_POLICY, NOTICE
from virt_dra.cluster.kinds import ApiResource, resource_of
from virt_dra.cluster.port import Unavailable
from virt_dra.html.frame import framed
from virt_dra.report_server.attempts import AttemptLimits, Attempts
from virt_dra.report_server.following import FollowSettings, Rendered
from virt_dra.report_server.gate import Gate
from virt_dra.report_server.messages import Content
from virt_dra.report_server.metrics import ReportMetrics
from virt_dra.report_server.rendering import RenderingProcess
from virt_dra.report_server.serving import LiveNotice, ReportServer, ServingLimits
from virt_dra.report_server.sessions import Sessions
from virt_dra.report_server.viewers import Viewer
from webhooks.tls.authority import SystemKeys, bootstrap
from webhooks.tls.reloading import CertificateFolder, ReloadingTls

AT: Final = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
PODS: Final = resource_of(Pod)


def content(version: str) -> Content:
    page = framed(LIVE, f"<p>version {version}</p>", "Cluster", "", version=version).encode()
    document = f'{{"version": "{version}"}}'.encode()
    return Content(version, AT, 0.0, page, document, gzip.compress(page), gzip.compress(document))


class _Reviews:
    def __init__(self) -> None:
        self.users = {"ann": Viewer("ann"), "poor": Viewer("poor <b>")}
        self.rights = {"ann"}
        self.away = False

    async def authenticated(self, token: str) -> Viewer | None:
        if self.away:
            raise Unavailable("nobody answers at https://internal:6443")
        return self.users.get(token)

    async def may_list(self, viewer: Viewer, resource: ApiResource) -> bool:
        return viewer.name in self.rights


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Served:
    """A server and a client of it that keeps no cookies."""

    server: ReportServer
    rendering: RenderingProcess
    reviews: _Reviews
    clock: _Clock
    client: aiohttp.ClientSession
    url: str
    plain: str

    def show(self, version: str) -> None:
        self.rendering.content, self.rendering.stale = content(version), None
        self.server.changed()

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Mapping[str, str], str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.request(method, f"{self.url}{path}", headers=given, allow_redirects=False) as answer:
            return answer.status, answer.headers, await answer.text()

    async def sign_in(self, token: str = "ann", **headers: str) -> aiohttp.ClientResponse:
        given = {"Origin": self.url, "Accept": "text/html"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return await self.client.post(f"{self.url}/login", data={"token": token}, headers=given, allow_redirects=False)

    async def cookie(self) -> str:
        answer = await self.sign_in()
        assert answer.status == 303
        return answer.headers["Set-Cookie"].partition(";")[0]


def _nothing(objects: Sequence[TypedObject], at: datetime, *, explain: bool) -> Rendered:
    raise AssertionError("nothing is rendered here")


@asynccontextmanager
async def served(folder: Path, limits: ServingLimits | None = None) -> AsyncIterator[Served]:
    bundle = bootstrap(["localhost"], datetime.now(UTC), SystemKeys())
    for name, data in bundle.to_files().items():
        (folder / name).write_bytes(data)
    reviews, clock, metrics = _Reviews(), _Clock(), ReportMetrics()
    gate = Gate(reviews, (PODS,), clock, attempts=Attempts(AttemptLimits(per_address=3)), observer=metrics)
    rendering = RenderingProcess(FollowSettings(_nothing))
    server = ReportServer(
        rendering, gate, Sessions(), LiveNotice(NOTICE, LIVE_POLICY), ReloadingTls(CertificateFolder(folder)), metrics,
        limits=limits, clock=clock,
    )  # fmt: skip
    port, plain = await server.start("127.0.0.1", 0, 0)
    context = ssl.create_default_context(cadata=bundle.ca_bundle.decode())
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=["Accept-Encoding"],
    ) as client:
        yield Served(
            server, rendering, reviews, clock, client, f"https://localhost:{port}", f"http://127.0.0.1:{plain}"
        )
    await server.stop()
