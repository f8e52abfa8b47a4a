"""The elements of pinned vCPUs and of NUMA cells, as KubeVirt writes them (K-8.11, K-8.12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from launcher.elements.page import Page


@dataclass(frozen=True)
class VcpuPinElement(Page):
    """A ``<vcpupin>``."""

    TAG: ClassVar[str] = "vcpupin"

    vcpu: Annotated[int, "@vcpu"]
    cpuset: Annotated[str, "@cpuset"]


@dataclass(frozen=True)
class NumaCellElement(Page):
    """A ``<cell>`` of the guest."""

    TAG: ClassVar[str] = "cell"

    id: Annotated[int | None, "@id"]
    cpus: Annotated[str | None, "@cpus"]
    memory: Annotated[int, "@memory"]
    unit: Annotated[str | None, "@unit"] = "b"


@dataclass(frozen=True)
class MemNodeElement(Page):
    """A ``<memnode>``: the host's node from which the memory of a cell comes."""

    TAG: ClassVar[str] = "memnode"

    cell: Annotated[int, "@cellid"]
    mode: Annotated[str | None, "@mode"] = field(default="strict", kw_only=True)
    nodeset: Annotated[str, "@nodeset"]


@dataclass(frozen=True)
class HugePageElement(Page):
    """A ``<page>``: the size of the huge pages of a cell."""

    TAG: ClassVar[str] = "page"

    size: Annotated[int, "@size"]
    unit: Annotated[str | None, "@unit"] = field(default="b", kw_only=True)
    nodeset: Annotated[str | None, "@nodeset"]
