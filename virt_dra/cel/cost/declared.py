"""The sizes that the API allows the parts of a device (L-4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from virt_dra.cel.cost.sizes import Size, ValuePath


@dataclass(frozen=True, slots=True)
class Declared:
    """The most characters, elements or entries of a value, and of its fields, keys and values."""

    most: int
    fields: Mapping[str, Declared] = field(default_factory=dict)
    key: Declared | None = None
    value: Declared | None = None
    named: bool = False
    """True if every field name selects ``value``."""


_DOMAIN = Declared(63)
_ID = Declared(32)


def _by_domain(value: Declared, *, named: bool) -> Declared:
    return Declared(32, key=_DOMAIN, value=Declared(32, key=_ID, value=value, named=named))


DEVICE: Final = Declared(
    0,
    {
        "driver": Declared(63),
        "allowMultipleAllocations": Declared(1),
        "attributes": _by_domain(Declared(64), named=True),
        "capacity": _by_domain(Declared(0), named=False),
    },
)
VARIABLES: Final[Mapping[str, Declared]] = {"device": DEVICE}


def declared_size(variables: Mapping[str, Declared], path: ValuePath) -> Size | None:
    """The declared size of the value at a path; None if none is declared."""
    steps = path.steps()
    current = variables.get(steps[0]) if steps else None
    for step in steps[1:]:
        if current is None:
            return None
        if step in ("@items", "@values"):
            current = current.value
        elif step == "@keys":
            current = current.key
        else:
            current = current.fields.get(step) or (current.value if current.named else None)
    return None if current is None else Size(0, current.most)
