"""A contract for import-linter: some modules may import only what a list names.

A list of what is forbidden says nothing about modules that are written later. Here a new module of ``packages`` is
inside the contract by itself, and so is a new module that it might import. ``.importlinter`` registers the type as
``allow_list``::

    packages = …            packages, or modules, that may import each other
    except_modules = …      those of them that the contract isn't about, and that the others may not import
    may_import = …          modules of this project and others, each with what is below it; all are imported
    ignore_imports = …      importer -> imported: single exceptions, one a line

The names are separated by blanks. The pure part of the standard library needs no mention: nothing in it does I/O, reads
a clock or is random.
"""

from __future__ import annotations

from collections.abc import Iterable

import grimp
from importlinter import Contract, ContractCheck, fields, output

PURE = frozenset((
    "__future__", "abc", "base64", "binascii", "bisect", "builtins", "codecs", "collections", "contextlib", "copy",
    "csv", "dataclasses", "datetime", "decimal", "difflib", "email", "enum", "errno", "fnmatch", "fractions",
    "functools", "graphlib", "hashlib", "heapq", "html", "io", "ipaddress", "itertools", "json", "math", "numbers",
    "operator", "posixpath", "re", "statistics", "string", "struct", "textwrap", "types", "typing", "unicodedata",
    "xml", "zlib", "zoneinfo",
))  # fmt: skip
"""Modules of the standard library that every module may import."""


class AllowListContract(Contract):
    """See the module."""

    type_name = "allow_list"

    packages = fields.ListField(subfield=fields.StringField())
    except_modules = fields.ListField(subfield=fields.StringField(), required=False)
    may_import = fields.ListField(subfield=fields.StringField(), required=False)
    ignore_imports = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: grimp.ImportGraph, verbose: bool) -> ContractCheck:
        packages, excepted, may_import = map(_words, (self.packages, self.except_modules, self.may_import))
        if missing := [name for name in (*packages, *excepted) if name not in graph.modules]:
            raise ValueError(f"{', '.join(missing)}: there is no such module")
        inside = {module for module in graph.modules if _below(module, packages) and not _below(module, excepted)}
        imports = {
            (importer, imported)
            for importer in inside
            for imported in graph.find_modules_directly_imported_by(importer) - inside
        }
        beyond = {module for _, module in imports}
        if unused := [name for name in may_import if not any(_below(module, (name,)) for module in beyond)]:
            raise ValueError(f"may_import: nothing imports {', '.join(unused)}")
        illegal = [
            (importer, imported)
            for importer, imported in sorted(imports)
            if not _below(imported, may_import) and imported.partition(".")[0] not in PURE
        ]
        lines = {
            f"{importer} -> {imported}": [
                detail["line_number"] for detail in graph.get_import_details(importer=importer, imported=imported)
            ]
            for importer, imported in illegal
        }
        ignored = _lines(self.ignore_imports)
        if unused := [entry for entry in ignored if entry not in lines]:
            raise ValueError(f"ignore_imports: nothing to ignore: {', '.join(unused)}")
        illegal_lines = {entry: numbers for entry, numbers in lines.items() if entry not in ignored}
        return ContractCheck(kept=not illegal_lines, metadata={"illegal": illegal_lines})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for entry, numbers in check.metadata["illegal"].items():
            places = ", ".join(f"l.{number}" for number in numbers)
            output.print_error(f"Not in the list: {entry} ({places})", bold=False)


def _lines(option: object) -> list[str]:
    """The lines of an option; the type checker sees the field that declares it."""
    assert option is None or isinstance(option, list)
    return option or []


def _words(option: object) -> list[str]:
    return " ".join(_lines(option)).split()


def _below(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
