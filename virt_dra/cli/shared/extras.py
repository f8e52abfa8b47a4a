"""Optional libraries, which the extras of the package install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def required(advice: str, *libraries: str, error: type[click.ClickException] = click.ClickException) -> Iterator[None]:
    """A context for imports: if one of these libraries is missing, the command ends with the advice."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in libraries:
            raise
        raise error(advice) from None
