"""A page around its content: head, header with title and search, style, script and policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.wire import Json

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
$policy
<title>$title</title>
<style>$style</style>
</head>
<body>
<header>
<div class="title"><h1>$title</h1> <p id="source">$source</p></div>
$search$extra
</header>
<main>
$main</main>
<script>$script</script>
</body>
</html>
""")

NO_FRAMES: Final = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""What only a header can say, of pages that a server serves."""

_SEARCH: Final = Template("""<label class="search"><span>Search</span> <input id="search" type="search"
placeholder="$placeholder" autocomplete="off" spellcheck="false"></label> <span id="found" role="status"></span>
""")


@dataclass(frozen=True)
class PageForm:
    """Style and script of pages of one kind. ``policy``: the policy's element, "" where a header has it; ``extra``: a
    template, in the header."""

    style: str
    script: str
    policy: str
    extra: str = ""


def form(more_style: str, *scripts: str) -> PageForm:
    """The form of pages that are files. ``scripts``: paths of files of this package."""
    style, script = asset("design.css") + more_style, "".join(map(asset, scripts))
    policy = f'<meta http-equiv="Content-Security-Policy" content="{content_policy(style, script)}">'
    return PageForm(style, script, policy)


@cache
def asset(name: str) -> str:
    """The text of a style or script of this package. A style has no ``::``, which a GitHub workflow takes for a command
    where a page is printed: a changed text would have another hash than the policy's. A comment between means the
    same."""
    written = (files("virt_dra.html") / name).read_text(encoding="utf-8")
    return written.replace("::", ":/**/:") if name.endswith(".css") else written


def tokens() -> dict[str, tuple[str, str]]:
    """The colours of the design by name, light and dark."""
    colours = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\);", asset("design.css"))
    return {name: (light, dark) for name, light, dark in colours}


def framed(form: PageForm, main: str, title: str, source: str, search: str = "", version: str = "") -> str:
    """A whole page around its content. ``source``: what was read, and when; ``search``: what can be searched for, ""
    for a page without; ``version``: of the live page."""
    return _PAGE.substitute(
        title=text(title),
        source=text(source),
        search=_SEARCH.substitute(placeholder=text(search)) if search else "",
        extra=Template(form.extra).substitute(version=text(version)),
        policy=form.policy,
        style=form.style,
        script=form.script,
        main=main,
    )


def data_element(id: str, data: Json) -> str:
    """Data for the script. A browser runs nothing of it."""
    written = json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")
    return f'<script type="application/json" id="{id}">{written}</script>'


def text(said: str) -> str:
    """Text of any origin, as HTML."""
    return escape(visible(said))


def content_policy(style: str, script: str = "", more: str = "") -> str:
    """The Content-Security-Policy of pages that load nothing: their own styles and script by their hashes. ``style``
    and ``script``: the whole text of the page's element; a page without a script runs none. Attributes ``style`` and
    ``on…`` of elements have no effect, whoever wrote them."""
    sources = [f"default-src 'none'; style-src {_hash(style)}"]
    if script:
        sources.append(f"script-src {_hash(script)}")
    return "; ".join([*sources, *([more] if more else [])])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
