"""What the checkpoint remembers of claims. Never group numbers or device node numbers: they change (D-50)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from node_driver.devices import DeviceKind
from node_driver.hardware.inventory import no_entries
from node_driver.host.changes import HostChange


class Stage(StrEnum):
    STARTED = "started"
    """The host may have been changed; what isn't known to be whole is undone."""
    DONE = "done"
    REMOVING = "removing"
    """Unprepare has begun."""


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One device of a claim. ``requests``: without subrequests (D-12). ``address``: the PCI address, or the
    mdev's UUID, that the VM gets. ``changes``: in the order in which they are made."""

    device: str
    kind: DeviceKind
    requests: tuple[str, ...]
    address: str
    members: tuple[str, ...] = ()
    exclusive: tuple[str, ...] = ()
    changes: tuple[HostChange, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    admin_access: bool = False
    share_id: str = ""


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    uid: str
    namespace: str
    name: str
    stage: Stage
    pods: tuple[str, ...] = ()
    """UIDs of the pods that it is reserved for."""
    devices: tuple[DeviceRecord, ...] = ()
    files: tuple[str, ...] = ()
    """CDI and metadata files that were written for it, absolute."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The whole checkpoint. ``unclean``: address -> why the device must not be given out yet (D-63); ``stuck``:
    address -> the change that could not be undone (D-46)."""

    boot_id: str = ""
    claims: Mapping[str, ClaimRecord] = field(default_factory=no_entries)
    unclean: Mapping[str, str] = field(default_factory=no_entries)
    stuck: Mapping[str, HostChange] = field(default_factory=no_entries)
