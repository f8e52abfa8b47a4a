"""What the page as a file and the live page have in common and apart: script and policy. Light to import: the serving
process reads it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Final

from virt_dra.cli.shared.filter_script import FILTER_SCRIPT


@dataclass(frozen=True)
class PageForm:
    """What the page as a file and the live page have apart. ``policy``: the policy's element; ``live``: a template, in
    the header."""

    policy: str
    script: str
    live: str = ""


FILE: Final = PageForm(
    '<meta http-equiv="Content-Security-Policy" content="'
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n",
    FILTER_SCRIPT,
)


def script_source(script: str) -> str:
    """The source in a policy's ``script-src`` that allows this inline script alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
