"""The values of ``-o`` of ``virt-dra get``: names of formats, and templates of kubectl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.templates.applying import JsonPath
from virt_dra.cli.templates.custom_columns import CustomColumns
from virt_dra.cli.templates.parsing import BadTemplate

FORMATS: Final = ("text", "wide", "name", "json", "yaml", "csv")
RowFormat: TypeAlias = str | JsonPath | CustomColumns
"""One of FORMATS, or a template."""


def _of_file(parse: Callable[[str], RowFormat]) -> Callable[[str], RowFormat]:
    """The reader of a template in a file. Raises BadTemplate and OSError."""

    def read(path: str) -> RowFormat:
        try:
            return parse(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise BadTemplate(f"{path} isn't UTF-8") from None

    return read


_TEMPLATES: Final[Mapping[str, Callable[[str], RowFormat]]] = {
    "jsonpath": JsonPath.parse,
    "jsonpath-as-json": lambda text: JsonPath.parse(text, as_json=True),
    "jsonpath-file": _of_file(JsonPath.parse),
    "custom-columns": CustomColumns.parse,
    "custom-columns-file": _of_file(CustomColumns.parse_file),
}


class RowFormatType(click.Choice[str]):
    """One of FORMATS or ``NAME=TEMPLATE``."""

    def __init__(self) -> None:
        super().__init__((*FORMATS, *(f"{name}=..." for name in _TEMPLATES)))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in FORMATS:
            return value
        name, _, text = value.partition("=")
        if name not in _TEMPLATES:
            return super().convert(value if value not in self.choices else "", param, ctx)
        if not text:
            self.fail(f"{name}: template format specified but no template given", param, ctx)
        try:
            return _TEMPLATES[name](text)
        except BadTemplate as error:
            self.fail(f"error parsing {name} {text}, {error}", param, ctx)
        except OSError as error:
            self.fail(f"{text}: {error.strerror or error}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(choice.removesuffix("...")) for choice in self.choices if choice.startswith(incomplete)]


row_format_option = shared(
    "--output", detail="Templates are kubectl's, of the documents of -o json.", type=RowFormatType(), default=FORMATS[0]
)
