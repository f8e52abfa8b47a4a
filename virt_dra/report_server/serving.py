"""The HTTPS server of the live report, and the plain one of probes and metrics.

    GET  /             the page; without a valid session or token the form to sign in
    GET  /events       changes as server-sent events, until the session ends or the right is withdrawn
    GET  /report.json  the document of the same content
    POST /login, /logout
    GET  /healthz, /readyz, /metrics   on the plain port only

Every answer but the forms needs a viewer who may list everything that the page shows
(:mod:`virt_dra.report_server.gate`). Nothing that comes from objects is evaluated here: pages arrive finished.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import format_datetime
from html import escape
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs
from zlib import crc32

from aiohttp import web

from virt_dra.report_server.forms import POLICY, problem_page, sign_in_page
from virt_dra.report_server.gate import Gate, Judgement, NotReviewed, TooManyAttempts
from virt_dra.report_server.messages import Content
from virt_dra.report_server.metrics import CONTENT_TYPE, ReportMetrics
from virt_dra.report_server.rendering import RenderingProcess
from virt_dra.report_server.sessions import Session, Sessions
from webhooks.server.connection_table import UNKNOWN_ADDRESS, ConnectionPhase, Standing, group_of
from webhooks.server.connections import ConnectionLimits, Connections
from webhooks.server.log import Repeats, cut
from webhooks.server.quiet_logger import QuietLogger
from webhooks.tls.reloading import CertificateError, ReloadingTls

COOKIE: Final = "__Host-virt-dra-report"
"""With this prefix a browser takes it over HTTPS only, for this host and all paths, from this host itself."""
HEARTBEAT_SECONDS: Final = 15.0
_FORM_BYTES: Final = 32 * 1024
_FORM_SECONDS: Final = 10.0
_CHUNK: Final = 64 * 1024
"""Bytes that are written at once: a client must take so many within the connections' time limit."""
_RETRY_SECONDS: Final = 5
_GRACE_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 75.0
_HTML: Final = "text/html; charset=utf-8"
_SECURITY: Final = {
    "Server": "virt-dra",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers would say Origin: null with our own forms
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": POLICY,
}
_METHODS: Final = {
    "/": "GET, HEAD",
    "/events": "GET",
    "/report.json": "GET, HEAD",
    "/login": "GET, HEAD, POST",
    "/logout": "POST",
}

log = logging.getLogger("virt_dra.report")


@dataclass(frozen=True)
class ServingLimits:
    """The limits of streams. ``streams``: open streams of changes, ``streams_of_user`` of one user."""

    streams: int = 200
    streams_of_user: int = 10
    connections: ConnectionLimits = field(
        default_factory=lambda: ConnectionLimits(connections=600, per_address=300, reserved=0)
    )


@dataclass(frozen=True)
class LiveNotice:
    """How the page has its line about being stale, empty and hidden, and the policy it is shown under."""

    empty: str
    policy: str

    def filled(self, page: bytes, text: str) -> bytes:
        """The page with the text in that line."""
        filled = self.empty.replace(" hidden", "").replace("></", f">{escape(text)}</")
        return page.replace(self.empty.encode(), filled.encode(), 1)


@dataclass
class _Refusal(Exception):
    """An answer without the report. ``tried``: False for who has given no token yet, and so did nothing wrong."""

    status: HTTPStatus
    text: str
    headers: dict[str, str] = field(default_factory=dict)
    signed_in: bool = False
    tried: bool = True


@dataclass(frozen=True)
class _Admitted:
    """A viewer: the token, what is known of it, and the session it came by."""

    token: str
    judgement: Judgement
    session: Session | None

    @property
    def user(self) -> str:
        return self.judgement.viewer.name if self.judgement.viewer is not None else ""


