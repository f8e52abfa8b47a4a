"""What the page as a file and the live page have in common and apart: script and policy. Light to import: the serving process reads it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

SCRIPT: Final = r"""
const filter = document.getElementById("filter"), count = document.getElementById("count");
let items = [...document.querySelectorAll("[data-text]")];
function apply() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const item of items) {
    item.hidden = !words.every(word => item.dataset.text.includes(word));
    shown += item.hidden ? 0 : 1;
  }
  count.textContent = words.length ? shown + " of " + items.length + " match" : "";
}
filter.addEventListener("input", apply);
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== filter) { event.preventDefault(); filter.focus(); }
  if (event.key === "Escape") { filter.value = ""; apply(); }
});
"""
"""The filter. The live page's script goes on from its names: ``filter``, ``items``, ``apply``."""


@dataclass(frozen=True)
class PageForm:
    """What the page as a file and the live page have apart. ``policy``: the policy's element; ``live``: a template, in the header."""

    policy: str
    script: str
    live: str = ""


FILE: Final = PageForm(
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">\n""",
    SCRIPT,
)


def script_source(script: str) -> str:
    """The source in a policy's ``script-src`` that allows this inline script alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
