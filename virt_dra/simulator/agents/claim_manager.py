"""The kubelet's DRA manager for one node: which claims are prepared for which pods, by which drivers (C-16.1 to
C-16.7). Both are safe to repeat after any failure. What is recorded survives a restart of the kubelet as a
:class:`DraCheckpoint`, but that active pods prepare theirs again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, Self

from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.port import ApiError, Reader
from virt_dra.scheduling.claim_references import (
    NotCreatedYet,
    NotNeeded,
    UnsupportedClaimSource,
    claim_name,
    is_reserved_for,
    not_for_pod,
)

FAILED_PREPARE: Final = "FailedPrepareDynamicResources"
"""Event: the claims of a pod can't be prepared now; tried again with every sync of the pod (C-16.1)."""
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
_CHECKPOINT_KIND, _CHECKPOINT_VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"


class PrepareError(RuntimeError):
    """A claim that can't be prepared, or unprepared, now. The kubelet tries again."""


class PreparedClaim(NamedTuple):
    """The identity of a claim, as a driver gets it; it reads the rest itself (C-16.8)."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class PreparedDevice:
    """A device as a container gets it. ``request`` may name a subrequest; ``cdi_ids``: for the runtime."""

    driver: str
    pool: str
    device: str
    request: str
    environment: Mapping[str, str] = field(default_factory=dict)
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None

    @property
    def base_request(self) -> str:
        return self.request.partition("/")[0]


@dataclass(frozen=True)
class Prepared:
    """What drivers prepared of a claim. ``files``: base request -> (absolute path in the container, content)."""

    devices: tuple[PreparedDevice, ...] = ()
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)


class NodePlugin(Protocol):
    """A DRA driver's plugin at a node. Errors are texts; a call that fails as a whole raises :class:`PrepareError`."""

    @property
    def name(self) -> str: ...

    async def prepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, Prepared | str]:
        """Prepares claims: what was prepared, or why not, by claim UID."""

    async def unprepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, str]:
        """Unprepares claims: "" for success, or why not, by claim UID."""


@dataclass(frozen=True)
class _Entry:
    """A claim that pods of the node use. ``drivers``: driver -> the operations that all its results skip (C-16.3)."""

    claim: PreparedClaim
    drivers: Mapping[str, tuple[str, ...]]
    pods: tuple[str, ...] = ()
    devices: Mapping[str, Prepared] = field(default_factory=dict)
    prepared: bool = False
    unpreparing: bool = False


