"""The DeviceClass that serves an extended resource (KEP-5004, A-25; C-7.1). Kept change by change, as in
kube-scheduler: which of two classes with one name serves it depends on the order of the changes (C-20.4)."""

from __future__ import annotations

from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.model.cluster import ClusterModel, derived

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Followed by a class's name, it is the extended resource that every class has."""


def is_extended(resource: str) -> bool:
    """Whether devices may serve a resource of this name: its domain isn't Kubernetes' own, or it is an implicit one."""
    if resource.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


class ServedResources:
    """The classes by the extended resources that they serve."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class that serves the resource, as it was when it took the name."""
        return self._classes.get(resource)

    def changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """A class was added, updated or deleted."""
        if new is not None:
            self._take(old, new)
        elif old is not None:
            self._drop(old)

    def _take(self, old: DeviceClass | None, new: DeviceClass) -> None:
        """A class that comes too late gets no name; an update of the class that has it has no effect."""
        resource = new.spec.extended_resource_name
        holder = self._classes.get(resource) if resource else None
        if holder is not None and not _precedes(new, holder):
            return
        if old is not None:
            self._drop(old)
        if resource:
            self._classes[resource] = new
        self._classes[IMPLICIT_PREFIX + new.name] = new

    def _drop(self, gone: DeviceClass) -> None:
        """Forgets the class. Its names then serve no pod, even those that another class claims too."""
        self._classes.pop(IMPLICIT_PREFIX + gone.name, None)
        if gone.spec.extended_resource_name:
            self._classes.pop(gone.spec.extended_resource_name, None)


@derived(DeviceClass)
def served_resources(model: ClusterModel) -> ServedResources:
    """Those of a model's classes, as if they had come in the order of their names; not to be changed."""
    served = ServedResources()
    for device_class in model.of(DeviceClass):
        served.changed(None, device_class)
    return served


def _precedes(device_class: DeviceClass, other: DeviceClass) -> bool:
    """The younger class, and among equally old ones the first by name."""
    born, before = device_class.metadata.creation_timestamp or "", other.metadata.creation_timestamp or ""
    return born > before or (born == before and device_class.name < other.name)
