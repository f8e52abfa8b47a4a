"""What a reason means and what helps, of its page in docs/reasons, as HTML."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from virt_dra.cli.explain.pages import page
from virt_dra.html.frame import text

_SECTIONS: Final = ("What", "What helps")
_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@cache
def reason_note(code: str) -> str:
    """The page's first sentence and those sections of it that are prose; "" if there is no page."""
    written = page(code) if code else None
    if written is None:
        return ""
    first, *sections = written.split("\n## ")
    prose = [first.partition("\n")[2]]
    prose += [body for title, _, body in (section.partition("\n") for section in sections) if title in _SECTIONS]
    paragraphs = [part for body in prose for part in body.strip().split("\n\n") if part and not part.startswith("```")]
    return "".join(f"<p>{_inline(part)}</p>" for part in paragraphs)


def _inline(markdown: str) -> str:
    said = text(_LINK.sub(r"\1", " ".join(markdown.split())))
    return _CODE.sub(r"<code>\1</code>", said)
