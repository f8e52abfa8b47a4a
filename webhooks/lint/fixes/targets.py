"""Repairs -> the objects of the input that they change, and how."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from virt_dra.api.editing.changes import AppendItem, CannotChange, MemberPath, RenameMember, SetMember, ValueChange
from virt_dra.api.editing.version_changes import version_changes
from virt_dra.api.integration.known_drivers import NVIDIA
from virt_dra.api.reading.documents import DocumentSource
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from webhooks.lint.fixes.repairs import DeviceName, KeyRepair, OwnRepair, Repair, VersionRepair, VfioRepair
from webhooks.lint.manifest import Identity, Manifest

ChangesOfObjects = Mapping[DocumentSource, tuple[ValueChange, ...]]

_IOMMU: Final = {"backendPolicy": "LegacyOnly", "enableAPIDevice": True}
_VFIO: Final = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "VfioDeviceConfig", "iommu": _IOMMU}


class RepairTargets:
    """The objects of an input, by what repairs say about them. ``editable``: the names of the texts that may be
    changed."""

    def __init__(self, manifests: Sequence[Manifest], editable: Collection[str]) -> None:
        self._manifests = manifests
        self._editable = editable
        self._by_source = {manifest.source: manifest for manifest in manifests}
        # Of two the later counts.
        self._by_identity: dict[Identity, Manifest] = {manifest.identity: manifest for manifest in manifests}

    def changes_of(self, repair: Repair, source: DocumentSource) -> ChangesOfObjects:
        """The changes of each object. ``source``: of the object that has the finding. Raises :class:`CannotChange`,
        also if a change would change nothing."""
        changes = self._changes_of(repair, source)
        for document in changes:
            if document.name not in self._editable:
                raise CannotChange(f"{document.name} isn't a file that can be changed")
        if not any(changes.values()):
            raise CannotChange("nothing of it can be corrected mechanically")
        return changes

    def _changes_of(self, repair: Repair, source: DocumentSource) -> ChangesOfObjects:
        if isinstance(repair, VfioRepair):
            target = self._by_identity.get((repair.kind, repair.namespace, repair.name))
            if target is None or not isinstance(target.raw, dict):
                raise CannotChange(f'{repair.kind} "{repair.name}" is not in the files')
            return {target.source: tuple(_vfio_changes(target.raw, repair))}
        if isinstance(repair, KeyRepair):
            return self._renames(repair)
        own = self._by_source.get(source)
        if own is None or not isinstance(own.raw, dict):
            raise CannotChange("the object is not in the files")
        if isinstance(repair, VersionRepair):
            return {source: version_changes(own.raw)}
        assert isinstance(repair, OwnRepair)
        return {source: repair.changes}

    def _renames(self, repair: KeyRepair) -> ChangesOfObjects:
        renames: dict[DocumentSource, list[ValueChange]] = {}
        for device, written, wanted in repair.renames:
            places = self._devices.get(device, ())
            if not places:
                driver, pool, name = device
                raise CannotChange(f"device {name} (driver {driver}, pool {pool}) is not in the files")
            for source, path in places:
                renames.setdefault(source, []).append(RenameMember((*path, "attributes", written), wanted))
        return {source: tuple(changes) for source, changes in renames.items()}

    @cached_property
    def _devices(self) -> Mapping[DeviceName, Sequence[tuple[DocumentSource, MemberPath]]]:
        """The places where the devices of each pool's newest generation are written."""
        slices = [(item, item.object) for item in self._manifests if isinstance(item.object, ResourceSlice)]
        newest: dict[tuple[str, str], int] = {}
        for _, obj in slices:
            generation = obj.spec.pool.generation
            newest[obj.pool_key] = max(newest.get(obj.pool_key, generation), generation)
        places: dict[DeviceName, list[tuple[DocumentSource, MemberPath]]] = {}
        for manifest, obj in slices:
            current = obj.spec.pool.generation == newest[obj.pool_key]
            for index, device in enumerate(obj.spec.devices if current else ()):
                path: MemberPath = ("spec", "devices", index)
                if isinstance(_at(manifest.raw, (*path, "basic")), dict):
                    path = (*path, "basic")
                places.setdefault((*obj.pool_key, device.name), []).append((manifest.source, path))
        return places


def _vfio_changes(raw: Mapping[str, Any], repair: VfioRepair) -> list[ValueChange]:
    root: MemberPath = ("spec",) if repair.kind == ResourceClaim.KIND else ("spec", "spec")
    configs = (*root, "devices", "config")
    if repair.existing is None:
        config = {"requests": [repair.request], "opaque": {"driver": NVIDIA, "parameters": _VFIO}}
        return [AppendItem(configs, json.dumps(config))]
    parameters = (*configs, repair.existing, "opaque", "parameters")
    given = _at(raw, (*parameters, "iommu"))
    if not isinstance(given, dict):
        return [SetMember((*parameters, "iommu"), json.dumps(_IOMMU))]
    wrong = {name: value for name, value in _IOMMU.items() if json.dumps(given.get(name)) != json.dumps(value)}
    return [SetMember((*parameters, "iommu", name), json.dumps(value)) for name, value in wrong.items()]


def _at(value: object, path: MemberPath) -> object:
    for step in path:
        try:
            value = value[step]  # type: ignore[index] # what can't be indexed raises TypeError
        except (KeyError, IndexError, TypeError):
            return None
    return value
