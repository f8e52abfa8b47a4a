"""The guest's side of a placement: NUMA cells, the host's nodes of their memory, and where vCPUs are pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from launcher.errors import LauncherError, invalid_domain
from launcher.placement.cpu_lists import parse_cpu_list

NUMBERS_MAX: Final = 1 << 20
"""In all lists of a domain: 1,024 vCPUs on any of 1,024 CPUs."""


@dataclass(frozen=True)
class GuestCell:
    """A NUMA cell of the guest."""

    id: int
    vcpus: tuple[int, ...]


@dataclass(frozen=True)
class MemNode:
    """The host's nodes from which the memory of a cell comes."""

    cell: int
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class GuestTopology:
    """The NUMA topology of a guest. ``pins``: vCPU -> host CPUs. Without cells the guest has no NUMA."""

    cells: tuple[GuestCell, ...] = ()
    memnodes: tuple[MemNode, ...] = ()
    pins: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def from_domain(cls, domain: etree._Element) -> GuestTopology:
        """Read it from a ``<domain>`` of libvirt. Raises :class:`LauncherError` for what isn't a number or a list of
        them, and for more numbers than a machine has."""
        reader = _Reader()
        return cls(
            cells=tuple(
                GuestCell(
                    reader.number(cell, "id", str(index)), reader.numbers(cell, "cpus") if cell.get("cpus") else ()
                )
                for index, cell in enumerate(domain.iterfind("cpu/numa/cell"))
            ),
            memnodes=tuple(
                MemNode(reader.number(node, "cellid"), reader.numbers(node, "nodeset"))
                for node in domain.iterfind("numatune/memnode")
                if node.get("nodeset")
            ),
            pins={
                reader.number(pin, "vcpu"): reader.numbers(pin, "cpuset") for pin in domain.iterfind("cputune/vcpupin")
            },
        )


@dataclass
class _Reader:
    """Reads attributes of a domain. ``left``: how many numbers its lists may still have, as a short text can be a long
    list."""

    left: int = NUMBERS_MAX

    def number(self, element: etree._Element, attribute: str, default: str = "") -> int:
        text = element.get(attribute, default)
        if not re.fullmatch("[0-9]{1,5}", text, re.ASCII):
            raise _unreadable(element, attribute, f"{text[:80]!r} is no number")
        return int(text)

    def numbers(self, element: etree._Element, attribute: str) -> tuple[int, ...]:
        try:
            numbers = parse_cpu_list(element.get(attribute, ""))
        except ValueError as error:
            raise _unreadable(element, attribute, str(error)) from None
        self.left -= len(numbers)
        if self.left < 0:
            raise _unreadable(element, attribute, f"the domain's lists have more than {NUMBERS_MAX} numbers")
        return numbers


def _unreadable(element: etree._Element, attribute: str, fault: str) -> LauncherError:
    return invalid_domain(f"{element.getroottree().getelementpath(element)}/@{attribute}", fault)
