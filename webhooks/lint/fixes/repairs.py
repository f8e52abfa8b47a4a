"""Repairs: what a check knows about the cure of its finding, as data. Whether one works is found out when it is
wanted."""

from __future__ import annotations

from dataclasses import dataclass

from virt_dra.api.editing.changes import ValueChange

DeviceName = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True)
class VersionRepair:
    """The object itself, in the shape and with the name of resource.k8s.io/v1."""


@dataclass(frozen=True)
class OwnRepair:
    """Changes of the object itself."""

    changes: tuple[ValueChange, ...]


@dataclass(frozen=True, eq=False)
class KeyRepair:
    """Attributes of published devices with another key: of each device the written key and the one that is meant.
    Thousands of devices may be in one that many findings share, so it is compared by identity."""

    renames: tuple[tuple[DeviceName, str, str], ...]


@dataclass(frozen=True)
class VfioRepair:
    """NVIDIA's VFIO configuration for a request of a claim or template. ``existing``: the position of one with wrong
    values; None: there is none, or it is the class's."""

    kind: str
    namespace: str
    name: str
    request: str
    existing: int | None = None


Repair = VersionRepair | OwnRepair | KeyRepair | VfioRepair
