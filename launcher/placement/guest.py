"""The guest's side of a placement: NUMA cells, the host's nodes of their memory, and where vCPUs are pinned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from lxml import etree

from launcher.errors import INVALID_DOMAIN, LauncherError
from launcher.placement.cpu_lists import parse_cpu_list

T = TypeVar("T")


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
        them."""
        return cls(
            cells=tuple(
                GuestCell(
                    _read(cell, "id", int, str(index)), _read(cell, "cpus", parse_cpu_list) if cell.get("cpus") else ()
                )
                for index, cell in enumerate(domain.iterfind("cpu/numa/cell"))
            ),
            memnodes=tuple(
                MemNode(_read(node, "cellid", int), _read(node, "nodeset", parse_cpu_list))
                for node in domain.iterfind("numatune/memnode")
                if node.get("nodeset")
            ),
            pins={
                _read(pin, "vcpu", int): _read(pin, "cpuset", parse_cpu_list)
                for pin in domain.iterfind("cputune/vcpupin")
            },
        )


def _read(element: etree._Element, attribute: str, parse: Callable[[str], T], default: str = "") -> T:
    text = element.get(attribute, default)
    try:
        return parse(text)
    except ValueError as error:
        subject = f"{element.getroottree().getelementpath(element)}/@{attribute}"
        raise LauncherError(INVALID_DOMAIN, subject, f"{subject}: {error}") from None
