"""The elements of pinned vCPUs and of NUMA cells, as KubeVirt writes them (K-8.11, K-8.12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from launcher.elements.page import Page, Property


@dataclass(frozen=True)
class VcpuPinElement(Page):
    """A ``<vcpupin>``."""

    TAG: ClassVar[str] = "vcpupin"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("vcpu", attribute="vcpu"),
        Property("cpuset", attribute="cpuset"),
    )

    vcpu: int
    cpuset: str


@dataclass(frozen=True)
class NumaCellElement(Page):
    """A ``<cell>`` of the guest."""

    TAG: ClassVar[str] = "cell"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("id", attribute="id"),
        Property("cpus", attribute="cpus"),
        Property("memory", attribute="memory"),
        Property("unit", attribute="unit"),
    )

    id: int | None
    cpus: str | None
    memory: int
    unit: str | None = "b"


@dataclass(frozen=True)
class MemNodeElement(Page):
    """A ``<memnode>``: the host's node from which the memory of a cell comes."""

    TAG: ClassVar[str] = "memnode"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("cell", attribute="cellid"),
        Property("mode", attribute="mode"),
        Property("nodeset", attribute="nodeset"),
    )

    cell: int
    nodeset: str
    mode: str | None = "strict"


@dataclass(frozen=True)
class HugePageElement(Page):
    """A ``<page>``: the size of the huge pages of a cell."""

    TAG: ClassVar[str] = "page"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("size", attribute="size"),
        Property("unit", attribute="unit"),
        Property("nodeset", attribute="nodeset"),
    )

    size: int
    nodeset: str | None
    unit: str | None = "b"
