"""What ``virt-dra lint`` and ``virt-dra run`` share: the options for severities, and the report on input that can't be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from virt_dra.api.reading.documents import Document, ReadProblem, Sourced, read_document
from webhooks.lint import BY_ID

F = TypeVar("F", bound=Callable[..., Any])

EVERY = "all"


def _parse_ids(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    ids = frozenset(id for value in values for part in value.split(",") if (id := part.strip()))
    unknown = sorted(ids - BY_ID.keys() - {EVERY})
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r}: there is no such finding; --list shows them, and {EVERY} means every one")
    return frozenset(BY_ID) if EVERY in ids else ids


def severity_options(command: F) -> F:
    """``--ignore``, ``--deny`` and ``--warn``, each a set of ids."""
    for name, text in (
        ("--warn", "Findings to report as warnings, unless --deny names them."),
        ("--deny", "Findings to report as denials; all stands for every finding."),
        ("--ignore", "Findings to leave out; wins over --deny and --warn."),
    ):
        command = click.option(name, metavar="ID,...", multiple=True, callback=_parse_ids, help=text)(command)
    return command


def unreadable(documents: Iterable[Document]) -> tuple[ReadProblem, ...]:
    """Why objects can't be read, each fault with its place."""
    read = (read_document(document) for document in documents)
    return tuple(problem for each in read if not isinstance(each, Sourced) for problem in each)
