"""The server as browsers and programs see it: who gets the page, which headers, streams; on a real port, without a
cluster."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.cli.pages import refused_by_policy
from tests.report_server.site import AT, Served, content, served
from virt_dra.cli.report.contents import ReportContents
from virt_dra.cli.report.page import report_frame, report_main
from virt_dra.cli.report.page_forms import LIVE, LIVE_POLICY
from virt_dra.report_server.rendering import Stale
from virt_dra.report_server.serving import COOKIE, ServingLimits
from virt_dra.report_server.viewers import Viewer
from virt_dra.simulator.explaining.waiting import WaitingAnswers


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as made:
        made.show("one")
        yield made


PAGES = ("/", "/events", "/report.json")
BEARER = {"Authorization": "Bearer ann"}


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_session_or_a_token_nothing_is_shown(site: Served, path: str) -> None:
    status, headers, body = await site.get(path)
    assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="virt-dra"')
    assert body == "sign in, or send a token (Authorization: Bearer)\n"
    form = (await site.get(path, Accept="text/html"))[2]
    assert "version" not in form
    assert "alert" not in form  # nobody did anything wrong yet


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    "credentials",
    [
        {"Authorization": "Bearer eve"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer ann ann"},
        {"Authorization": "Basic YW5uOg=="},
        {"Cookie": f"{COOKIE}=ann"},
        {"Cookie": f"{COOKIE}="},
        {"Cookie": "=;;;\\"},
    ],
)
async def test_wrong_credentials_show_nothing(site: Served, path: str, credentials: dict[str, str]) -> None:
    status, _, body = await site.get(path, **credentials)
    assert status == 401
    assert "one" not in body


async def test_a_browser_gets_the_form_which_runs_nothing(site: Served) -> None:
    for path, status in (("/", 401), ("/login", 200)):
        got, headers, body = await site.get(path, Accept="text/html,*/*")
        assert got == status
        assert '<form method="post" action="/login">' in body
        assert "<script" not in body
        policy = headers["Content-Security-Policy"]
        assert refused_by_policy(body, policy) == []
        assert policy.partition("; form-action")[1:] == (
            "; form-action",
            " 'self'; base-uri 'none'; frame-ancestors 'none'",
        )


async def test_a_token_that_may_not_list_is_told_what_is_missing(site: Served) -> None:
    text = "poor <b> may not see the whole cluster: the right to list is missing, in all namespaces, for pods"
    assert (await site.get("/", Authorization="Bearer poor"))[::2] == (403, f"{text}\n")
    status, _, body = await site.get("/", Authorization="Bearer poor", Accept="text/html")
    assert status == 403
    assert text.replace("<b>", "&lt;b&gt;") in body
    assert (await site.sign_in("poor")).status == 403
    assert "Set-Cookie" not in (await site.sign_in("poor")).headers


async def test_the_page_and_the_document_with_a_token(site: Served) -> None:
    status, headers, body = await site.get("/", **BEARER)
    assert (status, body) == (200, content("one").page.decode())
    assert {name: headers[name] for name in _EXPECTED} == _EXPECTED
    assert headers["Content-Security-Policy"] == LIVE_POLICY
    status, headers, body = await site.get("/report.json", **BEARER)
    assert (status, headers["Content-Type"], body) == (200, "application/json", '{"version": "one"}')


_EXPECTED = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Type": "text/html; charset=utf-8",
    "ETag": 'W/"one"',
    "Last-Modified": "Fri, 20 Nov 2026 12:00:00 GMT",
    "Server": "virt-dra",
}


async def test_the_policy_allows_the_pages_own_style_and_script_and_no_other() -> None:
    taken = ReportContents(1, (), (), (), WaitingAnswers((), 0), (), (), taken=(("2026-11-20", 2),))
    page = report_frame(report_main(taken), "virt-dra", "", LIVE, "one")
    assert 'class="bar"' in page
    assert refused_by_policy(page, LIVE_POLICY) == []
    assert refused_by_policy(page.replace("<h2>", '<h2 style="top: 0">'), LIVE_POLICY)[:1] == ["attribute h2 style"]
    assert refused_by_policy(page.replace("<script>", "<script>alert(1);"), LIVE_POLICY)[0].startswith("script alert")
    assert LIVE_POLICY.partition("; connect-src")[2] == (
        " 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


async def test_what_has_not_changed_is_not_sent_again(site: Served) -> None:
    for tags in ('W/"one"', '"one"', '"x", W/"one"', "*"):
        status, headers, body = await site.get("/", If_None_Match=tags, **BEARER)
        assert (status, headers["ETag"], body) == (304, 'W/"one"', "")
    site.show("two")
    assert (await site.get("/", If_None_Match='W/"one"', **BEARER))[0] == 200


async def test_compressed_where_the_client_takes_it(site: Served) -> None:
    async with site.client.get(f"{site.url}/", headers={**BEARER, "Accept-Encoding": "br, gzip"}) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(await answer.read()) == content("one").page


async def test_head_is_get_without_the_body(site: Served) -> None:
    status, headers, body = await site.get("/", "HEAD", **BEARER)
    assert (status, headers["Content-Length"], body) == (200, str(len(content("one").page)), "")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/", "GET, HEAD"), ("/events", "GET"), ("/report.json", "GET, HEAD"), ("/logout", "POST")]
)
async def test_other_methods_are_refused(site: Served, path: str, allowed: str) -> None:
    for method in {"GET", "PUT", "DELETE", "POST", "PATCH", "OPTIONS"} - set(allowed.split(", ")):
        status, headers, _ = await site.get(path, method, **BEARER)
        assert (status, headers["Allow"]) == (405, allowed)
    assert (await site.get("/etc/passwd", **BEARER))[0] == 404


# --- signing in and out ---


async def test_signing_in_makes_a_session_whose_cookie_scripts_and_other_sites_do_not_get(site: Served) -> None:
    answer = await site.sign_in()
    cookie = answer.headers["Set-Cookie"]
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert cookie.startswith(f"{COOKIE}=")
    assert cookie.partition("; ")[2] == "Path=/; Max-Age=3600; Secure; HttpOnly; SameSite=Strict"
    assert "ann" not in cookie
    assert (await site.get("/", Cookie=cookie.partition(";")[0]))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
async def test_forms_of_other_sites_are_refused(site: Served, headers: dict[str, str]) -> None:
    answer = await site.sign_in(**headers)
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)
    cookie = await site.cookie()
    wrong = {"Origin": "https://evil.example"} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with site.client.post(f"{site.url}/logout", headers={"Cookie": cookie, **wrong}) as left:
        assert left.status == 403
    assert (await site.get("/", Cookie=cookie))[0] == 200


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("token=a&token=b", "application/x-www-form-urlencoded", 400),
        ("other=a", "application/x-www-form-urlencoded", 400),
        ("", "application/x-www-form-urlencoded", 400),
        ("\xff", "application/x-www-form-urlencoded", 400),
        ("&".join(f"a{number}=1" for number in range(100)), "application/x-www-form-urlencoded", 400),
        ('{"token": "ann"}', "application/json", 415),
        ("token=" + "a" * 40_000, "application/x-www-form-urlencoded", 413),
    ],
)
async def test_what_is_no_form_is_refused(site: Served, body: str, kind: str, status: int) -> None:
    headers = {"Origin": site.url, "Content-Type": kind}
    async with site.client.post(
        f"{site.url}/login", data=body.encode("latin-1"), headers=headers, allow_redirects=False
    ) as answer:
        assert answer.status == status


async def test_a_session_ends_after_an_hour_or_when_its_user_signs_out(site: Served) -> None:
    cookie = await site.cookie()
    site.clock.now = 3599.0
    assert (await site.get("/", Cookie=cookie))[0] == 200
    site.clock.now = 3600.0
    status, headers, body = await site.get("/", Cookie=cookie, Accept="text/html")
    assert (status, "The session has ended: sign in again." in body) == (401, True)
    assert headers["Set-Cookie"] == f"{COOKIE}=; Path=/; Max-Age=0; Secure; HttpOnly; SameSite=Strict"
    cookie = await site.cookie()
    async with site.client.post(
        f"{site.url}/logout", headers={"Cookie": cookie, "Origin": site.url}, allow_redirects=False
    ) as left:
        assert (left.status, left.headers["Location"]) == (303, "/login")
    assert (await site.get("/", Cookie=cookie))[0] == 401


async def test_a_session_ends_when_its_token_does(site: Served) -> None:
    cookie = await site.cookie()
    del site.reviews.users["ann"]
    site.clock.now = 60.0
    assert (await site.get("/", Cookie=cookie))[::2] == (
        401,
        "the cluster doesn't know this token, or it has expired\n",
    )
    site.reviews.users["ann"] = Viewer("ann")
    assert (await site.get("/", Cookie=cookie))[0] == 401


async def test_guesses_are_answered_with_a_time_to_wait(site: Served) -> None:
    assert [(await site.sign_in(f"guess-{number}")).status for number in range(4)] == [401, 401, 401, 429]
    answer = await site.sign_in("guess-5")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "6")


async def test_without_the_api_server_nobody_is_let_in_and_its_words_stay_in_the_log(site: Served) -> None:
    cookie = await site.cookie()
    site.reviews.away, site.clock.now = True, 60.0
    for credentials in ({"Cookie": cookie}, BEARER):
        status, headers, body = await site.get("/", **credentials)
        assert (status, headers["Retry-After"]) == (503, "5")
        assert body == "the cluster's API server doesn't say whether you may see this; try again later\n"
    site.reviews.away = False
    assert (await site.get("/", Cookie=cookie))[0] == 200


# --- streams ---


BEAT = ": still there"


async def _next(stream: aiohttp.StreamReader, *, beats: bool = False) -> str:
    """The next event; heartbeats only where they are looked for."""
    async with asyncio.timeout(60):
        while True:
            said = (await stream.readuntil(b"\n\n")).decode().removesuffix("\n\n")
            if beats or said != BEAT:
                return said


@asynccontextmanager
async def _stream(site: Served, **headers: str) -> AsyncIterator[aiohttp.StreamReader]:
    async with site.client.get(f"{site.url}/events", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert await _next(answer.content) == "retry: 5000"
        yield answer.content


async def test_a_stream_says_what_is_shown_and_when_it_changes(site: Served) -> None:
    async with _stream(site, **BEARER) as stream:
        assert await _next(stream) == "event: changed\ndata: one"
        site.show("two")
        assert await _next(stream) == "event: changed\ndata: two"
        site.server.changed()  # to nothing else
        site.show("three")
        assert await _next(stream) == "event: changed\ndata: three"


async def test_a_stream_ends_with_its_session(site: Served) -> None:
    cookie = await site.cookie()
    async with _stream(site, Cookie=cookie) as stream:
        await _next(stream)
        await site.client.post(
            f"{site.url}/logout", headers={"Cookie": cookie, "Origin": site.url}, allow_redirects=False
        )
        assert await _next(stream) == "event: ended\ndata: the session has ended"
        assert await stream.read() == b""


@pytest.mark.parametrize("how", ["right", "token", "api server"])
async def test_a_stream_ends_when_its_viewer_may_no_longer_see_the_page(site: Served, how: str) -> None:
    async with _stream(site, **BEARER) as stream:
        await _next(stream)
        site.reviews.rights = {"ann"} if how != "right" else set()
        site.reviews.users = site.reviews.users if how != "token" else {}
        site.reviews.away = how == "api server"
        site.clock.now = 59.0
        site.show("two")
        assert await _next(stream) == "event: changed\ndata: two"
        site.clock.now = 60.0
        site.show("three")
        said = {
            "right": "ann may not see the whole cluster: the right to list is missing, in all namespaces, for pods",
            "token": "the cluster doesn't know this token, or it has expired",
            "api server": "the cluster's API server doesn't say whether you may see this; try again later",
        }
        assert await _next(stream) == f"event: ended\ndata: {said[how]}"
        assert await stream.read() == b""


async def test_a_quiet_stream_has_a_heartbeat(site: Served) -> None:
    async with _stream(site, **BEARER) as stream:
        await _next(stream)
        site.clock.now = 15.0
        site.server.changed()
        assert await _next(stream, beats=True) == BEAT


async def test_streams_are_limited_and_their_place_is_free_again(tmp_path: Path) -> None:
    async with served(tmp_path, ServingLimits(streams=2, streams_of_user=2)) as site:
        site.show("one")
        async with _stream(site, **BEARER), _stream(site, **BEARER):
            status, headers, _ = await site.get("/events", **BEARER)
            assert (status, headers["Retry-After"]) == (429, "60")
        for _ in range(100):
            site.server.changed()
            await asyncio.sleep(0.02)
            if (await _metrics(site))["virt_dra_report_streams"] == "0.0":
                break
        async with _stream(site, **BEARER) as stream:
            assert await _next(stream) == "event: changed\ndata: one"


async def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        site.show("one")
        async with _stream(site, **BEARER) as stream:
            await _next(stream)
            await site.server.stop()
            assert await stream.read() == b""


# --- what there is to show ---


async def test_before_the_first_page_it_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as site:
        status, headers, body = await site.get("/", **BEARER)
        assert (status, headers["Refresh"], body) == (
            503,
            "2",
            "The cluster is being read; the page comes by itself.\n",
        )
        site.rendering.stale = Stale(AT, "the process that renders the page has ended")
        assert (await site.get("/", **BEARER))[2] == (
            "There is no page yet: Not up to date since 2026-11-20 12:00:00 UTC: "
            "the process that renders the page has ended.\n"
        )
        async with site.client.get(f"{site.plain}/readyz") as probe:
            assert (probe.status, await probe.text()) == (503, "there is no page yet\n")


async def test_a_page_that_is_not_kept_up_to_date_says_since_when(site: Served) -> None:
    said = "Not up to date since 2026-11-20 12:00:00 UTC: the process &lt;ended&gt;."
    async with _stream(site, **BEARER) as stream:
        await _next(stream)
        site.rendering.stale = Stale(AT, "the process <ended>")
        site.server.changed()
        assert (
            await _next(stream)
            == "event: stale\ndata: Not up to date since 2026-11-20 12:00:00 UTC: the process <ended>."
        )
        status, headers, body = await site.get("/", Accept_Encoding="gzip", **BEARER)
        assert status == 200
        assert f'<p id="notice" class="bad" role="alert">{said}</p>' in body
        assert headers["ETag"] != 'W/"one"'
        assert headers["Virt-Dra-Stale-Since"] == "Fri, 20 Nov 2026 12:00:00 GMT"
        site.show("one")
        assert await _next(stream) == "event: current\ndata: up to date again"


# --- the plain port ---


async def _metrics(site: Served) -> dict[str, str]:
    async with site.client.get(f"{site.plain}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


async def test_probes_and_metrics_are_on_the_plain_port_and_nothing_else(site: Served) -> None:
    await site.get("/", **BEARER)
    await site.get("/", Authorization="Bearer eve")
    await site.cookie()
    metrics = await _metrics(site)
    assert {name: metrics[name] for name in _MEASURED} == _MEASURED
    for path, status in (("/healthz", 200), ("/readyz", 200), ("/", 404), ("/report.json", 404)):
        async with site.client.get(f"{site.plain}{path}", headers=BEARER) as answer:
            assert answer.status == status
    async with site.client.post(f"{site.plain}/metrics") as answer:
        assert answer.status == 405
    assert (await site.get("/metrics", **BEARER))[0] == 404


_MEASURED = {
    'virt_dra_report_answers_total{code="200"}': "1.0",
    'virt_dra_report_answers_total{code="401"}': "1.0",
    'virt_dra_report_answers_total{code="303"}': "1.0",
    'virt_dra_report_judgements_total{outcome="allowed"}': "1.0",
    'virt_dra_report_judgements_total{outcome="unknown"}': "1.0",
    "virt_dra_report_sessions": "1.0",
    "virt_dra_report_streams": "0.0",
    "virt_dra_report_stale": "0.0",
}
