"""The volumes of a model: which PersistentVolumeClaims are there, or will be, and which volumes a class has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.meta import UnknownObject
from virt_dra.api.policies.storage_v1 import PersistentVolume
from virt_dra.model.cluster import ClusterModel, ModelIndex

_DATA_VOLUME: Final = "cdi.kubevirt.io/v1beta1 DataVolume"

volumes_of_class: Final = ModelIndex(PersistentVolume, lambda volume: (volume.class_name,))
"""PersistentVolumes by the name of their StorageClass."""


def _templates(vm: VirtualMachine) -> Iterator[str]:
    """The claims that are made for a VM, by the names of its dataVolumeTemplates."""
    templates = (vm.spec.model_extra or {}).get("dataVolumeTemplates")
    for template in templates if isinstance(templates, list) else ():
        metadata = template.get("metadata") if isinstance(template, dict) else None
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(name, str):
            yield f"{vm.namespace}/{name}"


_claims_of_vms: Final = ModelIndex(VirtualMachine, _templates)


def is_claim_to_come(model: ClusterModel, key: str) -> bool:
    """Whether CDI is going to make a PersistentVolumeClaim, for a DataVolume or a VM's template of one."""
    return f"{_DATA_VOLUME} {key}" in model.by_key(UnknownObject) or bool(_claims_of_vms(model, key))
