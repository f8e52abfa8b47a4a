"""The built site as a browser sees it: every link and anchor leads somewhere, and nothing is loaded from another
place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lxml import html

_CSS_URL: Final = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
_ELSEWHERE: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_LINK_ELEMENTS: Final = {"a"}
"""What a reader follows; everything else with an address is loaded with the page."""


def problems(site: Path) -> list[str]:
    """Each fault of the site on a line: the file, and what is wrong."""
    pages = {page: html.parse(page) for page in sorted(site.rglob("*.html"))}
    anchors = {page: {*tree.xpath("//@id"), *tree.xpath("//a/@name")} for page, tree in pages.items()}
    faults = [
        f"{page.relative_to(site)}: {fault}"
        for page, tree in pages.items()
        for fault in _of_page(site, page, tree, anchors)
    ]
    for sheet in sorted(site.rglob("*.css")):
        faults += [f"{sheet.relative_to(site)}: {fault}" for fault in _loaded(sheet.read_text(encoding="utf-8"))]
    for image in sorted(site.rglob("*.svg")):
        faults += [f"{image.relative_to(site)}: {fault}" for fault in _of_image(image.read_text(encoding="utf-8"))]
    return faults


def _of_page(
    site: Path, page: Path, tree: html.etree._ElementTree[html.HtmlElement], anchors: dict[Path, set[str]]
) -> Iterator[str]:
    for element, attribute, address, _ in tree.getroot().iterlinks():
        parts = urlsplit(address)
        if parts.scheme in ("http", "https", "mailto") or address.startswith("//"):
            if element.tag not in _LINK_ELEMENTS:
                yield f"loads {address}"
            continue
        if parts.scheme == "data":
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.is_relative_to(site) or not target.is_file():
            yield f"{attribute or element.tag} {address} leads nowhere"
        elif parts.fragment and target in anchors and unquote(parts.fragment) not in anchors[target]:
            yield f"{address}: no such anchor"


def _loaded(style: str) -> Iterator[str]:
    for match in _CSS_URL.finditer(style):
        address = match[1] or match[2]
        if _ELSEWHERE.match(address):
            yield f"loads {address}"


def _of_image(text: str) -> Iterator[str]:
    for address in re.findall(r"""(?<!:)\b(?:href|src)\s*=\s*["']([^"']+)""", text):
        if _ELSEWHERE.match(address):
            yield f"loads {address}"
    if re.search(r"<script\b|<foreignObject\b", text, re.IGNORECASE):
        yield "has a script or foreign objects"
    yield from _loaded(text)
