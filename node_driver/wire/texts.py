"""Messages for people, as the wire can carry them."""

from __future__ import annotations

from typing import Final

from virt_dra.api.go_text import visible

MESSAGE_MAX: Final = 1024
"""Bytes of a health message and of an Event's note; the kubelet cuts what is longer, also within a character."""


def wire_text(text: str) -> str:
    """The text on one line, its unprintable characters and lone surrogates as escapes; "..." where it was too long.

    >>> len(wire_text("é" * 600).encode())
    1023
    """
    encoded = visible(text[: MESSAGE_MAX + 1]).encode()
    if len(encoded) <= MESSAGE_MAX:
        return encoded.decode()
    return encoded[: MESSAGE_MAX - 3].decode(errors="ignore") + "..."
