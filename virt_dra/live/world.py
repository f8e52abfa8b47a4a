"""The state of a live cluster for the lint and the webhook, kept up to date by informers; a change costs as much as
what changed.

A review sees one state from beginning to end: a :class:`~webhooks.lint.LintInputs` never changes; each change makes
another one that shares the rest. Slices come in bursts (a driver republishes a pool, a node joins), and for each new
inventory selectors must be matched again; so changes are applied in batches, a little later, with pauses for reviews in
between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from virt_dra.api.core_v1 import Namespace, Node
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.integration.known_drivers import WRITER_ANNOTATIONS
from virt_dra.api.integration.paths import DOMAIN
from virt_dra.api.keeping.claims import KEPT_CLAIMS_ANNOTATION, RECORD_MAX
from virt_dra.api.kubevirt_v1 import (
    Devices,
    DomainSpec,
    KubeVirt,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VirtualMachineInstanceTemplate,
    VirtualMachineSpec,
)
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaimTemplate, ResourceSlice
from virt_dra.cluster.cluster_clock import ClusterClock
from virt_dra.cluster.watching.informer import Informer, InformerObserver, ListerWatcher, running
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.kinds import OFTEN_NOT_SERVED, READ
from webhooks.knowledge import LauncherSettings
from webhooks.lint import DeviceInventory, KubeVirtAtHand, LintInputs, LintSettings, Preflight
from webhooks.lint.inputs import KINDS
from webhooks.server.log import LOGGER

SETTLE_SECONDS: Final = 0.1
"""From a slice's change until it is applied, together with the changes that follow within that time."""
AT_ONCE: Final = 25
"""Slices that are taken over in one turn: a few milliseconds of work."""


@dataclass(frozen=True)
class LiveSettings:
    """``version``, ``gates``: in place of what the KubeVirt object says, or where there is none. ``address_keys``: of
    drivers (K-6.6)."""

    lint: LintSettings = field(default_factory=LintSettings.for_admission)
    launcher: LauncherSettings = field(default_factory=LauncherSettings)
    version: KubeVirtVersion | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    address_keys: tuple[DriverKeys, ...] = ()


class LiveWorld:
    """Follows a cluster while :meth:`following`; :meth:`knowledge` is what the webhook asks for at each review."""

    def __init__(
        self,
        cluster: ListerWatcher,
        settings: LiveSettings | None = None,
        *,
        observer: InformerObserver | None = None,
        clock: ClusterClock | None = None,
    ) -> None:
        self._settings, self._clock = settings or LiveSettings(), clock or ClusterClock()
        self._world = LintInputs(
            ClusterModel(),
            KubeVirtAtHand.configured(None, self._settings.version, self._settings.gates),
            inventory=DeviceInventory.from_slices((), self._settings.address_keys),
            known_kinds=frozenset((*KINDS, DeviceProfile.KIND)),
        )
        self._preflight: Preflight | None = None
        self._slices: dict[str, ResourceSlice | None] = {}
        """Changes of slices that are to be taken over; None for deleted ones."""
        self._wanted = asyncio.Event()
        self._whole = False

        self.informers: tuple[Informer[Any], ...] = tuple(
            Informer[Any](
                cluster, kind, optional=kind in OFTEN_NOT_SERVED, observer=observer, transform=_TRIMS.get(kind, _bare)
            )
            for kind in READ["webhook"].all
        )
        for informer in self.informers:
            informer.on_change(self._slice if informer.kind is ResourceSlice else self._changed)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follows while the body runs, which begins at once: :meth:`knowledge` is None until every kind has been
        read."""
        async with asyncio.TaskGroup() as group:  # a fault of either ends the body
            tasks = [group.create_task(self._follow()), group.create_task(self._settle())]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _follow(self) -> None:
        async with running(*self.informers):
            await self._take_over()
            self._world.users("", "")  # the index, which follows every change from now on
            self._whole = True
            await asyncio.Event().wait()

    async def _settle(self) -> None:
        """Takes slices over as they change, for ever."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(SETTLE_SECONDS)
            await self._take_over()

    # --- what is known --------------------------------------------------------------------------------------------

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The kinds that haven't been read yet."""
        return tuple(informer.kind.KIND for informer in self.informers if not informer.has_synced)

    @property
    def world(self) -> LintInputs:
        """The present state, whether it is whole or not."""
        return self._world

    def knowledge(self) -> Preflight | None:
        """The inputs from which reviews are answered; None until every kind has been read. Kept until the next
        change."""
        if not self._whole:
            return None
        if self._preflight is None:
            self._preflight = Preflight(
                self._world, self._settings.lint, self._settings.launcher, self._clock, self._clock.count_from
            )
        return self._preflight

    def _set(self, **changes: Any) -> None:
        self._world = replace(self._world, **changes)
        self._preflight = None

    # --- changes --------------------------------------------------------------------------------------------------

    def _changed(self, old: TypedObject | None, new: TypedObject | None) -> None:
        obj = new or old
        model = self._world.model.changed([new] if new is not None else (), [old] if old is not None else ())
        configured = {"configuration": self._configured(model)} if isinstance(obj, KubeVirt) else {}
        self._set(model=model, **configured)

    def _slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if new is not None:
            self._slices[new.name] = new
        elif old is not None:
            self._slices[old.name] = None
        self._wanted.set()

    async def _take_over(self) -> None:
        while self._slices:
            changes = {name: self._slices.pop(name) for name in tuple(self._slices)[:AT_ONCE]}
            put = [slice_ for slice_ in changes.values() if slice_ is not None]
            gone = [name for name, slice_ in changes.items() if slice_ is None]
            self._set(inventory=self._world.inventory.changed(put, gone))
            await asyncio.sleep(0)

    def _configured(self, model: ClusterModel) -> KubeVirtAtHand:
        first = next(iter(model.of(KubeVirt)), None)
        configuration = KubeVirtAtHand.configured(first, self._settings.version, self._settings.gates)
        observed = configuration.observed
        if observed is not None and observed.unreadable and observed != self._world.configuration.observed:
            logging.getLogger(LOGGER).warning(str(observed), extra={"fields": {"advice": observed.advice}})
        return configuration


