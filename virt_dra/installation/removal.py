"""The plan of a removal: what is removed, in which order, and what is kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, RETRY_ANNOTATION
from virt_dra.api.wire import Json
from virt_dra.installation.plan import ObjectKey, is_ours, possible_namespaces, removal_order
from virt_dra.installation.survey import VMIS, VMS

VMI_ANNOTATIONS: Final = frozenset((DEVICE_STATUS_ANNOTATION, RETRY_ANNOTATION))
"""What the operator writes on KubeVirt's VMIs."""


@dataclass(frozen=True)
class Removal:
    """What an uninstallation removes and keeps. ``keys``: objects to remove, in order. ``annotated``: VMIs with the
    operator's annotations, to be removed. ``kept``: CRDs of VMs that stay. ``lost``: how many objects are deleted with
    each CRD."""

    namespace: str
    keys: tuple[ObjectKey, ...]
    annotated: tuple[ObjectKey, ...]
    kept: tuple[str, ...]
    lost: Mapping[str, int]

    def sentences(self) -> list[str]:
        """The plan for the user, one sentence per change."""
        names, lost = " and ".join(sorted(VMI_ANNOTATIONS)), ((name, of) for name, of in self.lost.items() if of)
        return [
            *(f"to be removed: {key}" for key in self.keys),
            *(f"to be deleted with it: {counted(count, 'object')} of {name}" for name, count in lost),
            *(f"annotations {names} to be removed: {key}" for key in self.annotated),
            *(f"kept, with all its objects: CustomResourceDefinition {name} (see --delete-vms)" for name in self.kept),
        ]


def namespaces_of(deployments: Iterable[Json], namespaces: Iterable[Json]) -> tuple[str, ...]:
    """The namespaces in which virt-dra is installed, by the Deployments and Namespaces with our label; those of parts
    go with any."""
    named = {deployment["metadata"]["namespace"] for deployment in deployments}
    named |= {namespace["metadata"]["name"] for namespace in namespaces}
    return tuple(sorted(named.difference(possible_namespaces(""))))


def removal(
    namespace: str, there: Iterable[Json], stored: Mapping[str, Iterable[Json]], *, delete_vms: bool
) -> Removal:
    """The plan for a namespace. ``there``: objects with our label, cluster-scoped or in the namespace. ``stored``: the
    objects of each of our CRDs, and KubeVirt's VMIs, by the name of the CRD.

    CRDs of VMs are removed only with ``delete_vms``, because every VM is deleted with them. A Namespace is removed if
    it is ours.
    """
    objects = [obj for obj in there if is_ours(obj) and not obj["metadata"].get("ownerReferences")]
    keys = {ObjectKey.from_object(obj) for obj in objects}
    keys = {key for key in keys if key.kind != "Namespace" or key.name in possible_namespaces(namespace)}
    crds = {key.name for key in keys if key.kind == "CustomResourceDefinition"}
    kept = () if delete_vms else tuple(sorted(crds & set(VMS)))
    keys -= {ObjectKey("CustomResourceDefinition", "", name) for name in kept}
    leaving = crds - set(kept)
    annotated = tuple(
        ObjectKey.from_object(vmi, "VirtualMachineInstance")
        for name, vmis in stored.items()
        if name == VMIS and name not in leaving
        for vmi in vmis
        if not VMI_ANNOTATIONS.isdisjoint(vmi["metadata"].get("annotations") or {})
    )
    lost = {name: sum(1 for _ in stored.get(name, ())) for name in sorted(leaving)}
    return Removal(namespace, removal_order(keys), annotated, kept, lost)
