"""The live page in a browser: signing in, a page that renews itself and keeps what its reader has chosen, the end of a
session."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.report_server.site import AT, Served, served
from tests.simulator.explaining.clusters import claim, classes, gpu, node, pod, user
from virt_dra.api.reading.scheme import read_object
from virt_dra.cli.report.settings import ReportSettings
from virt_dra.cli.report_server.render import LiveReport
from virt_dra.report_server.messages import Content
from virt_dra.report_server.rendering import Stale


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
