"""The line by which a VM asks for devices: the annotation ``virt-dra.io/devices``.

virt-dra.io/devices: two-h100-and-nic
virt-dra.io/devices: gpu=nvidia-h100 x 2, nic=cx7

line     item ("," item)*
item     [ name "=" ] profile [ " x " copies ]     blanks around "," "=" and "x" don't matter
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api import names
from virt_dra.api.counting import cut_after
from virt_dra.api.validation.field_errors import Errors, FieldError, each_invalid, invalid, too_long, too_many

DEVICES_ANNOTATION: Final = "virt-dra.io/devices"
"""On a VMI; KubeVirt copies it from a VM's ``spec.template.metadata`` and its instancetype's ``spec.annotations``."""
LINE_MAX: Final = 4096
"""Bytes of a line."""
ITEMS_MAX: Final = 16
COPIES_MAX: Final = 32
"""A claim has at most so many requests (A-22)."""

_SHOWN: Final = 300
"""Characters of an item that a message repeats; a longer one would push what is wrong past the end of a message that is
cut. A valid name has at most 253."""

SYNTAX: Final = "[NAME=]PROFILE[ x COPIES]"
_ITEM: Final = re.compile(r"(?:([^=\s]+)\s*=\s*)?([^=\s]+)(?:\s+x\s*([0-9]{1,9}))?")


@dataclass(frozen=True)
class AskedProfile:
    """An item of the line. ``name``: what its devices are called, "" if the item has none."""

    name: str
    profile: str
    copies: int


class RefusedLineError(ValueError):
    """What is wrong with a line, or with what it asks for: every fault, with its field."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


def asked_profiles(annotations: Mapping[str, str], root: str = "metadata.annotations") -> tuple[AskedProfile, ...]:
    """The items of the line among the annotations; none without a line. ``root``: the path of the annotations. Raises
    :class:`RefusedLineError`."""
    line = annotations.get(DEVICES_ANNOTATION)
    if line is None:
        return ()
    field = f"{root}[{DEVICES_ANNOTATION}]"
    if len(line.encode()) > LINE_MAX:
        raise RefusedLineError(too_long(field, LINE_MAX))
    items = line.split(",")
    if len(items) > ITEMS_MAX:
        raise RefusedLineError(too_many(field, len(items), ITEMS_MAX))
    errors = [error for item in items for error in _faults(item, field)]
    if errors:
        raise RefusedLineError(*errors)
    return tuple(_asked(item) for item in items)


def _faults(item: str, field: str) -> Errors:
    match = _ITEM.fullmatch(item.strip())
    if match is None:
        yield invalid(field, _shown(item), f"each item is {SYNTAX}, such as gpu=nvidia-h100 x 2")
        return
    name, profile, copies = match.groups()
    yield from each_invalid(field, _shown(profile), names.dns1123_subdomain(profile))
    if name is not None:
        yield from each_invalid(field, _shown(name), names.dns1123_label(name))
    if copies is not None and not 1 <= int(copies) <= COPIES_MAX:
        yield invalid(field, _shown(item), f"must ask for 1 to {COPIES_MAX} copies")


def _shown(text: str) -> str:
    return cut_after(text.strip(), _SHOWN)


def _asked(item: str) -> AskedProfile:
    """The profile that an item without faults asks for."""
    match = _ITEM.fullmatch(item.strip())
    assert match is not None
    name, profile, copies = match.groups()
    return AskedProfile(name or "", profile, int(copies or 1))
