"""The Content-Security-Policy of pages that load nothing: their own styles and script by their hashes, nothing else."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

NO_FRAMES: Final = "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
"""What only a header can say, of pages that a server serves."""


def content_policy(style: str, script: str = "", more: str = "") -> str:
    """``style`` and ``script``: the whole text of the page's element; a page without a script runs none. Attributes
    ``style`` and ``on…`` of elements have no effect, whoever wrote them."""
    sources = [f"default-src 'none'; style-src {_hash(style)}"]
    if script:
        sources.append(f"script-src {_hash(script)}")
    return "; ".join([*sources, *([more] if more else [])])


def policy_element(style: str, script: str = "") -> str:
    """The policy of a page that is a file."""
    return f'<meta http-equiv="Content-Security-Policy" content="{content_policy(style, script)}">'


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
