"""The volumes that the scheduler's informers show, by key and by class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from virt_dra.api.meta import ObjectT
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.cluster.watching.informer import Informer
from virt_dra.cluster.watching.shared_informers import SharedInformers
from virt_dra.scheduling.filters.volume_binding import KnownVolumes


class FollowedVolumes:
    """``known`` follows the informers once :meth:`follow` was called."""

    def __init__(self, informers: SharedInformers) -> None:
        self._claims = informers.of(PersistentVolumeClaim)
        self._volumes = informers.of(PersistentVolume)
        self._classes = informers.of(StorageClass)
        self._by_class: defaultdict[str, dict[str, PersistentVolume]] = defaultdict(dict)
        self._claims_by_key: dict[str, PersistentVolumeClaim] = {}
        self._volumes_by_key: dict[str, PersistentVolume] = {}
        self._classes_by_key: dict[str, StorageClass] = {}
        self.known = KnownVolumes(
            self._claims_by_key,
            self._volumes_by_key,
            self._classes_by_key,
            lambda name: tuple(self._by_class.get(name, {}).values()),
        )

    def follow(self, changed: Callable[[object, object], None]) -> None:
        """``changed``: called for each change, with the object before and after it."""
        _keep(self._classes, self._classes_by_key, changed)
        _keep(self._volumes, self._volumes_by_key, self._sorted_into_classes(changed))
        _keep(self._claims, self._claims_by_key, changed)

    def _sorted_into_classes(
        self, changed: Callable[[object, object], None]
    ) -> Callable[[PersistentVolume | None, PersistentVolume | None], None]:
        def sort(old: PersistentVolume | None, new: PersistentVolume | None) -> None:
            if old is not None:
                self._by_class[old.class_name].pop(old.name, None)
            if new is not None:
                self._by_class[new.class_name][new.name] = new
            changed(old, new)

        return sort


def _keep(
    informer: Informer[ObjectT], by_key: dict[str, ObjectT], then: Callable[[ObjectT | None, ObjectT | None], None]
) -> None:
    def keep(old: ObjectT | None, new: ObjectT | None) -> None:
        if new is not None:
            by_key[new.key] = new
        elif old is not None:
            by_key.pop(old.key, None)
        then(old, new)

    informer.on_change(keep)
