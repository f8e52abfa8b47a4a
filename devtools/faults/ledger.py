"""What was there at any time, and what the operator wrote: to find what was made twice, taken back, or changed without
need."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from devtools.deployed.audit_policy import POLICY as AUDIT_POLICY
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.cluster.port import Cluster
from virt_dra.cluster.watching.event_recorder import EVENT
from virt_dra.cluster.watching.informer import Informer, running

METADATA = "metadata.virt-dra.io/"
STATUS = "virt-dra.io/device-status"
WRITES = frozenset({"create", "update", "patch", "delete"})
OPERATOR = "virt-dra-operator"


class Ledger:
    """Keeps book of one namespace, while :meth:`kept`."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.uids: dict[tuple[str, str], set[str]] = defaultdict(set)
        """(kind, name of the VMI, of the claim's pod) -> every object that there ever was."""
        self.taken_back: list[str] = []
        """What was reported once and then withdrawn."""
        self.reported: dict[str, tuple[str, str, int]] = {}
        """Event's name -> VMI, reason, count."""
        self._informers: tuple[Informer[Any], ...] = tuple(
            Informer(cluster, kind, namespace, optional=True, first_pause=0.05, longest_pause=1.0)
            for kind in (VirtualMachineInstance, Pod, ResourceClaim, VirtualMachineInstanceDevices, EVENT)
        )
        for informer in self._informers:
            informer.on_change(self._changed)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        async with running(*self._informers):
            yield

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        obj = new or old
        assert obj is not None
        if obj.KIND == "Event":
            wire = obj.to_wire()
            if wire.get("source", {}).get("component") == OPERATOR:
                self.reported[obj.name] = (wire["involvedObject"].get("name", ""), wire["reason"], wire.get("count", 1))
            return
        owner = obj.metadata.controller_owner
        owned = owner is not None and obj.KIND in ("Pod", "ResourceClaim")
        self.uids[obj.KIND, owner.name if owner is not None and owned else obj.name].add(obj.metadata.uid)
        if old is not None and new is not None:
            before, after = _said(old), _said(new)
            self.taken_back += [
                f"{obj.KIND} {obj.name}: {key} was {value}, then {after.get(key)}"
                for key, value in before.items()
                if after.get(key) != value
            ]

    def of_kind(self, kind: str) -> dict[str, int]:
        """How many there ever were, by name."""
        return {name: len(uids) for (of, name), uids in self.uids.items() if of == kind}

    def events(self) -> Counter[tuple[str, str]]:
        """How often the operator emitted an Event: (VMI, reason) -> count."""
        counts: Counter[tuple[str, str]] = Counter()
        for vmi, reason, count in self.reported.values():
            counts[vmi, reason] += count
        return counts


def _said(obj: TypedObject) -> dict[str, str]:
    """What must stay as it is once it is there: addresses, and what pods were given."""
    if isinstance(obj, VirtualMachineInstanceDevices):
        return {
            device.name: f"{device.state} {device.pci_address}"
            for device in obj.status.devices
            if device.state == "Resolved"
        }
    if isinstance(obj, Pod):
        given = obj.metadata.annotations
        return {key: value for key, value in given.items() if key.startswith(METADATA) or key == STATUS}
    if isinstance(obj, VirtualMachineInstance) and obj.status.device_status is not None:
        wire = obj.status.device_status.to_wire()
        entries = (*wire.get("gpuStatuses", ()), *wire.get("hostDeviceStatuses", ()))
        shown = (
            (entry["name"], entry.get("deviceResourceClaimStatus", {}).get("attributes", {}).get("pciAddress"))
            for entry in entries
        )
        return {name: address for name, address in shown if address}
    return {}


# --- what was written ---


def audit_arguments(folder: Path) -> tuple[tuple[str, ...], Path]:
    """Arguments of kube-apiserver to keep an audit log of our accounts, and where it is."""
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(write_yaml(AUDIT_POLICY), encoding="utf-8")
    log.touch()
    return ("--audit-policy-file", str(policy), "--audit-log-path", str(log), "--audit-log-mode", "blocking"), log


@dataclass(frozen=True)
class Written:
    """One write of the operator's account that the API server answered. ``code``: 0 where nobody waited for the
    answer."""

    verb: str
    resource: str
    code: int
    at: datetime


@dataclass
class Audit:
    """The audit log from a point on."""

    log: Path
    begin: int = field(default=0)

    @classmethod
    def from_now(cls, log: Path) -> Audit:
        return cls(log, log.stat().st_size)

    def writes(self, namespace: str) -> list[Written]:
        """Of the operator, in the namespace, Events included."""
        with self.log.open("rb") as lines:
            lines.seek(self.begin)
            return list(_writes(lines, namespace))

    def done(self, namespace: str) -> Counter[str]:
        """What was stored: ``verb resource`` -> how often."""
        return Counter(f"{write.verb} {write.resource}" for write in self.writes(namespace) if 200 <= write.code < 300)

    def refused(self, namespace: str) -> Counter[int]:
        """Codes of writes that weren't stored."""
        return Counter(write.code for write in self.writes(namespace) if write.code >= 300)


def _writes(lines: Iterable[bytes], namespace: str) -> Iterable[Written]:
    for line in lines:
        if not line.endswith(b"\n"):
            return  # being written
        event = json.loads(line)
        reference = event.get("objectRef") or {}
        ours = event["user"]["username"].endswith(f":{OPERATOR}") and reference.get("namespace") == namespace
        if ours and event["verb"] in WRITES:
            resource = reference["resource"] + (f"/{reference['subresource']}" if reference.get("subresource") else "")
            code = (event.get("responseStatus") or {}).get("code", 0)
            yield Written(event["verb"], resource, code, datetime.fromisoformat(event["stageTimestamp"]))
