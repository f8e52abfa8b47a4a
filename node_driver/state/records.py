"""What the checkpoint remembers of claims. Never group numbers or device node numbers: they change (D-50)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from node_driver.devices import DeviceKind, Sanitizing
from node_driver.host.changes import HostChange


class Stage(StrEnum):
    STARTED = "started"
    """The host may have been changed; what isn't known to be whole is undone."""
    DONE = "done"
    REMOVING = "removing"
    """Unprepare has begun."""


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """One allocated device of a claim, with all that is needed to prepare it again and to release it.

    ``request``: as in the allocation, ``request/subrequest`` where an alternative was chosen. ``address``: the PCI
    address, or the mdev's UUID, that the VM gets. ``parent``: of an mdev. ``network``: settings of a network function
    as JSON, "" for none (D-62). ``attributes``: for the metadata file, as in a ResourceSlice. ``changes``: in the
    order in which they are made.
    """

    device: str
    kind: DeviceKind
    request: str
    address: str
    parent: str = ""
    type_id: str = ""
    members: tuple[str, ...] = ()
    target_driver: str = ""
    exclusive: tuple[str, ...] = ()
    sanitizing: Sanitizing = Sanitizing.NONE
    network: str = ""
    hardware_address: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    admin_access: bool = False
    share_id: str = ""
    changes: tuple[HostChange, ...] = ()

    @property
    def base_request(self) -> str:
        """The request without a subrequest (D-12)."""
        return self.request.partition("/")[0]

    @property
    def names(self) -> tuple[str, ...]:
        """All that another claim's device could clash with: devices without a name in common don't. "" among them where
        there is no parent."""
        return (self.device, self.address, self.parent, *self.members, *self.exclusive)

    @property
    def held_names(self) -> frozenset[str]:
        """What no other pod may hold meanwhile: the functions, and what the policy names exclusive (D-43)."""
        return frozenset() if self.admin_access else frozenset((self.address, *self.members, *self.exclusive))


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """``pods``: UIDs of the pods that the claim is reserved for. ``pod_claim_name``: "" unless a template made it.
    ``generation``: of the metadata files. ``files``: CDI and metadata files that were written for it, absolute."""

    uid: str
    namespace: str
    name: str
    stage: Stage
    pods: tuple[str, ...] = ()
    pod_claim_name: str = ""
    devices: tuple[DeviceRecord, ...] = ()
    generation: int = 1
    files: tuple[str, ...] = ()

    @property
    def changes(self) -> Iterator[HostChange]:
        return (change for device in self.devices for change in device.changes)

    @property
    def held_names(self) -> frozenset[str]:
        return frozenset().union(*(device.held_names for device in self.devices))

    @property
    def parents(self) -> frozenset[str]:
        """What its mdevs are made of, which others may use, too."""
        return frozenset(device.parent for device in self.devices if device.parent and not device.admin_access)


@dataclass(frozen=True, slots=True)
class UncleanDevice:
    """A device that must not be given out yet, and how it is cleaned (D-63). ``device``: its name; ``members``: the
    functions to clean; ``message``: why it isn't clean."""

    device: str
    sanitizing: Sanitizing
    members: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class StuckChange:
    """A change that could not be made or undone (D-46). ``message`` is the last error."""

    change: HostChange
    message: str


@dataclass(frozen=True, slots=True)
class DriverState:
    """The whole checkpoint. ``claims`` by UID, ``unclean`` and ``stuck`` by address."""

    boot_id: str = ""
    claims: Mapping[str, ClaimRecord] = field(default_factory=dict)
    unclean: Mapping[str, UncleanDevice] = field(default_factory=dict)
    stuck: Mapping[str, StuckChange] = field(default_factory=dict)

    def with_claim(self, record: ClaimRecord) -> DriverState:
        return replace(self, claims={**self.claims, record.uid: record})

    def without_claim(self, uid: str) -> DriverState:
        return replace(self, claims={other: record for other, record in self.claims.items() if other != uid})
