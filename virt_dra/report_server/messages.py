"""What the rendering process sends. Pure. An attacker who controls that process can show wrong pages, and can't do
more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from virt_dra.sandbox.messages import Messages

MOST_BYTES: Final = 256 * 2**20
"""Of a page and its document, each also compressed."""
_Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z]{1,64}$")]
_Seconds = Annotated[float, Field(ge=0, le=1e6)]


@dataclass(frozen=True)
class Alive:
    """A sign of life. ``stale_since``: since when the process has lost the cluster; None while it follows it."""

    stale_since: AwareDatetime | None


@dataclass(frozen=True)
class Begun:
    """A rendering begins."""


@dataclass(frozen=True)
class Unchanged:
    """The cluster renders as before. ``at``: when its objects were read; ``seconds``: what rendering took."""

    at: AwareDatetime
    seconds: _Seconds


@dataclass(frozen=True)
class Content:
    """What is served: a page and a document, each with its gzip form. ``version``: another one for another content;
    ``at``: when it last changed; ``seconds``: what rendering took."""

    version: _Version
    at: AwareDatetime
    seconds: _Seconds = 0.0
    page: bytes = b""
    document: bytes = b""
    page_gzip: bytes = b""
    document_gzip: bytes = b""


RenderingMessage = Alive | Begun | Unchanged | Content
RENDERING_MESSAGES: Final = Messages[RenderingMessage]({Alive: 256, Begun: 64, Unchanged: 256, Content: MOST_BYTES})
NO_REQUESTS: Final = Messages[None]({})
"""The process is asked nothing: it follows the cluster by itself."""
