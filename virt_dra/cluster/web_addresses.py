"""Paths that are addresses of files on the web."""

from __future__ import annotations


class NotFetchedError(Exception):
    """Why an address gave no file, as a sentence without the address."""


def is_address(path: str) -> bool:
    """Whether a path is an address of a file on the web, and not a name of a file."""
    return path.startswith(("http://", "https://"))


def without_password(address: str) -> str:
    """The address for messages."""
    scheme, separator, rest = address.partition("://")
    server, slash, path = rest.partition("/")
    return scheme + separator + server.rpartition("@")[2] + slash + path
