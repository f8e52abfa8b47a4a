"""What a removal removes, and what it keeps. Pure: facts in, a plan out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION
from virt_dra.api.wire import Json
from virt_dra.installation.plan import ObjectKey, is_ours, removal_order
from virt_dra.installation.survey import VMS


@dataclass(frozen=True)
class Removal:
    """``keys``: in the order of removal. ``annotated``: VMIs that keep the operator's annotation otherwise. ``kept``: definitions of VMs.
    ``lost``: objects that go with their definition, by definition."""

    namespace: str
    keys: tuple[ObjectKey, ...]
    annotated: tuple[ObjectKey, ...]
    kept: tuple[str, ...]
    lost: Mapping[str, int]


def namespaces_of(deployments: Iterable[Json], namespaces: Iterable[Json]) -> tuple[str, ...]:
    """Where virt-dra is, by its Deployments and Namespaces, which have our label."""
    return tuple(sorted({each["metadata"]["namespace"] for each in deployments} | {each["metadata"]["name"] for each in namespaces}))


def removal(namespace: str, there: Iterable[Json], stored: Mapping[str, Iterable[Json]], *, delete_vms: bool) -> Removal:
    """``there``: objects with our label, cluster-scoped or in the namespace. ``stored``: what is kept under each of our definitions, and
    the VMIs of KubeVirt, by the name of the definition.

    The definitions of VMs go only if that is asked for, because every VM goes with them. A Namespace goes if it is ours.
    """
    objects = [obj for obj in there if is_ours(obj) and not obj["metadata"].get("ownerReferences")]
    keys = {ObjectKey.of(obj) for obj in objects}
    keys = {key for key in keys if key.kind != "Namespace" or key.name == namespace}
    definitions = {key.name for key in keys if key.kind == "CustomResourceDefinition"}
    kept = () if delete_vms else tuple(sorted(definitions & set(VMS)))
    keys -= {ObjectKey("CustomResourceDefinition", "", name) for name in kept}
    leaving = definitions - set(kept)
    annotated = tuple(
        ObjectKey.of(vmi, "VirtualMachineInstance")
        for name, vmis in stored.items()
        if name == VMS[1] and name not in leaving
        for vmi in vmis
        if DEVICE_STATUS_ANNOTATION in (vmi["metadata"].get("annotations") or {})
    )
    lost = {name: sum(1 for _ in stored.get(name, ())) for name in sorted(leaving)}
    return Removal(namespace, removal_order(keys), annotated, kept, lost)
