"""JSON values as Go prints them: as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from virt_dra.cel.functions.printing import format_double

_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
"""What Go's encoder escapes besides JSON's own."""


def sprint(value: Any) -> str:
    """As text: ``map[a:1 b:[x y]]``, ``<nil>``."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_double(value)
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{sprint(member)}' for key, member in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(sprint, value))}]"
    return str(value)


def marshal(value: Any, *, indented: bool = False) -> str:
    """As JSON; indented as kubectl's jsonpath-as-json, by four blanks."""
    return "".join(_pieces(value, "\n" if indented else None))


def _pieces(value: Any, line: str | None) -> Iterator[str]:
    """``line``: how a line of this depth begins, None for all on one."""
    if isinstance(value, float):
        yield _json_number(value)
    elif isinstance(value, Mapping | list) and value:
        keyed = isinstance(value, Mapping)
        members = (
            [(f"{_json_text(key)}:{' ' if line else ''}", value[key]) for key in sorted(value)]
            if isinstance(value, Mapping)
            else [("", item) for item in value]
        )
        inner = f"{line}    " if line else None
        yield "{" if keyed else "["
        for number, (key, member) in enumerate(members):
            yield f"{',' if number else ''}{inner or ''}{key}"
            yield from _pieces(member, inner)
        yield f"{line or ''}{'}' if keyed else ']'}"
    else:
        yield _json_text(value)


def _json_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_HTML)


def _json_number(value: float) -> str:
    """Digits from 1e-6 up to 1e21, as JavaScript does it; else with an exponent."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        text = f"{value:f}" if value == int(value) else _digits(value)
        return text.removesuffix(".000000")
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"


def _digits(value: float) -> str:
    """The shortest digits that are this number, without an exponent."""
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    return f"{sign}0.{'0' * (-int(exponent) - 1)}{digits.replace('.', '')}"
