"""The order of rows that ``--sort-by`` asks for: of a field, or of a path in their documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from virt_dra.cli.documents.rows import row_document
from virt_dra.cli.templates.applying import JsonPath, NotApplicable
from virt_dra.cli.templates.go_printing import sprint
from virt_dra.cli.templates.parsing import BadTemplate, relaxed
from virt_dra.inventory.fields import BadFilter, InventoryRow, by_values, checked, in_order
from virt_dra.inventory.kinds import FIELDS, RowKind

Ordering: TypeAlias = Callable[[Sequence[InventoryRow]], list[InventoryRow]]


def ordering(by: str | None, kind: RowKind) -> Ordering:
    """The order that is asked for; None is the usual one. What has a dot or braces is a path, as kubectl's; ``-`` in
    front reverses. Rows without the field come last.

    Raises BadFilter for a field that rows of the kind don't have, and for what can't be a path.
    """
    if by is None:
        return list
    text = by.removeprefix("-")
    if "." not in text and "{" not in text:
        checked(text, FIELDS[kind])
        return lambda rows: in_order(rows, by, FIELDS[kind])
    try:
        path = JsonPath.parse(relaxed(text))
    except BadTemplate as error:
        raise BadFilter(str(error)) from None

    def by_path(rows: Sequence[InventoryRow]) -> list[InventoryRow]:
        valued = [(row, _values(path, row)) for row in rows]
        if rows and not any(values for _, values in valued):
            raise BadFilter(f"couldn't find any field with path {relaxed(text)} in the list of objects")
        return by_values(valued, descending=by.startswith("-"))

    return by_path


def _values(path: JsonPath, row: InventoryRow) -> list[str | int]:
    """The first value as a list of one, of one that is null or isn't there none."""
    try:
        results = [value for part in path.values(row_document(row)) for value in part][:1]
    except NotApplicable as error:
        raise BadFilter(str(error)) from None
    return [value if type(value) is int else sprint(value) for value in results if value is not None]