class ReportServer:
    """One server. :meth:`start` opens its ports, :meth:`stop` closes them."""

    def __init__(
        self, rendering: RenderingProcess, gate: Gate, sessions: Sessions, notice: LiveNotice, tls: ReloadingTls,
        metrics: ReportMetrics, *, limits: ServingLimits | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._rendering, self._gate, self._sessions, self._notice = rendering, gate, sessions, notice
        self._tls, self._metrics, self._clock = tls, metrics, clock
        self._limits = limits or ServingLimits()
        self._repeats = Repeats(time.monotonic)
        rendering.on_change = self.changed
        self._streams: Counter[str] = Counter()
        self._wakes: set[asyncio.Event] = set()
        self._stopping = False
        self._servers: list[web.Server] = []
        self._listeners: list[Connections] = []

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int, plain_port: int) -> tuple[int, int]:
        """Listens. Returns both ports, chosen for 0. Raises OSError."""
        self._metrics.certificate_expiry.set(self._tls.expires.timestamp())
        plain = await self._listen(self._plain, host, plain_port, encrypted=False)
        return await self._listen(self._viewers, host, port, encrypted=True), plain

    async def stop(self) -> None:
        """Ends streams, answers what has been asked, and closes."""
        self._stopping = True
        self.changed()
        for listener in self._listeners:
            await listener.stop_listening()
        await asyncio.gather(*(listener.end(_GRACE_SECONDS) for listener in self._listeners))
        for server in self._servers:
            await server.shutdown(1.0)

    def changed(self) -> None:
        """Wakes all streams: the content, or its staleness, has changed."""
        for wake in tuple(self._wakes):
            wake.set()

    async def keep_certificate(self, every_seconds: float) -> None:
        """Reloads the certificate every so many seconds, for ever."""
        while True:
            await asyncio.sleep(every_seconds)
            try:
                if await asyncio.to_thread(self._tls.reload):
                    self._metrics.certificate_expiry.set(self._tls.expires.timestamp())
                    log.info("certificate reloaded", extra={"fields": {"expires": self._tls.expires.isoformat()}})
            except CertificateError as error:
                self._say(logging.ERROR, "certificate not reloaded, the one in service stays", {"reason": str(error)})

    async def _listen(
        self, handler: Callable[[web.BaseRequest], object], host: str, port: int, *, encrypted: bool
    ) -> int:
        server = web.Server(
            handler,  # type: ignore[arg-type] # a coroutine function; aiohttp's own alias can't be named
            access_log=None, auto_decompress=False, keepalive_timeout=_IDLE_SECONDS, lingering_time=1.0,
            logger=QuietLogger(log, self._repeats),
        )  # fmt: skip
        connections = Connections(server, self._metrics, self._limits.connections)
        self._servers.append(server)
        self._listeners.append(connections)
        return await connections.listen(host, port, self._tls.context if encrypted else None)

    # --- probes and metrics -----------------------------------------------------------------------------------------

    async def _plain(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._counted(request, self._probed)

    async def _probed(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, text="only GET is possible here\n", headers={"Allow": "GET, HEAD"})
        match request.path:
            case "/healthz":
                return web.Response(text="ok\n")
            case "/readyz":
                missing = "there is no page yet" if self._rendering.content is None else ""
                why = "shutting down" if self._stopping else missing
                return web.Response(text=f"{why or 'ok'}\n", status=503 if why else 200)
            case "/metrics":
                self._metrics.sessions.set(len(self._sessions))
                self._metrics.stale.set(self._rendering.stale is not None)
                if self._rendering.content is not None:
                    self._metrics.changed.set(self._rendering.content.at.timestamp())
                return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})
        return web.Response(status=404, text="the paths are /healthz, /readyz, /metrics\n")

    # --- viewers ----------------------------------------------------------------------------------------------------

    async def _viewers(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await self._counted(request, self._answered)
        self._metrics.answers.labels(str(response.status)).inc()
        return response

    async def _counted(self, request: web.BaseRequest, answer: Callable[..., object]) -> web.StreamResponse:
        """Answers, and keeps the table of connections."""
        protocol = request.protocol
        for listener in self._listeners:
            listener.asked(protocol)
            listener.change(protocol, ConnectionPhase.BUSY)
        try:
            response = await answer(request)  # type: ignore[misc] # a coroutine function
        finally:
            if not self._stopping:
                for listener in self._listeners:
                    listener.change(protocol, ConnectionPhase.WAITING)
        assert isinstance(response, web.StreamResponse)
        if self._stopping or response.status in (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT):
            response.force_close()
        return response

    async def _answered(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            allowed = _METHODS.get(request.path)
            if request.path == "/favicon.ico":
                return web.Response(status=204, headers=_SECURITY)
            if allowed is None:
                paths = ", ".join(_METHODS)
                raise _Refusal(HTTPStatus.NOT_FOUND, f"there is nothing at this path; the paths are {paths}")
            if request.method not in allowed.split(", "):
                raise _Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"possible here: {allowed}", {"Allow": allowed})
            match request.path, request.method:
                case "/login", "POST":
                    return await self._sign_in(request)
                case "/login", _:
                    return _form(HTTPStatus.OK, sign_in_page())
                case "/logout", _:
                    return self._sign_out(request)
            admitted = await self._admitted(request)
            if request.path == "/events":
                return await self._events(request, admitted)
            return await self._content(request)
        except _Refusal as refusal:
            return self._refused(request, refusal)

    def _refused(self, request: web.BaseRequest, refusal: _Refusal) -> web.Response:
        if not _wants_html(request):
            headers = {**_SECURITY, **refusal.headers}
            return web.Response(status=refusal.status, text=f"{refusal.text}\n", headers=headers)
        if refusal.status == HTTPStatus.UNAUTHORIZED:
            return _form(refusal.status, sign_in_page(refusal.text if refusal.tried else ""), refusal.headers)
        page = problem_page(refusal.status.phrase, refusal.text, signed_in=refusal.signed_in)
        return _form(refusal.status, page, refusal.headers)

    async def _admitted(self, request: web.BaseRequest) -> _Admitted:
        """The viewer of a request, who may see the page. Raises :class:`_Refusal`."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self._allowed(token.strip(), None, request)
        session = self._session(request)
        if session is None:
            stale = {"Set-Cookie": _cookie("", 0)} if request.cookies.get(COOKIE) else {}
            why = "The session has ended: sign in again." if stale else ""
            raise _Refusal(
                HTTPStatus.UNAUTHORIZED, why or "sign in, or send a token (Authorization: Bearer)", _BEARER | stale,
                tried=bool(stale),
            )  # fmt: skip
        return await self._allowed(session.token, session, request)

    async def _allowed(self, token: str, session: Session | None, request: web.BaseRequest) -> _Admitted:
        """The token's user, if they may see the page. Ends the session of one that is no longer valid. Raises
        :class:`_Refusal`."""
        address = _address(request)
        try:
            judgement = await self._gate.judged(token, address)
        except TooManyAttempts as error:
            seconds = max(int(error.seconds + 0.999), 1)
            self._say(logging.WARNING, "attempts limited", {"address": address})
            raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, str(error), {"Retry-After": str(seconds)}) from None
        except NotReviewed as error:
            self._say(logging.ERROR, "the API server doesn't answer reviews", {"reason": str(error)})
            why = "the cluster's API server doesn't say whether you may see this; try again later"
            again = dict.fromkeys(("Retry-After", "Refresh"), str(_RETRY_SECONDS))
            raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, why, again, signed_in=session is not None) from None
        if judgement.outcome == "allowed":
            for listener in self._listeners:
                listener.change(request.protocol, standing=Standing.PROVEN)
            return _Admitted(token, judgement, session)
        if judgement.outcome == "unknown":
            if session is not None:
                self._sessions.finish(session)
            self._say(logging.WARNING, "token refused", {"address": address})
            why = "the cluster doesn't know this token, or it has expired"
            raise _Refusal(HTTPStatus.UNAUTHORIZED, why, dict(_BEARER))
        user = judgement.viewer.name if judgement.viewer is not None else ""
        missing = ", ".join(map(str, judgement.missing))
        self._say(logging.WARNING, "not allowed", {"user": user, "missing": missing, "address": address})
        lacks = f"the right to list is missing, in all namespaces, for {missing}"
        text = f"{cut(user)} may not see the whole cluster: {lacks}"
        raise _Refusal(HTTPStatus.FORBIDDEN, text, signed_in=session is not None)

    # --- sign in and out --------------------------------------------------------------------------------------------

    async def _sign_in(self, request: web.BaseRequest) -> web.Response:
        _check_same_origin(request)
        token = (await _form_field(request, "token")).strip()
        admitted = await self._allowed(token, None, request)
        if (old := self._session(request)) is not None:
            self._sessions.finish(old)
        id = self._sessions.begin(token, admitted.user, self._clock())
        log.info("signed in", extra={"fields": {"user": admitted.user, "address": _address(request)}})
        cookie = _cookie(id, int(self._sessions.seconds))
        return web.Response(status=303, headers={**_SECURITY, "Location": "/", "Set-Cookie": cookie})

    def _sign_out(self, request: web.BaseRequest) -> web.Response:
        _check_same_origin(request)
        if (session := self._session(request)) is not None:
            self._sessions.finish(session)
            log.info("signed out", extra={"fields": {"user": session.user}})
        return web.Response(status=303, headers={**_SECURITY, "Location": "/login", "Set-Cookie": _cookie("", 0)})

    def _session(self, request: web.BaseRequest) -> Session | None:
        id = request.cookies.get(COOKIE)
        return self._sessions.find(id, self._clock()) if id else None

    # --- the content ------------------------------------------------------------------------------------------------

    async def _content(self, request: web.BaseRequest) -> web.StreamResponse:
        content, stale = self._rendering.content, self._stale_text()
        if content is None:
            why = f"There is no page yet: {stale}" if stale else "The cluster is being read; the page comes by itself."
            raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, why, {"Retry-After": "2", "Refresh": "2"})
        document = request.path == "/report.json"
        tag = content.version if document or not stale else f"{content.version}-{crc32(stale.encode()):x}"
        headers = {
            **_SECURITY,
            "Content-Security-Policy": POLICY if document else self._notice.policy,
            "Content-Type": "application/json" if document else _HTML,
            "ETag": f'W/"{tag}"',
            "Last-Modified": format_datetime(content.at, usegmt=True),
            "Vary": "Accept-Encoding, Authorization, Cookie",
        }
        if stale and self._rendering.stale is not None:
            headers["Virt-Dra-Stale-Since"] = format_datetime(self._rendering.stale.since, usegmt=True)
        if any(asked.value in (tag, "*") for asked in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return await _sent(request, headers, self._body(request, content, headers, stale=stale, document=document))

    def _body(
        self, request: web.BaseRequest, content: Content, headers: dict[str, str], *, stale: str, document: bool
    ) -> bytes:
        if stale and not document:
            return self._notice.filled(content.page, stale)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return content.document_gzip if document else content.page_gzip
        return content.document if document else content.page

    def _stale_text(self) -> str:
        stale = self._rendering.stale
        return f"Not up to date since {stale.since:%Y-%m-%d %H:%M:%S} UTC: {stale.why}." if stale is not None else ""

    # --- streams ----------------------------------------------------------------------------------------------------

    async def _events(self, request: web.BaseRequest, admitted: _Admitted) -> web.StreamResponse:
        user, session = admitted.user, admitted.session
        if self._streams.total() >= self._limits.streams or self._streams[user] >= self._limits.streams_of_user:
            why = "too many streams are open; close other pages"
            raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, why, {"Retry-After": "60"})
        wake = asyncio.Event()
        self._wakes.add(wake)
        self._streams[user] += 1
        self._metrics.streams.set(self._streams.total())
        if session is not None:
            session.on_end.add(wake.set)
        headers = {**_SECURITY, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        try:
            await response.prepare(request)
            await response.write(f"retry: {_RETRY_SECONDS * 1000}\n\n".encode())
            with suppress(ConnectionError):
                await self._stream(request, response, admitted, wake)
        finally:
            self._wakes.discard(wake)
            self._streams -= Counter([user])  # keeps those that are above 0
            self._metrics.streams.set(self._streams.total())
            if session is not None:
                session.on_end.discard(wake.set)
        response.force_close()
        return response

    async def _stream(
        self, request: web.BaseRequest, response: web.StreamResponse, admitted: _Admitted, wake: asyncio.Event
    ) -> None:
        """Events until the viewer may no longer see the page, or goes. Raises ConnectionError."""
        version, said, until = "", "", admitted.judgement.until
        beat = self._clock() + HEARTBEAT_SECONDS
        while not self._stopping:
            wake.clear()
            session, now = admitted.session, self._clock()
            if session is not None and (session.ended or session.end <= now):
                await response.write(_event("ended", "the session has ended"))
                return
            if now >= until:
                try:
                    until = (await self._allowed(admitted.token, session, request)).judgement.until
                except _Refusal as refusal:
                    await response.write(_event("ended", refusal.text))
                    return
            content, stale = self._rendering.content, self._stale_text()
            if content is not None and content.version != version:
                version = content.version
                await response.write(_event("changed", version))
            if stale != said:
                said = stale
                await response.write(_event("stale", stale) if stale else _event("current", "up to date again"))
            if now >= beat:
                beat = now + HEARTBEAT_SECONDS
                await response.write(b": still there\n\n")
            if request.transport is None or request.transport.is_closing():
                return
            end = min(beat, until, session.end if session is not None else beat)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(end - self._clock(), 0.01)):
                    await wake.wait()

    def _say(self, level: int, message: str, fields: dict[str, str]) -> None:
        """Logs a line of which clients can cause many."""
        suppressed = self._repeats.suppressed_before((message, *fields.values()))
        if suppressed is not None:
            log.log(level, message, extra={"fields": {**fields, **({"suppressed": suppressed} if suppressed else {})}})


_BEARER: Final = {"WWW-Authenticate": 'Bearer realm="virt-dra"'}


def _event(kind: str, data: str) -> bytes:
    return f"event: {kind}\ndata: {' '.join(data.split())}\n\n".encode()


def _form(status: HTTPStatus, page: str, headers: dict[str, str] | None = None) -> web.Response:
    own = {**_SECURITY, **(headers or {}), "Content-Type": _HTML}
    return web.Response(status=status, body=page.encode(), headers=own)


async def _sent(request: web.BaseRequest, headers: dict[str, str], body: bytes) -> web.StreamResponse:
    """The body in pieces, so that a slow client has the time limit for each of them."""
    response = web.StreamResponse(headers=headers)
    response.content_length = len(body)
    await response.prepare(request)
    if request.method != "HEAD":
        view = memoryview(body)
        for begin in range(0, len(body), _CHUNK):
            await response.write(view[begin : begin + _CHUNK])
    await response.write_eof()
    return response


async def _form_field(request: web.BaseRequest, name: str) -> str:
    """A field of a form that was sent. Raises :class:`_Refusal`."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the form as application/x-www-form-urlencoded")
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for piece in request.content.iter_chunked(4096):
                body += piece
                if len(body) > _FORM_BYTES:
                    raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {_FORM_BYTES} bytes")
    except TimeoutError:
        raise _Refusal(HTTPStatus.REQUEST_TIMEOUT, "the form didn't arrive in time") from None
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=8)
    except ValueError:
        fields = {}
    if len(fields.get(name, ())) != 1:
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"the form must have one field {name}")
    return fields[name][0]


def _check_same_origin(request: web.BaseRequest) -> None:
    """Refuses what another site's page has sent. Browsers say with every form where it comes from. Raises
    :class:`_Refusal`."""
    if request.headers.get("Origin", "").lower() != f"https://{request.headers.get('Host', '')}".lower():
        raise _Refusal(HTTPStatus.FORBIDDEN, "the form was sent from another site (Origin isn't this host)")
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise _Refusal(HTTPStatus.FORBIDDEN, "the form was sent from another site (Sec-Fetch-Site)")


def _cookie(id: str, seconds: int) -> str:
    return f"{COOKIE}={id}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict"


def _address(request: web.BaseRequest) -> str:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return group_of(peer) if peer is not None else UNKNOWN_ADDRESS


def _wants_html(request: web.BaseRequest) -> bool:
    return "text/html" in request.headers.get("Accept", "")
