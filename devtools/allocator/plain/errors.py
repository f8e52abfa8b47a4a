"""How the plain allocator ends without an answer."""

from __future__ import annotations


class Fatal(Exception):
    """No node can be decided (A-1.3 d)."""


class NodeOnly(Exception):
    """This node can't (A-1.3 c)."""


class TooLong(Exception):
    """Too many steps for a search that leaves nothing out."""


NULL = "panic: runtime error: invalid memory address or nil pointer dereference"
"""What AC-12 and AC-23 do to the reference."""
