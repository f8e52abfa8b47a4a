"""Lines of text that depend on conditions: variants of a text become one, with blocks of a Go template where they
differ. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Item: TypeAlias = "str | Choice"
"""A line, or lines of which a condition chooses."""


@dataclass(frozen=True)
class Choice:
    """``{{ if condition }}`` these lines ``{{ else }}`` those."""

    condition: str
    these: tuple[Item, ...]
    those: tuple[Item, ...]


def merged(
    conditions: Sequence[str], variant: Callable[[Mapping[str, bool]], Sequence[str]], given: Mapping[str, bool] = {}
) -> tuple[Item, ...]:
    """One text for all variants. ``conditions``: expressions of Go templates. ``variant``: the lines where these
    conditions are true or false; no lines where there is nothing."""
    if not conditions:
        return tuple(variant(given))
    condition, *more = conditions
    these, those = (merged(more, variant, {**given, condition: answer}) for answer in (True, False))
    if these == those:
        return these
    items: list[Item] = []
    for change, start, end, other_start, other_end in difflib.SequenceMatcher(
        None, these, those, autojunk=False
    ).get_opcodes():
        if change == "equal":
            items += these[start:end]
        else:
            items.append(Choice(condition, these[start:end], those[other_start:other_end]))
    return tuple(items)


def lines(items: Sequence[Item]) -> Iterator[str]:
    """The lines of the template."""
    for item in items:
        if isinstance(item, str):
            yield item
        elif not item.these:
            yield from _block(f"if not ({item.condition})", item.those)
        elif not item.those:
            yield from _block(f"if {item.condition}", item.these)
        else:
            yield f"{{{{- if {item.condition} }}}}"
            yield from lines(item.these)
            yield "{{- else }}"
            yield from lines(item.those)
            yield "{{- end }}"


def _block(head: str, items: Sequence[Item]) -> Iterator[str]:
    yield f"{{{{- {head} }}}}"
    yield from lines(items)
    yield "{{- end }}"
