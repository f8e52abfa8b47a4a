"""The small pages around the report: the form to sign in, and why the report isn't shown. They load nothing and need no
script. Pure."""

from __future__ import annotations

from string import Template
from typing import Final

from virt_dra.html.frame import NO_FRAMES, asset, content_policy, text

_STYLE: Final = f"""{asset("design.css")}
main {{ margin: 3rem auto; max-width: 42rem; }}
main input {{ width: 100%; }}
"""

POLICY: Final = content_policy(_STYLE, more=NO_FRAMES)

_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<h1>$title</h1>
$body
</main>
</body>
</html>
""")

_FORM: Final = """<form method="post" action="/login">
<p><label for="token">Token of the cluster, for example of
<code>kubectl create token viewer --duration 1h</code></label></p>
<p><input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus></p>
<p><button>Sign in</button></p>
</form>
<p>The cluster's API server says whose it is, and whether they may list what the page shows. It is kept
in memory for as long as you are signed in, an hour at most.</p>"""

_LOGOUT: Final = '<form method="post" action="/logout"><p><button>Sign out</button></p></form>'


def sign_in_page(problem: str = "") -> str:
    """The form to sign in. ``problem``: why signing in is needed."""
    return _page("Sign in", (f'<p class="bad" role="alert">{text(problem)}</p>' if problem else "") + _FORM)


def problem_page(title: str, problem: str, *, signed_in: bool = False) -> str:
    """The page that says why a viewer gets no report."""
    way_out = _LOGOUT if signed_in else '<p><a href="/">Try again</a></p>'
    return _page(title, f'<p class="bad" role="alert">{text(problem)}</p>{way_out}')


def _page(title: str, body: str) -> str:
    return _PAGE.substitute(title=text(title), style=_STYLE, body=body)
