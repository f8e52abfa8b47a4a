"""A DRA driver: publishes its pools, prepares claims on nodes, describes devices in KEP-5304 metadata files; and
misbehaves as configured."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence

from virt_dra.api.integration.device_metadata import FILE_SUFFIX, request_directory
from virt_dra.api.integration.metadata_content import DeviceMetadata, MetadataDevice, MetadataRequest
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import (
    POD_CLAIM_NAME_ANNOTATION,
    DeviceRequestAllocationResult,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
)
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, NotFound
from virt_dra.simulator.agents.claim_manager import Prepared, PreparedClaim, PreparedDevice, PrepareError
from virt_dra.simulator.agents.device_health import HealthState, ReportedHealth
from virt_dra.simulator.agents.hardware import Gadget, HardwarePool


class Driver:
    """One driver at all the nodes its pools name. :meth:`publish` it.

    * ``metadata``: whether it writes metadata files (K-7.7, K-7.8). ``cdi``: whether it hands devices to the runtime by
      CDI, whose ids then stand for them in health reports.
    * ``delay``: seconds that a call takes; ``failure``, ``unprepare_failure``: the text that preparing and unpreparing
      fail with, as long as it isn't ""; ``skipped``: UIDs of claims that its answers leave out.
    * ``registered``: False as while its pod restarts: kubelets don't find it, and a call that is under way fails.
    """

    def __init__(
        self, cluster: Cluster, pools: Iterable[HardwarePool], *, metadata: bool = True, cdi: bool = True
    ) -> None:
        self._cluster = cluster
        self._pools = {pool.name: pool for pool in pools}
        names = {pool.driver for pool in self._pools.values()}
        if len(names) != 1:
            raise ValueError(f"a driver needs pools, all of one driver: {', '.join(sorted(names)) or 'none given'}")
        (self.name,) = names
        self.metadata = metadata
        self._cdi = cdi
        self.delay = 0.0
        self.failure = self.unprepare_failure = ""
        self.skipped: frozenset[str] = frozenset()
        self.registered = True
        self.prepared: dict[str, Prepared] = {}
        """By the claim's uid."""
        self._health: dict[tuple[str, str], tuple[HealthState, str]] = {}
        self._listeners: list[asyncio.Event] = []

    # --- publishing -------------------------------------------------------------------------------------------------

    @property
    def pools(self) -> tuple[HardwarePool, ...]:
        return tuple(self._pools.values())

    async def publish(self) -> None:
        """Publish slices of the pools: new ones first, then obsolete ones are deleted, as Kubernetes' helper does."""
        wanted = {obj.name: obj for pool in self._pools.values() for obj in pool.slices()}
        present = {obj.name: obj for obj in await self._published()}
        for name, obj in wanted.items():
            current = present.get(name)
            if current is None:
                await self._create(obj)
            elif current.spec != obj.spec:
                await self._cluster.update(current.with_(spec=obj.spec))
        await self._delete(name for name in present if name not in wanted)

    async def change(self, pool: HardwarePool) -> None:
        """Publish a pool in place of the one of its name, in the generation that it says."""
        self._pools[pool.name] = pool
        await self.publish()

    async def taint(self, pool: str, device: str, *taints: DeviceTaint) -> None:
        """Give a device these taints and no others, in a new generation of its pool."""
        await self.change(self._pools[pool].tainted(device, *taints))

    async def withdraw(self) -> None:
        """Delete all slices and unregister, as when the driver is uninstalled. :meth:`come_back` ends it."""
        self.registered = False
        await self._delete([obj.name for obj in await self._published()])

    async def come_back(self) -> None:
        """Ends :meth:`withdraw`: registers again, with every pool in a new generation."""
        self._pools = {name: pool.next_generation() for name, pool in self._pools.items()}
        await self.publish()
        self.registered = True
        self._notify()

    async def _published(self) -> tuple[ResourceSlice, ...]:
        return (await self._cluster.list(ResourceSlice, fields=f"spec.driver={self.name}")).items

    async def _create(self, obj: ResourceSlice) -> None:
        try:
            await self._cluster.create(obj)
        except AlreadyExists:  # a slice written since the list was read, or a foreign one of that name, which stays
            current = await self._cluster.get(ResourceSlice, obj.name)
            if current.spec.driver != self.name:
                raise
            await self._cluster.update(current.with_(spec=obj.spec))

    async def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                await self._cluster.delete(ResourceSlice, name)
            except NotFound:
                continue

    # --- preparing --------------------------------------------------------------------------------------------------

    async def prepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, Prepared | str]:
        """Make the claims' devices ready at a node; the same claim again has the same answer (C-16.8)."""
        await self._called()
        return {
            claim.uid: await self._prepared_or_error(node, claim) for claim in claims if claim.uid not in self.skipped
        }

    async def unprepare_claims(self, node: str, claims: Sequence[PreparedClaim]) -> Mapping[str, str]:
        """Unprepare claims by what was recorded of them: the object may be gone."""
        await self._called()
        if self.unprepare_failure:
            return {claim.uid: self.unprepare_failure for claim in claims}
        for claim in claims:
            self.prepared.pop(claim.uid, None)
        return {claim.uid: "" for claim in claims if claim.uid not in self.skipped}

    async def _called(self) -> None:
        """Behaves as configured, with every call. Raises :class:`PrepareError` where the plugin vanishes during it."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if not self.registered:
            raise PrepareError("rpc error: code = Unavailable desc = connection error")

    async def _prepared_or_error(self, node: str, named: PreparedClaim) -> Prepared | str:
        if self.failure:
            return self.failure
        try:
            claim = await self._cluster.get(ResourceClaim, named.name, named.namespace)
        except ApiError as error:
            return f"retrieve claim {named.namespace}/{named.name}: {error}"
        if claim.metadata.uid != named.uid:
            return f"claim {claim.key} got replaced"
        if claim.status.allocation is None:
            return f"claim {claim.key} not allocated"
        prepared = self.prepared.get(named.uid)
        if prepared is None:
            made = self._made(node, claim)
            if isinstance(made, str):
                return made
            prepared = self.prepared[named.uid] = made
        return prepared

    def _made(self, node: str, claim: ResourceClaim) -> Prepared | str:
        results = [result for result in claim.results if result.driver == self.name]
        chosen: list[tuple[DeviceRequestAllocationResult, Gadget]] = []
        for result in results:
            pool = self._pools.get(result.pool)
            gadget = pool.gadget(result.device) if pool is not None else None
            if pool is None or gadget is None:
                return f"device {result.pool}/{result.device} isn't there"
            if pool.node and pool.node != node:
                return f"device {result.pool}/{result.device} is not on node {node}"
            chosen.append((result, gadget))
        devices = tuple(self._handed_over(claim, result, gadget) for result, gadget in chosen)
        files: dict[str, tuple[str, str]] = {}
        entry = claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION, "")
        if self.metadata:
            for request in dict.fromkeys(result.request for result in results):
                base = request.partition("/")[0]
                entries = [
                    MetadataDevice(
                        driver=self.name, pool=result.pool, name=result.device, attributes=gadget.described()
                    )
                    for result, gadget in chosen
                    if result.request == request
                ]
                folder = request_directory(entry, None if entry else claim.name, base)
                files[base] = (f"{folder}/{self.name}{FILE_SUFFIX}", _stream(claim, request, entries))
        return Prepared(devices, files)

    def _handed_over(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult, gadget: Gadget
    ) -> PreparedDevice:
        cdi = (f"{self.name}/device={claim.metadata.uid}-{result.device}",) if self._cdi else ()
        return PreparedDevice(
            self.name, result.pool, result.device, result.request, dict(gadget.environment), cdi, result.share_id
        )

    # --- health -----------------------------------------------------------------------------------------------------

    def set_health(self, pool: str, device: str, health: HealthState, message: str = "") -> None:
        """Report a device's health from now on; kubelets hear of it."""
        self._health[pool, device] = (health, message)
        self._notify()

    @property
    def health_report(self) -> tuple[ReportedHealth, ...]:
        """The driver's report of all devices whose health it knows."""
        return tuple(
            ReportedHealth(pool, device, health, message) for (pool, device), (health, message) in self._health.items()
        )

    @property
    def reports_health(self) -> bool:
        return bool(self._health)

    def listen(self, changed: asyncio.Event) -> None:
        """``changed`` is set whenever health changes or the driver comes back."""
        self._listeners.append(changed)

    def _notify(self) -> None:
        for changed in self._listeners:
            changed.set()


def _stream(claim: ResourceClaim, request: str, devices: list[MetadataDevice]) -> str:
    """The content of a metadata file: one JSON document for each supported version, each on its line (K-7.8)."""
    entry = claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION)
    document = DeviceMetadata(
        metadata=ObjectMeta(name=claim.name, namespace=claim.namespace, uid=claim.metadata.uid, generation=1),
        requests=(MetadataRequest(name=request, devices=tuple(devices)),),
    )
    if entry is not None:
        document = document.with_(pod_claim_name=entry)
    return json.dumps(document.to_wire()) + "\n"


def without(pool: HardwarePool, *devices: str) -> HardwarePool:
    """The pool's next generation without some of its devices, as when they fail."""
    left = tuple(device for device in pool.devices if device.name not in devices)
    return pool.next_generation(left)
