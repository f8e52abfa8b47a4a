"""Severity options of the lint, and its errors about unreadable input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import click

from virt_dra.api.reading.documents import Document, ReadProblem, Sourced, read_document
from virt_dra.cli.documents.heads import ProblemJson
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.suggestions import suggesting
from webhooks.lint import BY_ID, LintSettings

R = TypeVar("R")

EVERY = "all"


def _parse_ids(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> frozenset[str]:
    ids = frozenset(id for value in values for part in value.split(",") if (id := part.strip()))
    unknown = sorted(ids - BY_ID.keys() - {EVERY})
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is no finding; virt-dra lint --list shows them, and {EVERY} stands for every one"
        )
    return ids | {id for id, check in BY_ID.items() if not check.opt_in} if EVERY in ids else ids


def severity_options(settings: Callable[..., LintSettings]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """``--ignore``, ``--deny`` and ``--warn``, sets of ids; the command gets ``lint``, made of them by ``settings``."""
    ids = partial(shared, callback=_parse_ids, shell_complete=suggesting((*BY_ID, EVERY)))
    return gathered("lint", settings, ids("--ignore"), ids("--deny"), ids("--warn"))


def unreadable(documents: Iterable[Document]) -> tuple[ReadProblem, ...]:
    """Every reason why an object can't be read, each with its place."""
    read = (read_document(document) for document in documents)
    return tuple(problem for document in read if not isinstance(document, Sourced) for problem in document)


def problems_json(problems: Sequence[ReadProblem]) -> list[ProblemJson | str]:
    return [{"source": str(problem.source), "message": problem.message} for problem in problems]
