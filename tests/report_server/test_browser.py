"""The live page in a browser: signing in, a page that renews itself and keeps what its reader has chosen, the end of a
session."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.report_server.site import AT, Served, served
from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.api.reading.scheme import read_object
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.cli.report_server.render import LiveReport
from virt_dra.report_server.messages import Content
from virt_dra.report_server.rendering import Stale

Json = dict[str, Any]
_SECONDS = 60


class Tab:
    """A page of the browser, by its DevTools protocol. ``errors``: what its console has shown."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Json:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            said: Json = await self._socket.receive_json(timeout=_SECONDS)
            if said.get("id") == number:
                assert "error" not in said, said
                result: Json = said["result"]
                return result
            if said["method"] == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(said["params"]["exceptionDetails"])[:500])
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.errors.append(said["params"]["entry"]["text"])

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Waits for an expression to be true, through navigations."""
        async with asyncio.timeout(_SECONDS):
            while True:
                with suppress(AssertionError):
                    if await self.value(expression):
                        return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium: apt install chromium")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--window-size=900,500")
    port = folder / "DevToolsActivePort"
    process = await asyncio.create_subprocess_exec(
        browser, *options, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS):
            while not (port.exists() and port.read_text().count("\n")):
                await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{address}/json/list") as answer:
                (page,) = [target for target in await answer.json() if target["type"] == "page"]
            async with client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                yield tab
    finally:
        process.kill()
        await process.wait()


def _content(waiting: tuple[str, ...], model: str = "H100") -> Content:
    late = [part for name in waiting for part in (claim(f"{name}-gpu"), pod(name, [f"{name}-gpu"]))]
    nodes = [
        part
        for number in range(12)
        for part in node(f"n{number}", [gpu("g0", model if number else f"{model}-{number}")])
    ]
    held = [part for number in range(12) for part in user(f"u{number}", f"n{number}", "g0")]
    objects = [read_object(obj) for obj in [*classes(), *nodes, *held, *late]]
    rendered = LiveReport(ReportSettings())(objects, AT, explain=True)
    page, document = rendered.page, rendered.document
    return Content(rendered.version, AT, 0.0, page, document, gzip.compress(page), gzip.compress(document))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    (tmp_path / "tls").mkdir()
    async with served(tmp_path / "tls") as made:
        yield made


def _show(site: Served, content: Content | None, stale: Stale | None = None) -> None:
    site.rendering.content, site.rendering.stale = content, stale
    site.server.changed()


@pytest.mark.slow
async def test_the_page_renews_itself_and_keeps_what_its_reader_has_chosen(site: Served, tmp_path: Path) -> None:
    _show(site, _content(("late-one",)))
    async with chromium(tmp_path / "profile") as tab:
        await tab.call("Page.navigate", url=f"{site.url}/")
        await tab.until("document.title === 'Sign in'")
        await tab.value(
            "document.getElementById('token').value = 'ann'; document.querySelector('form').requestSubmit()"
        )
        await tab.until("document.getElementById('state')?.textContent === 'live'")
        tab.errors.clear()  # 401 of the first request is shown as one
        assert await tab.value("document.cookie") == ""  # not for scripts
        await tab.value(
            "document.querySelector('details.wait summary').click(); search.value = 'late'; "
            "search.dispatchEvent(new Event('input'));"
            "document.body.style.minHeight = '3000px'; scrollTo(0, 120)"
        )
        assert await tab.value("found.textContent") == "1 of 5 match, 0 nodes"
        await tab.value("window.same = true")

        _show(site, _content(("late-one", "late-two")))
        await tab.until("document.querySelectorAll('details.wait').length === 2")
        assert await tab.value("window.same") is True  # nothing was loaded anew
        assert await tab.value(
            "[search.value, found.textContent, scrollY, "
            "...[...document.querySelectorAll('details.wait[open]')].map(wait => wait.id)]"
        ) == ["late", "2 of 6 match, 0 nodes", 120, "waits/pod/team-a/late-one"]
        assert (
            await tab.value("[...document.querySelectorAll('h1')].length + document.querySelectorAll('main').length")
            == 2
        )

        _show(site, site.rendering.content, Stale(AT, "the process that <i>renders</i> has ended"))
        await tab.until("!notice.hidden")
        assert await tab.value("notice.textContent") == (
            "Not up to date since 2026-11-20 12:00:00 UTC: the process that <i>renders</i> has ended."
        )
        _show(site, _content((), "L40S"))
        await tab.until("notice.hidden && document.querySelectorAll('details.wait').length === 0")
        assert tab.errors == []

        site.reviews.users.clear()
        site.clock.now = 60.0
        site.server.changed()
        await tab.until("document.title === 'Sign in'")
        assert "L40S" not in await tab.value("document.documentElement.innerHTML")


@pytest.mark.slow
async def test_what_tenants_write_does_not_run_and_not_after_a_renewal_either(site: Served, tmp_path: Path) -> None:
    hostile = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    _show(site, _content((), hostile))
    async with chromium(tmp_path / "profile") as tab:
        await tab.call("Page.navigate", url=f"{site.url}/")
        await tab.until("document.title === 'Sign in'")
        await tab.value(
            "document.getElementById('token').value = 'ann'; document.querySelector('form').requestSubmit()"
        )
        await tab.until("document.getElementById('state')?.textContent === 'live'")
        _show(site, _content(("late",), hostile))
        await tab.until("document.querySelectorAll('details.wait').length === 1")
        assert await tab.value("[document.title.endsWith('in use'), document.images.length]") == [True, 0]
        assert "onerror" in await tab.value("document.querySelector('#map').textContent")
        # Were there markup after all, the policy keeps it from running, and from sending anything anywhere.
        await tab.value("document.querySelector('main').innerHTML = '<p onclick=\"document.title=`taken`\">x</p>'")
        await tab.value("document.querySelector('main p').click()")
        assert await tab.value("document.title.endsWith('in use')") is True
        sent = "fetch('https://127.0.0.1:1/').then(() => 'sent', () => 'refused')"
        answer = await tab.call("Runtime.evaluate", expression=sent, awaitPromise=True, returnByValue=True)
        assert answer["result"]["value"] == "refused"
        assert any("Content Security Policy" in error for error in tab.errors)


@pytest.mark.slow
async def test_signing_out_in_the_browser(site: Served, tmp_path: Path) -> None:
    _show(site, _content(()))
    async with chromium(tmp_path / "profile") as tab:
        await tab.call("Page.navigate", url=f"{site.url}/")
        await tab.until("document.title === 'Sign in'")
        await tab.value(
            "document.getElementById('token').value = 'eve'; document.querySelector('form').requestSubmit()"
        )
        await tab.until("document.querySelector('[role=alert]')?.textContent.includes('know this token')")
        await tab.value(
            "document.getElementById('token').value = 'ann'; document.querySelector('form').requestSubmit()"
        )
        await tab.until("document.getElementById('state')?.textContent === 'live'")
        await tab.value("document.getElementById('leave').requestSubmit()")
        await tab.until("location.pathname === '/login'")
        await tab.call("Page.navigate", url=f"{site.url}/")
        await tab.until("document.title === 'Sign in'")
