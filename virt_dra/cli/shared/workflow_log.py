"""Output that a GitHub workflow only shows: the runner reads commands (``::error::…``, ``##[group]``) in what a step
prints, and names, paths and messages are whatever somebody wrote.

All output of a command passes here while ``GITHUB_ACTIONS`` is set: what the runner would take for a command is
written with an escape in its middle, ``\\u003a:error::``, which in JSON means the same text as before. So are control
characters. Commands of our own are printed by :func:`print_commands`.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Final, TextIO

import click

_COMMAND: Final = (
    rb"(?<![0-9A-Fa-f])::(?=[A-Za-z])"  # an IPv6 address has none of these two forms
    rb"|::(?=[A-Za-z][A-Za-z-]*(?:::|[ ][A-Za-z]+=))"
    rb"|##(?=\[|vso\[|teamcity\[)"
)
_COLOUR: Final = rb"(?!\[[0-9;]{0,16}m)"
_CONTROL: Final = rb"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]|\x1b"
_PLAIN: Final = re.compile(rb"%b|%b" % (_COMMAND, _CONTROL))
_COLOURED: Final = re.compile(rb"%b|%b%b" % (_COMMAND, _CONTROL, _COLOUR))


def neutral(text: bytes, *, coloured: bool = False) -> bytes:
    """The text without anything that the runner takes for a command, and without control characters. ``coloured``:
    colours of our own may be in it.

    >>> neutral(b'{"name": "::error::x"} fe80::1')
    b'{"name": "\\\\u003a:error::x"} fe80::1'
    """
    return (_COLOURED if coloured else _PLAIN).sub(_escaped, text)


def _escaped(match: re.Match[bytes]) -> bytes:
    text = match[0].decode()
    return f"\\u{ord(text[0]):04x}{text[1:]}".encode()


def in_workflow() -> bool:
    return bool(os.environ.get("GITHUB_ACTIONS"))


class _WorkflowOutput(io.BufferedIOBase):
    """A binary stream in front of another one; what is written is held until its line is complete, or flushed."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self._held = b""
        self._coloured = "FORCE_COLOR" in os.environ

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.out.fileno()

    def isatty(self) -> bool:
        return self.out.isatty()

    def write(self, text: Any, /) -> int:
        """``text``: any buffer, as binary streams take."""
        complete, newline, rest = bytes(text).rpartition(b"\n")
        if newline:
            self._send(self._held + complete + newline)
            self._held = b""
        self._held += rest
        return len(text)

    def flush(self) -> None:
        held, self._held = self._held, b""
        self._send(held)
        self.out.flush()

    def close(self) -> None:
        """Leaves the other stream open, whose owner closes it."""

    def _send(self, text: bytes) -> None:
        self.out.write(neutral(text, coloured=self._coloured))


@contextmanager
def workflow_output() -> Iterator[None]:
    """A context in which standard output and error can't give the runner commands, in a workflow."""
    if not in_workflow():
        yield
        return
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_wrapped, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _wrapped(stream: TextIO) -> TextIO:
    stream.flush()
    out: Any = _WorkflowOutput(stream.buffer)  # typeshed wants a name and a mode, which only files have
    lines = stream is sys.stderr
    return io.TextIOWrapper(out, stream.encoding, stream.errors, newline="\n", line_buffering=lines)


def print_commands(lines: Iterable[str]) -> None:
    """Prints commands to the runner; each line must be one, with what others wrote in its data only, as :func:`neutral`
    makes it."""
    text = "".join(f"{line}\n" for line in lines).encode()
    sys.stdout.flush()
    out = sys.stdout.buffer
    (out.out if isinstance(out, _WorkflowOutput) else out).write(text)


def print_exactly(text: bytes) -> None:
    """Prints a text of the user's as it is. Raises UsageError where it would give the runner commands."""
    if in_workflow() and neutral(text) != text:
        raise click.UsageError(
            "the text has what a GitHub workflow takes for a command, or control characters; give files by name, "
            "which are changed in place"
        )
    click.echo(text, nl=False)
