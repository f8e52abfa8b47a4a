"""What browsers do with the Content-Security-Policy of a page, as far as inline styles and scripts go (CSP level 3,
"Does element match source list for type and source?")."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any


@dataclass
class _Inline(HTMLParser):
    """The texts of inline elements, and attributes with styles or handlers."""

    texts: dict[str, list[str]] = field(default_factory=lambda: {"style": [], "script": []})
    attributes: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    _within: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given: dict[str, Any] = dict(attrs)
        if tag in self.texts and given.get("type") != "application/json":  # data, of which nothing runs
            self._within = tag
            self.texts[tag].append("")
        self.attributes += [f"{tag} {name}" for name in given if name == "style" or name.startswith("on")]
        self.loaded += [f"{tag} {given[name][:40]}" for name in ("src", "srcset", "data") if name in given]
        if tag == "link" or (tag in ("image", "use") and not str(given.get("href", "#")).startswith("#")):
            self.loaded.append(tag)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(given["content"])

    def handle_endtag(self, tag: str) -> None:
        self._within = "" if tag == self._within else self._within

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts[self._within][-1] += data


def refused_by_policy(page: str, policy: str | None = None) -> list[str]:
    """What of a page its policy keeps a browser from applying, running or loading. ``policy``: the header's; None: the
    page has it as an element, before everything that it is about."""
    inline = _Inline()
    inline.feed(page)
    if policy is None:
        (policy,) = inline.policies
        assert page.index("http-equiv") < min(page.index(f"<{tag}") for tag in ("style", "body"))
    directives = {name: sources for name, *sources in (part.split() for part in policy.split(";"))}
    assert directives["default-src"] == ["'none'"]
    assert "unsafe" not in policy
    refused = [f"attribute {attribute}" for attribute in inline.attributes]
    for tag, texts in inline.texts.items():
        allowed = directives.get(f"{tag}-src", [])
        refused += [f"{tag} {text[:60]}" for text in texts if _source(text) not in allowed]
        assert len(allowed) == len(texts), f"a {tag} is allowed that the page doesn't have"
    images = "data:" in directives.get("img-src", [])
    return refused + [load for load in inline.loaded if not (images and load.startswith("img data:image/svg+xml"))]


def allowing(page: str, script: str) -> str:
    """The page with one more script at its end, which its policy allows: what a test runs in a browser."""
    assert "script-src " in page
    with_source = re.sub(r"script-src ", f"script-src {html.escape(_source(script), quote=False)} ", page, count=1)
    return with_source.replace("</body>", f"<script>{script}</script></body>")


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_data(page: str, id: str = "data") -> dict[str, Any]:
    """The data of a page's script."""
    (written,) = re.findall(rf'<script type="application/json" id="{id}">(.*?)</script>', page)
    data: dict[str, Any] = json.loads(written)
    return data