# --- informer transforms ----------------------------------------------------------


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        annotations={key: value for key, value in meta.annotations.items() if key.startswith(f"{DOMAIN}/")},
        owner_references=meta.owner_references,
    )


_UNREAD: Final = ("annotations", "labels", "managed_fields", "finalizers")


def _bare(obj: ObjectT) -> ObjectT:
    """The object without metadata that may be large and isn't read."""
    return obj.with_(metadata=obj.metadata.without(*_UNREAD))


def _template(template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    made = template.spec.metadata.without(*_UNREAD)
    bare = _bare(template)
    return bare if made is template.spec.metadata else bare.with_(spec=template.spec.with_(metadata=made))


def _class(device_class: DeviceClass) -> DeviceClass:
    given = device_class.metadata.annotations
    kept = {key: given[key] for key in WRITER_ANNOTATIONS if key in given}
    bare = _bare(device_class)
    return bare.with_(metadata=bare.metadata.with_(annotations=kept)) if kept else bare


def _labels_only(obj: ObjectT) -> ObjectT:
    """A Node or a Namespace with its labels alone."""
    return type(obj)(metadata=_identity(obj.metadata).with_(labels=obj.metadata.labels))


def _claims_only(spec: VirtualMachineInstanceSpec) -> VirtualMachineInstanceSpec:
    devices = Devices(gpus=spec.domain.devices.gpus, host_devices=spec.domain.devices.host_devices)
    return VirtualMachineInstanceSpec(resource_claims=spec.resource_claims, domain=DomainSpec(devices=devices))


def _claims_only_vmi(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
    metadata, kept = _identity(vmi.metadata), vmi.metadata.annotations.get(KEPT_CLAIMS_ANNOTATION, "")
    if kept and len(kept) <= RECORD_MAX:
        metadata = metadata.with_(annotations={KEPT_CLAIMS_ANNOTATION: kept})
    return VirtualMachineInstance(metadata=metadata, spec=_claims_only(vmi.spec))


def _claims_only_vm(vm: VirtualMachine) -> VirtualMachine:
    template = VirtualMachineInstanceTemplate(spec=_claims_only(vm.spec.template.spec))
    return VirtualMachine(metadata=_identity(vm.metadata), spec=VirtualMachineSpec(template=template))


_TRIMS: Final[Mapping[type[TypedObject], Callable[[Any], TypedObject]]] = {
    ResourceClaimTemplate: _template,
    DeviceClass: _class,
    Namespace: _labels_only,
    Node: _labels_only,
    VirtualMachine: _claims_only_vm,
    VirtualMachineInstance: _claims_only_vmi,
}
"""By kind, what is kept of an object; of others :func:`_bare`."""
