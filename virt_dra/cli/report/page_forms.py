"""Style, script and policy of the page as a file and of the live page.

Light to import: the serving process reads it.
"""

from __future__ import annotations

from typing import Final

from virt_dra.cli.topology.colours import STATE_STYLE
from virt_dra.html.frame import NO_FRAMES, PageForm, asset, content_policy, form

_SCRIPTS: Final = ("page.js", "map.js")

FILE: Final = form(STATE_STYLE, *_SCRIPTS)

NOTICE: Final = '<p id="notice" class="bad" role="alert" hidden></p>'
"""The line that the server fills in where the page isn't kept up to date."""
_EXTRA: Final = f"""<span id="state" role="status" data-version="$version"></span> <form id="leave" method="post"
action="/logout"><button>Sign out</button></form> {NOTICE}"""

LIVE: Final = PageForm(FILE.style, FILE.script + asset("live.js"), policy="", extra=_EXTRA)
LIVE_POLICY: Final = content_policy(LIVE.style, LIVE.script, f"connect-src 'self'; {NO_FRAMES}")
"""The live page's policy, a header: this script and no other, and only the server it came from is asked."""
