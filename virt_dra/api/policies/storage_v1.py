"""Storage that pods ask for, as far as it decides where they run: core/v1's PersistentVolumeClaim and PersistentVolume,
storage.k8s.io/v1's StorageClass."""

from __future__ import annotations

from typing import ClassVar

from virt_dra.api.core_v1 import LabelSelector, NodeSelector, ObjectReference
from virt_dra.api.meta import TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import EMPTY_MAP, List, Map, Str, Wire

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim whose binding to a volume is complete."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim whose volume is being made for this node."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
LOST = "Lost"
AVAILABLE = "Available"
FILESYSTEM = "Filesystem"
STORAGE = "storage"
_CLASS = "volume.beta.kubernetes.io/storage-class"


class StorageRequests(Wire):
    requests: Map[Quantity] = EMPTY_MAP


class PersistentVolumeClaimSpec(Wire):
    access_modes: List[Str] = ()
    selector: LabelSelector | None = None
    resources: StorageRequests = StorageRequests.empty()
    volume_name: Str = ""
    storage_class_name: Str | None = None
    volume_mode: Str | None = None
    volume_attributes_class_name: Str | None = None


class PersistentVolumeClaimStatus(Wire):
    phase: Str = ""


class PersistentVolumeClaim(TypedObject):
    API_VERSION: ClassVar[str] = "v1"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec.empty()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus.empty()

    @property
    def is_bound(self) -> bool:
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def class_name(self) -> str:
        """The name of its StorageClass, "" without one."""
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name or "")


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    capacity: Map[Quantity] = EMPTY_MAP
    access_modes: List[Str] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: Str = ""
    volume_mode: Str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: Str | None = None


class PersistentVolumeStatus(Wire):
    phase: Str = ""


class PersistentVolume(TypedObject):
    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec.empty()
    status: PersistentVolumeStatus = PersistentVolumeStatus.empty()

    @property
    def class_name(self) -> str:
        return self.metadata.annotations.get(_CLASS, self.spec.storage_class_name)


class TopologySelectorRequirement(Wire):
    key: Str = ""
    values: List[Str] = ()


class TopologySelectorTerm(Wire):
    match_label_expressions: List[TopologySelectorRequirement] = ()


class StorageClass(TypedObject):
    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"
    NAMESPACED: ClassVar[bool] = False

    provisioner: Str = ""
    volume_binding_mode: Str | None = None
    allowed_topologies: List[TopologySelectorTerm] = ()

    @property
    def waits(self) -> bool:
        """Whether claims of the class are bound once a pod that uses them has a node."""
        return self.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
