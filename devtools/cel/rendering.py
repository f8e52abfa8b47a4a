"""Values as text, in the form in which the Go witness (devtools/upstream/cel) writes them."""

from __future__ import annotations

import json
import math
import struct

from virt_dra.cel.functions.formats import NamedFormat
from virt_dra.cel.functions.network import CIDR, IP
from virt_dra.cel.functions.times import format_timestamp
from virt_dra.cel.values import Duration, Optional, Timestamp, TypeValue, UInt, Value, key_value, type_name


def render(value: Value) -> str:
    """The text of a value: unambiguous about its type, maps in the order of their rendered entries."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{int(value)}u" if isinstance(value, UInt) else str(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"bytes({value.hex()})"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{render(key_value(key))}: {render(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render, value)) + "]"
    return _opaque(value)


def _double(value: float) -> str:
    if math.isnan(value):
        return "double(NaN)"
    if math.isinf(value):
        return "double(+Inf)" if value > 0 else "double(-Inf)"
    return f"double({struct.unpack('>Q', struct.pack('>d', value))[0]:x})"


def _opaque(value: Value) -> str:
    if isinstance(value, Timestamp):
        return f"timestamp({format_timestamp(Timestamp(value.nanoseconds))})"
    if isinstance(value, Duration):
        return f"duration({value.nanoseconds})"
    if isinstance(value, TypeValue):
        return f"type({value.name})"
    if isinstance(value, Optional):
        return f"optional({render(value.value)})" if value.present else "optional.none"
    if isinstance(value, IP):
        return f"net.IP({value.address})"
    if isinstance(value, CIDR):
        return f"net.CIDR({value!s})"
    if isinstance(value, NamedFormat):
        return f"format({value.name})"
    return f"{type_name(value)}({value})"
