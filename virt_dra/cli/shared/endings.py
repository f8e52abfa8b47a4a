"""Exits of a command that is interrupted, whose reader has gone, or whose output can't be written."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Final, NoReturn

import click

from virt_dra.cli.shared.console import say, visible_lines

INTERRUPTED: Final = 130
"""The exit code that shells report for SIGINT."""
READER_GONE: Final = 141
"""The exit code that shells report for SIGPIPE."""
NOT_WRITTEN: Final = 2
"""The result could not be written. 0 and 1 would be verdicts."""

NO_ROOM: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Errors of writing to a full disk or over a quota."""
_NO_OUTPUT: Final = NO_ROOM | frozenset((errno.EIO, errno.EBADF, errno.ENXIO))
"""Errors of writing to an open file that don't depend on the content."""


@contextmanager
def orderly() -> Iterator[None]:
    """A context for a command: errors end the process with one line, or none if its output is closed, instead of a
    traceback.

    Output is flushed here, because a failure at the interpreter's exit can't be caught.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        _end(INTERRUPTED, "interrupted")
    except click.Abort as abort:  # at a prompt, by an interrupt or the answer no
        if isinstance(abort.__context__, KeyboardInterrupt):
            _end(INTERRUPTED, "interrupted")
        raise
    except click.ClickException as error:  # click prints it; quoted text may be untrusted
        vars(error).update(message=visible_lines(error.message))
        raise
    except BrokenPipeError:
        _end(READER_GONE, "")
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_OUTPUT:
            raise
        _end(NOT_WRITTEN, f"cannot write the output: {error.strerror}")


@contextmanager
def interruptible() -> Iterator[None]:
    """A context in which an interrupt ends the program at once, even while a task computes without yielding to the
    event loop.

    asyncio only cancels the task, which takes effect at its next ``await``; a computation of seconds would go on.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)  # asyncio replaces Python's default handler only
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def open_closed_files() -> None:
    """Gives a process that was started without standard input, output or error an empty one, which also keeps their
    numbers taken."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process lives


def take_every_character() -> None:
    """Has output be UTF-8 whatever the locale is, as kubectl writes it; a terminal of another encoding shows ? for what
    that lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8")


def _end(code: int, line: str) -> None:
    """Exits; standard output goes to the null device, so that the interpreter's own flush can't fail."""
    with suppress(OSError, ValueError):  # no file, or a closed one
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if line:
        with suppress(OSError):
            say(f"error: {line}", err=True)
    sys.exit(code)
