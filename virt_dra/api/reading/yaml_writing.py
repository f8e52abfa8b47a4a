"""JSON values -> YAML text that every Kubernetes tool reads back as the same values.

Quoted are all strings that some reader would take for something else: ``0000:01:00.0`` and dates (YAML 1.1 numbers and
times), ``yes``, ``n``, ``1e3``, ``0777``, ``<<``. Anchors are never written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

import yaml

from virt_dra.api.reading.yaml_scalars import ScalarError, plain_scalar

_LOOKS_NUMERIC = re.compile(r"[-+.0-9][-+.0-9a-fA-FoxX_:eETtZ ]*")


class _Dumper(yaml.CSafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """Quotes where a reader could take it for something else, literal style for lines, else the emitter's choice."""
    if "\n" in text:
        lines = text.split("\n")
        literal = not text[0].isspace() and all(line.isprintable() and line == line.rstrip() for line in lines)
        return "|" if literal else '"'
    if not text.isprintable():
        return '"'
    return "'" if _is_ambiguous(text) else None


def _escaped(char: str) -> str:
    if char == "\n" or char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _is_ambiguous(text: str) -> bool:
    if text in ("<<", "=") or _LOOKS_NUMERIC.fullmatch(text):
        return True
    try:
        return not isinstance(plain_scalar(text), str)
    except ScalarError:
        return True


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(StrEnum, lambda dumper, word: _represent_text(dumper, word.value))


def write_yaml(value: object) -> str:
    """One YAML document of a JSON value, keys in order. Raises ValueError for a string that is no Unicode text."""
    return write_documents((value,))


def write_documents(values: Iterable[object]) -> str:
    """Many YAML documents, separated by ``---``. Raises ValueError for a string that is no Unicode text."""
    text: str = yaml.dump_all(
        values,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=2**20,
        explicit_start=None,
    )
    # What is still unprintable stands in double quotes, by _style: there it can be an escape (a terminal obeys some of
    # it).
    return text if text.replace("\n", "").isprintable() else "".join(map(_escaped, text))
