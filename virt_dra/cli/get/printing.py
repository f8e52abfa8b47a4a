"""Rows, and changes of rows, in each format of ``virt-dra get``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from virt_dra.cli.documents.heads import output_list
from virt_dra.cli.documents.rows import ROW_LIST, change_document, qualified_name, row_document
from virt_dra.cli.get.columns import RowColumn, columns_of, template_columns
from virt_dra.cli.get.formats import RowFormat
from virt_dra.cli.get.tables import RowTable, csv_lines
from virt_dra.cli.shared.console import say, visible_lines
from virt_dra.cli.shared.output import document_text, json_text, print_document
from virt_dra.cli.templates.applying import JsonPath
from virt_dra.cli.templates.custom_columns import CustomColumns
from virt_dra.inventory.changes import RowChange
from virt_dra.inventory.fields import InventoryRow
from virt_dra.inventory.kinds import RowKind


def print_rows(
    tables: Sequence[tuple[RowKind, Sequence[InventoryRow]]], output: RowFormat, *, alone: bool, headers: bool
) -> None:
    """Prints the rows of each kind. ``alone``: one name is asked for, whose document is no list if it is one row's.

    Raises NotApplicable for a template.
    """
    rows = [row for _, listed in tables for row in listed]
    if output in ("json", "yaml") or isinstance(output, JsonPath):
        documents = [row_document(row) for row in rows]
        document = documents[0] if alone and len(documents) == 1 else output_list(ROW_LIST, documents)
        if isinstance(output, JsonPath):
            _print_template(output, document)
        else:
            print_document(document, output)
    elif output == "csv":
        ((kind, listed),) = tables
        click.echo(csv_lines(columns_of(kind, wide=True), listed, titles=headers), nl=False)
    elif output == "name":
        for row in rows:
            say(qualified_name(row))
    elif not rows:
        say(f"no {' or '.join(kind for kind, _ in tables)} found", err=True)
    else:
        now = datetime.now(UTC)
        parts = (
            [(template_columns(output), rows)]
            if isinstance(output, CustomColumns)
            else [(columns_of(kind, wide=output == "wide"), listed) for kind, listed in tables if listed]
        )
        texts = ["\n".join(RowTable(columns, headers=headers).lines(listed, now)) for columns, listed in parts]
        click.echo("\n\n".join(texts))


def _print_template(template: JsonPath, document: object) -> None:
    """As kubectl, without a newline behind it."""
    click.echo(visible_lines(template.text(document)), nl=False)


class ChangePrinter:
    """Prints changes. CSV, names and JSONPath leave out deleted rows."""

    def __init__(self, kind: RowKind, output: RowFormat, *, headers: bool = True) -> None:
        self._output = output
        self._columns: Sequence[RowColumn] = (
            template_columns(output)
            if isinstance(output, CustomColumns)
            else columns_of(kind, wide=output in ("wide", "csv"))
        )
        self._table = RowTable(self._columns, headers=headers)
        if output == "csv" and headers:
            click.echo(csv_lines(self._columns, ()), nl=False)

    def __call__(self, changes: list[RowChange]) -> None:
        """Raises NotApplicable for a template."""
        now = datetime.now(UTC)
        for change in changes:
            deleted = change.type == "DELETED"
            if self._output == "json":
                click.echo(json_text(change_document(change)))
            elif self._output == "yaml":
                click.echo(f"---\n{document_text(change_document(change), 'yaml')}", nl=False)
            elif self._output in ("text", "wide") or isinstance(self._output, CustomColumns):
                click.echo("\n".join(self._table.lines([change.row], now, "(deleted)" if deleted else "")))
            elif not deleted:
                self._print_row(change.row)
        sys.stdout.flush()

    def _print_row(self, row: InventoryRow) -> None:
        if isinstance(self._output, JsonPath):
            _print_template(self._output, row_document(row))
        elif self._output == "name":
            say(qualified_name(row))
        else:
            click.echo(csv_lines(self._columns, [row], titles=False), nl=False)
