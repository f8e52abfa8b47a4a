"""KubeVirt's kinds as its API server stores them: schemas that prune what a version doesn't know (K-1.5, K-1.9, K-2.2,
K-9.1, K-9.6).

VM and VMI have the schema that ``admit`` judges by (:mod:`virt_dra.api.schemas.kubevirt_schema`), field for field; of
the KubeVirt object, what isn't ours is kept unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from devtools.crds.custom_resources import Column, Definition
from devtools.crds.structural import Additions
from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.schemas.kubevirt_schema import KINDS, structural_schema
from virt_dra.api.schemas.walk import PRESERVE, Schema, pruned
from virt_dra.api.wire import Json, Wire

_WHOLE: Final = Additions(itself={PRESERVE: True})
_ADDITIONS: Final[Mapping[type[Wire], Additions]] = {kubevirt.KubeVirtSpec: _WHOLE, kubevirt.KubeVirtStatus: _WHOLE}


def definitions(version: KubeVirtVersion) -> tuple[Json, ...]:
    """The CustomResourceDefinitions of one KubeVirt: VMI, VM and KubeVirt itself."""
    kinds: tuple[tuple[type[TypedObject], tuple[str, ...]], ...] = (
        (kubevirt.VirtualMachineInstance, ("vmi", "vmis")),
        (kubevirt.VirtualMachine, ("vm", "vms")),
        (kubevirt.KubeVirt, ("kv", "kvs")),
    )
    return tuple(_definition(kind, names, version) for kind, names in kinds)


def _definition(kind: type[TypedObject], short_names: tuple[str, ...], version: KubeVirtVersion) -> Json:
    columns = (Column("Age", ".metadata.creationTimestamp", "date"), Column("Phase", ".status.phase"))
    made = Definition(kind, short_names, columns, _ADDITIONS if kind.KIND not in KINDS else {}).to_wire()
    made["metadata"] = {"name": made["metadata"]["name"], "labels": {"app.kubernetes.io/managed-by": "virt-operator"}}
    if kind.KIND in KINDS:
        made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = structural_schema(kind.KIND, version)
    return made


@lru_cache(maxsize=64)
def stored_schemas(version: KubeVirtVersion) -> Mapping[str, Schema]:
    """The schemas by which an API server stores objects of these kinds, by kind."""
    return {
        definition["spec"]["names"]["kind"]: Schema.from_structural(
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        )
        for definition in definitions(version)
    }


def pruned_object(obj: Json, schema: Schema) -> Json:
    """What is left of an object when it is stored; its metadata is the API server's own matter."""
    kept: dict[str, Any] = pruned({key: value for key, value in obj.items() if key != "metadata"}, schema)
    return {**kept, "metadata": obj.get("metadata", {})}
