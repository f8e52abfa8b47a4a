"""The page's live form: what it has besides the file, and the policy that allows it.

Its script swaps ``<main>`` for that of a new page when the server says that the content changed, and keeps what the
reader has chosen: the filter, what is opened, how far is scrolled. Markup comes from the server's page only, which the
browser parses without running anything.
"""

from __future__ import annotations

from typing import Final

from virt_dra.cli.report.page_forms import STYLE, PageForm
from virt_dra.cli.shared.filter_script import FILTER_SCRIPT
from virt_dra.report_server.content_policy import NO_FRAMES, content_policy

NOTICE: Final = '<p id="notice" class="bad" role="alert" hidden></p>'
"""The line that the server fills in where the page isn't kept up to date."""

_LIVE: Final = f""" <form id="leave" method="post" action="/logout"><button>Sign
out</button></form> <span id="state" role="status" data-version="$version"></span> {NOTICE}"""

_SCRIPT: Final = r"""
const state = document.getElementById("state"), notice = document.getElementById("notice");
let version = state.dataset.version, wanted = version, fetching = false, stream = null;
function say(text) { notice.textContent = text; notice.hidden = !text; }
function swap(page) {
  const fresh = page.querySelector("main"), old = document.querySelector("main");
  const opened = new Set([...old.querySelectorAll("details[open]")].map(each => each.dataset.text));
  const wide = [...old.querySelectorAll(".wide")].map(each => each.scrollLeft);
  const [x, y] = [scrollX, scrollY];
  for (const each of fresh.querySelectorAll("details")) each.open = opened.has(each.dataset.text);
  old.replaceWith(document.adoptNode(fresh));
  [...fresh.querySelectorAll(".wide")].forEach((each, number) => { each.scrollLeft = wide[number] || 0; });
  document.title = page.title;
  document.querySelector("h1").textContent = page.querySelector("h1").textContent;
  items = [...document.querySelectorAll("[data-text]")];
  apply();
  scrollTo(x, y);
}
async function renew() {
  if (fetching || document.hidden) return;
  fetching = true;
  try {
    while (version !== wanted) {
      const answer = await fetch("/", {headers: {Accept: "text/html"}, cache: "no-store"});
      if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const there = page.getElementById("state");
      if (there === null) { location.reload(); return; }
      if (there.dataset.version === version) break;
      swap(page);
      version = there.dataset.version;
    }
  } catch (problem) {
    setTimeout(renew, 5000);
  } finally {
    fetching = false;
  }
}
function listen() {
  stream = new EventSource("/events");
  stream.addEventListener("open", () => { state.textContent = "live"; });
  stream.addEventListener("changed", event => { wanted = event.data; renew(); });
  stream.addEventListener("stale", event => { say(event.data); });
  stream.addEventListener("current", () => { say(""); });
  stream.addEventListener("ended", () => { stream.close(); location.reload(); });
  stream.addEventListener("error", () => {
    state.textContent = "not connected";
    if (stream.readyState === EventSource.CLOSED) setTimeout(again, 5000);
  });
}
async function again() {
  try {
    const answer = await fetch("/", {method: "HEAD", cache: "no-store"});
    if (answer.status === 401 || answer.status === 403) { location.reload(); return; }
  } catch (problem) { /* not connected yet */ }
  listen();
}
document.addEventListener("visibilitychange", renew);
document.getElementById("leave").addEventListener("submit", () => stream.close());
listen();
"""

LIVE_SCRIPT: Final = FILTER_SCRIPT + _SCRIPT
LIVE: Final = PageForm(policy="", script=LIVE_SCRIPT, live=_LIVE)
LIVE_POLICY: Final = content_policy(STYLE, LIVE_SCRIPT, f"connect-src 'self'; {NO_FRAMES}")
"""The page's policy as a header: this script and no other, and only the server it came from is asked."""