@dataclass(frozen=True)
class DraCheckpoint:
    """The kubelet's file ``dra_manager_state``: JSON with a CRC-32 of its data (C-16.5)."""

    data: str
    checksum: int

    @classmethod
    def from_entries(cls, entries: Iterable[_Entry]) -> Self:
        states = [_state(entry) for entry in entries]
        data = json.dumps({"kind": _CHECKPOINT_KIND, "apiVersion": _CHECKPOINT_VERSION, "ClaimInfoStateList": states})
        return cls(data, zlib.crc32(data.encode()))

    def to_json(self) -> str:
        return json.dumps({"Data": self.data, "Checksum": self.checksum})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The checkpoint in a file. Raises ValueError for a damaged one."""
        raw = json.loads(text)
        if (
            not isinstance(raw, dict)
            or not isinstance(raw.get("Data"), str)
            or zlib.crc32(raw["Data"].encode()) != raw.get("Checksum")
        ):
            raise ValueError("the checkpoint is corrupt: its checksum differs")
        return cls(raw["Data"], raw["Checksum"])

    def entries(self) -> tuple[_Entry, ...]:
        return tuple(_entry(state) for state in json.loads(self.data)["ClaimInfoStateList"])


def _state(entry: _Entry) -> dict[str, Any]:
    drivers = {
        driver: {
            "SkipNodeOperations": list(skipped),
            "Devices": list(map(_device_state, entry.devices.get(driver, Prepared()).devices)),
        }
        for driver, skipped in entry.drivers.items()
    }
    claim = entry.claim
    named = {"ClaimUID": claim.uid, "ClaimName": claim.name, "Namespace": claim.namespace}
    return {**named, "PodUIDs": list(entry.pods), "DriverState": drivers}


def _device_state(device: PreparedDevice) -> dict[str, Any]:
    state: dict[str, Any] = {"PoolName": device.pool, "DeviceName": device.device, "RequestNames": [device.request]}
    return state | {"CDIDeviceIDs": list(device.cdi_ids)} | ({"ShareID": device.share_id} if device.share_id else {})


def _entry(state: Mapping[str, Any]) -> _Entry:
    claim = PreparedClaim(state["Namespace"], state["ClaimName"], state["ClaimUID"])
    drivers = {
        driver: tuple(driver_state["SkipNodeOperations"]) for driver, driver_state in state["DriverState"].items()
    }
    devices = {
        driver: Prepared(tuple(_device(driver, device) for device in driver_state["Devices"]))
        for driver, driver_state in state["DriverState"].items()
    }
    return _Entry(claim, drivers, tuple(state["PodUIDs"]), devices)


def _device(driver: str, state: Mapping[str, Any]) -> PreparedDevice:
    (request,) = state["RequestNames"]
    return PreparedDevice(
        driver, state["PoolName"], state["DeviceName"], request, {}, tuple(state["CDIDeviceIDs"]), state.get("ShareID")
    )


class ClaimManager:
    """Prepares claims of the pods of ``node``. ``plugin``: a driver's, if registered. Bound to one event loop.
    ``optional_operations``: gate DRAOptionalNodeOperations. ``on_checkpoint``: called with every new checkpoint."""

    def __init__(
        self, node: str, reader: Reader, plugin: Callable[[str], NodePlugin | None], *,
        checkpoint: DraCheckpoint | None = None, optional_operations: bool = False,
        on_checkpoint: Callable[[DraCheckpoint], None] = lambda checkpoint: None,
    ) -> None:  # fmt: skip
        self._node, self._reader, self._plugin = node, reader, plugin
        self._optional_operations = optional_operations
        self._on_checkpoint = on_checkpoint
        entries = checkpoint.entries() if checkpoint is not None else ()
        self._entries: dict[tuple[str, str], _Entry] = {
            (entry.claim.namespace, entry.claim.name): entry for entry in entries
        }

    @property
    def checkpoint(self) -> DraCheckpoint:
        return DraCheckpoint.from_entries(self._entries.values())

    @property
    def pods(self) -> frozenset[str]:
        """The UIDs of all pods for which claims are recorded."""
        return frozenset(uid for entry in self._entries.values() for uid in entry.pods)

    # --- prepare ----------------------------------------------------------------------------------------------------
    # --------------------------------------------------------------------------------------------------------

    async def prepare(self, pod: Pod) -> Mapping[str, Prepared]:
        """Prepare a pod's claims. Returns what containers get, by entry ("" for extended resources). Raises
        :class:`PrepareError`; the checkpoint changes only if all claims can be used (C-16.2)."""
        wanted = await self._validated(pod)
        batches: dict[str, list[PreparedClaim]] = {}
        for fresh in wanted.values():
            entry = self._recorded(fresh, pod.metadata.uid)
            for driver, skipped in entry.drivers.items() if not entry.prepared else ():
                if not _skips(skipped, PREPARE):
                    batches.setdefault(driver, []).append(entry.claim)
        for driver, claims in batches.items():
            await self._prepare_batch(driver, list(dict.fromkeys(claims)))
        for fresh in wanted.values():
            self._change(fresh.claim, prepared=True)
        self._save()
        return {name: self._all_devices(fresh.claim) for name, fresh in wanted.items()}

    async def _validated(self, pod: Pod) -> dict[str, _Entry]:
        usable: dict[str, _Entry] = {}
        for entry in (*pod.spec.resource_claims, *_extended(pod)):
            try:
                named = claim_name(pod, entry)
            except UnsupportedClaimSource as error:
                raise PrepareError(str(error)) from None
            if isinstance(named, NotNeeded):
                continue
            if isinstance(named, NotCreatedYet):
                raise PrepareError(named.message)
            try:
                claim = await self._reader.get(ResourceClaim, named.name, pod.namespace)
            except ApiError as error:
                raise PrepareError(f"fetch ResourceClaim {named.name}: {error}") from error
            foreign = not_for_pod(claim, pod) if named.must_check_owner else None
            if foreign is not None:
                raise PrepareError(foreign.message)
            if not is_reserved_for(claim, pod):
                subject = f"pod {pod.name} ({pod.metadata.uid})"
                raise PrepareError(f"{subject} is not allowed to use ResourceClaim {claim.name} ({claim.metadata.uid})")
            usable[entry.name] = self._usable(claim)
        return usable

    def _usable(self, claim: ResourceClaim) -> _Entry:
        """The claim as it will be recorded. Raises :class:`PrepareError` without devices or their drivers."""
        allocation = claim.status.allocation
        if allocation is None:
            raise PrepareError(f"ResourceClaim {claim.name}: not allocated")
        drivers: dict[str, tuple[str, ...]] = {}
        for driver in dict.fromkeys(result.driver for result in allocation.devices.results):
            lists = [result.skip_node_operations for result in allocation.devices.results if result.driver == driver]
            if any(lists) and not self._optional_operations:
                raise PrepareError(
                    f"ResourceClaim {claim.name}: DRAOptionalNodeOperations feature gate is disabled on kubelet"
                )
            drivers[driver] = tuple(
                operation for operation in (PREPARE, UNPREPARE) if all(_skips(skipped, operation) for skipped in lists)
            )
        for driver, skipped in drivers.items():
            if not _skips(skipped, PREPARE) and self._plugin(driver) is None:
                raise PrepareError(f"DRA driver {driver} is not registered")
        return _Entry(PreparedClaim(claim.namespace, claim.name, claim.metadata.uid), drivers)

    def _recorded(self, fresh: _Entry, pod_uid: str) -> _Entry:
        """The entry of a claim, with the pod among its users, saved before any driver is called (C-16.4)."""
        key = (fresh.claim.namespace, fresh.claim.name)
        entry = self._entries.get(key, fresh)
        if entry.claim.uid != fresh.claim.uid:
            same = f"old ResourceClaim with same name {fresh.claim.name} and different UID {entry.claim.uid}"
            raise PrepareError(f"{same} still exists (previous pod force-deleted?!)")
        if entry.unpreparing:
            raise PrepareError(f"ResourceClaim {fresh.claim.name} is being unprepared")
        self._entries[key] = replace(entry, pods=tuple(dict.fromkeys((*entry.pods, pod_uid))))
        self._save()
        return self._entries[key]

    async def _prepare_batch(self, driver: str, claims: Sequence[PreparedClaim]) -> None:
        answers = await self._called(driver, PREPARE, claims)
        for claim in claims:
            answer = answers[claim.uid]
            if isinstance(answer, Prepared):
                entry = self._entries[claim.namespace, claim.name]
                self._change(claim, devices={**entry.devices, driver: answer})

    async def _called(
        self, driver: str, operation: str, claims: Sequence[PreparedClaim]
    ) -> Mapping[str, Prepared | str]:
        """A driver's answer. Raises :class:`PrepareError` for its first fault; those before are kept (C-16.5)."""
        plugin = self._plugin(driver)
        if plugin is None:
            raise PrepareError(f"DRA driver {driver} is not registered")
        try:
            answers: Mapping[str, Prepared | str] = await (
                plugin.prepare_claims(self._node, claims)
                if operation == PREPARE
                else plugin.unprepare_claims(self._node, claims)
            )
        except PrepareError as error:
            raise PrepareError(f"{operation}: {error}") from error
        asked = {claim.uid: claim for claim in claims}
        for uid, answer in answers.items():
            if uid not in asked:
                raise PrepareError(f"{operation} returned result for unknown claim UID {uid}")
            if isinstance(answer, str) and answer:
                raise PrepareError(f"{operation} failed for ResourceClaim {asked[uid].name}: {answer}")
        if len(answers) < len(asked):
            raise PrepareError(f"{operation} skipped {len(asked) - len(answers)} ResourceClaims")
        return answers

    def _all_devices(self, claim: PreparedClaim) -> Prepared:
        parts = [prepared for _, prepared in sorted(self._entries[claim.namespace, claim.name].devices.items())]
        files = {f"{name} {number}": file for number, part in enumerate(parts) for name, file in part.files.items()}
        return Prepared(tuple(device for part in parts for device in part.devices), files)

    # --- unprepare --------------------------------------------------------------------------------------------------
    # ------------------------------------------------------------------------------------------------------

    async def unprepare(self, pod_uid: str) -> None:
        """Give back what a pod used alone (C-16.7). Raises :class:`PrepareError`: try again."""
        batches: dict[str, list[PreparedClaim]] = {}
        ending: list[PreparedClaim] = []
        for entry in tuple(self._entries.values()):
            if pod_uid not in entry.pods:
                continue
            if len(entry.pods) > 1:
                self._change(entry.claim, pods=tuple(uid for uid in entry.pods if uid != pod_uid))
                continue
            self._change(entry.claim, unpreparing=True)
            ending.append(entry.claim)
            for driver, skipped in entry.drivers.items():
                if not _skips(skipped, UNPREPARE):
                    batches.setdefault(driver, []).append(entry.claim)
        for driver, claims in batches.items():
            await self._called(driver, UNPREPARE, claims)
        for claim in ending:
            self._entries.pop((claim.namespace, claim.name), None)
        self._save()

    # --- containers -------------------------------------------------------------------------------------------------
    # -----------------------------------------------------------------------------------------------------

    def cdi_ids(self, pod: Pod, container: str) -> tuple[str, ...]:
        """The CDI devices of a container: of its prepared claims, or requests of these, and extended resources
        (C-16.6)."""
        containers = (*pod.spec.init_containers, *pod.spec.containers)
        spec = next((candidate for candidate in containers if candidate.name == container), None)
        wanted: list[tuple[str, str]] = []
        for reference in spec.resources.claims if spec is not None else ():
            entry = next((claim for claim in pod.spec.resource_claims if claim.name == reference.name), None)
            named = claim_name(pod, entry) if entry is not None else None
            if named is not None and not isinstance(named, NotNeeded | NotCreatedYet):
                wanted.append((named.name, (reference.request or "").partition("/")[0]))
        special = pod.status.extended_resource_claim_status
        if special is not None:
            wanted += [
                (special.resource_claim_name, mapping.request_name)
                for mapping in special.request_mappings
                if mapping.container_name == container
            ]
        ids: list[str] = []
        for name, request in wanted:
            recorded = self._entries.get((pod.namespace, name))
            for device in self._all_devices(recorded.claim).devices if recorded is not None else ():
                if not request or device.base_request == request:
                    ids += device.cdi_ids
        return tuple(ids)

    # --- state ------------------------------------------------------------------------------------------------------
    # ----------------------------------------------------------------------------------------------------------

    def _change(self, claim: PreparedClaim, **changes: Any) -> None:
        key = (claim.namespace, claim.name)
        self._entries[key] = replace(self._entries[key], **changes)

    def _save(self) -> None:
        self._on_checkpoint(self.checkpoint)


def _extended(pod: Pod) -> tuple[PodResourceClaim, ...]:
    """The claim of the pod's extended resources, as an entry without a name."""
    special = pod.status.extended_resource_claim_status
    return () if special is None else (PodResourceClaim(name="", resource_claim_name=special.resource_claim_name),)


def _skips(skipped: Iterable[str] | None, operation: str) -> bool:
    return any(name in ("*", operation) for name in skipped or ())
