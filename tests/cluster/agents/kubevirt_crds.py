"""KubeVirt's kinds as its API server stores them: schemas that prune what a version doesn't know (K-1.5, K-1.9, K-2.2, K-9.1, K-9.6).

Real KubeVirt's schema is larger by far; what of it isn't ours is kept here without being looked at. Device entries, claim entries, the
status and the fields of each level are exact, for that is where foreign fields must not survive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.custom_resources import Column, Definition
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0, V1_9_0, KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.structural_schema import PRESERVE, Additions
from virt_dra.api.wire import Json, Wire

_KEPT: Final[Json] = {PRESERVE: True}
_NAMED: Final = Additions(itself={"required": ["name"]})
_BY_NAME: Final[Json] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

_SPEC: Final = (
    "priorityClassName", "schedulerName", "topologySpreadConstraints", "evictionStrategy", "startStrategy", "livenessProbe",
    "readinessProbe", "hostname", "subdomain", "dnsPolicy", "dnsConfig", "accessCredentials", "utilityVolumes",
)  # fmt: skip
_DOMAIN: Final = (
    "firmware", "clock", "features", "ioThreadsPolicy", "ioThreads", "chassis", "launchSecurity",
)  # fmt: skip
_DEVICES: Final = (
    "useVirtioTransitional", "disableHotplug", "watchdog", "inputs", "autoattachPodInterface", "autoattachGraphicsDevice",
    "autoattachSerialConsole", "logSerialConsole", "autoattachMemBalloon", "autoattachInputDevice", "autoattachVSOCK", "rng",
    "blockMultiQueue", "networkInterfaceMultiqueue", "downwardMetrics", "panicDevices", "filesystems", "clientPassthrough",
    "sound", "tpm", "video",
)  # fmt: skip
_STATUS: Final = (
    "phaseTransitionTimestamps", "interfaces", "guestOSInfo", "migrationState", "migrationMethod", "migrationTransport",
    "qosClass", "launcherContainerImageVersion", "evacuationNodeName", "volumeStatus", "kernelBootStatus", "fsFreezeStatus",
    "topologyHints", "virtualMachineRevisionName", "runtimeUser", "VSOCKCID", "selinuxContext", "machine", "currentCPUTopology",
    "memory", "migratedVolumes",
)  # fmt: skip


def _kept(names: tuple[str, ...]) -> Additions:
    return Additions(extra=dict.fromkeys(names, _KEPT))


_WHOLE: Final = Additions(itself=_KEPT)
_ADDITIONS: Final[Mapping[type[Wire], Additions]] = {
    kubevirt.VirtualMachineInstance: Additions(itself={"required": ["spec"]}),
    kubevirt.VirtualMachineInstanceSpec: Additions(
        itself={"required": ["domain"]}, fields={"resourceClaims": _BY_NAME}, extra=dict.fromkeys(_SPEC, _KEPT)
    ),
    kubevirt.DomainSpec: _kept(_DOMAIN),
    kubevirt.Devices: _kept(_DEVICES),
    kubevirt.GPU: _NAMED,
    kubevirt.HostDevice: _NAMED,
    PodResourceClaim: _NAMED,
    kubevirt.VirtualMachineInstanceStatus: _kept(_STATUS),
    kubevirt.VirtualMachineSpec: _kept(("dataVolumeTemplates", "instancetype", "preference", "updateVolumesStrategy")),
    **dict.fromkeys(
        (kubevirt.Interface, kubevirt.Disk, kubevirt.CPU, kubevirt.Memory, kubevirt.Machine, kubevirt.DomainResources, kubevirt.Network),
        _WHOLE,
    ),
    kubevirt.KubeVirtSpec: _WHOLE,
    kubevirt.KubeVirtStatus: _WHOLE,
}


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
    made = Definition(kind, short_names, columns, _ADDITIONS).to_wire()
    made["metadata"] = {"name": made["metadata"]["name"], "labels": {"app.kubernetes.io/managed-by": "virt-operator"}}
    _forget_what_is_not_there(schema_of(made), kind, version)
    return made


def schema_of(definition: Json) -> Json:
    """The schema of its one version."""
    schema: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _forget_what_is_not_there(schema: Json, kind: type[TypedObject], version: KubeVirtVersion) -> None:
    """Fields that came later than the version, or are gone in it."""
    spec = schema["properties"]["spec"]["properties"]
    if kind is kubevirt.VirtualMachine:
        spec = spec["template"]["properties"]["spec"]["properties"]
    elif kind is kubevirt.KubeVirt:
        return
    elif not V1_6_0 <= version < V1_8_0:
        del schema["properties"]["status"]["properties"]["deviceStatus"]  # K-1.5
    if version < V1_6_0:
        del spec["resourceClaims"]
        for devices in ("gpus", "hostDevices"):
            entry = spec["domain"]["properties"]["devices"]["properties"][devices]["items"]["properties"]
            del entry["claimName"], entry["requestName"]
    if version < V1_9_0:
        spec["networks"]["items"]["properties"].pop("resourceClaim", None)
        del spec["networks"]["items"][PRESERVE]
        spec["networks"]["items"]["properties"] |= {"pod": _KEPT, "multus": _KEPT, "name": {"type": "string"}}


def pruned(value: object, schema: Json) -> object:
    """What is left of a value when an API server stores it: only fields of the schema, at every level, but where it preserves others."""
    if schema.get(PRESERVE) and "properties" not in schema:
        return value
    if isinstance(value, list):
        return [pruned(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
    kept = {}
    for key, item in value.items():
        if key in properties:
            kept[key] = pruned(item, properties[key])
        elif isinstance(rest, dict):
            kept[key] = pruned(item, rest)
        elif schema.get(PRESERVE):
            kept[key] = item
    return kept


def pruned_object(obj: Json, definition: Json) -> Json:
    """The same for a whole object; its metadata is the API server's own matter."""
    kept = pruned({key: value for key, value in obj.items() if key != "metadata"}, schema_of(definition))
    assert isinstance(kept, dict)
    return {**kept, "metadata": obj.get("metadata", {})}
