"""Our CustomResourceDefinitions: the types' own schemas, and what types can't say (required, bounds, list keys, CEL
rules, columns).

``manifests/crds`` holds :data:`BESIDE_KUBEVIRT`, :data:`STANDALONE`, :data:`PROFILES`, :data:`KEEPER` and
:data:`NODE_DRIVER` as YAML; a test holds them together. Why it is like this: docs/decisions/0014-manifests.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from devtools.crds import device_profile_schema, keep_policy_schema, node_policy_schema
from devtools.crds.field_descriptions import DESCRIPTIONS
from devtools.crds.structural import NOT_DESCRIBED, Additions, Descriptions, object_schema
from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api import virt_dra_v1alpha1 as ours
from virt_dra.api.core_v1 import PodResourceClaim, Toleration
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.meta import Condition, TypedObject
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.wire import Json, Wire

PART_OF: Final = {"app.kubernetes.io/part-of": "virt-dra"}
_KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""Helm, and GitOps tools that follow it, remove a release without such a definition: all VMs would go with it."""
MANY: Final = 256
"""The most members of a list in a VM. A pod has far fewer devices; CEL's cost estimate needs a bound."""
TEXT: Final = 1024
"""The most characters of a name in the schema. Lower limits are the webhook's to report, in KubeVirt's words."""


@dataclass(frozen=True)
class Column:
    """A column of ``kubectl get``; those of priority 1 are shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def to_wire(self) -> Json:
        return {"name": self.name, "type": self.type, "jsonPath": self.path} | (
            {"priority": self.priority} if self.priority else {}
        )


def rule(expression: str, message: str, **more: str) -> Json:
    """A CEL rule of a schema (``x-kubernetes-validations``)."""
    return {"rule": expression, "message": message, **more}


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_NAME: Json = {"minLength": 1, "maxLength": TEXT}
_SHORT: Json = {"maxLength": TEXT}
_CLAIM: Json = {
    "type": "object",
    "properties": {"name": {"type": "string", **_SHORT}, "request": {"type": "string", **_SHORT}},
}


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


def _same(spelling: str, upstream: str) -> Json:
    """A rule that the two spellings of a claim reference must not contradict each other (K-1.8)."""
    given = f"has(self.claim) && has(self.claim.{spelling}) && has(self.{upstream})"
    return rule(
        f"!({given}) || self.claim.{spelling} == self.{upstream}",
        f"claim.{spelling} and {upstream} differ; give only one of them",
    )


_DEVICE = Additions(
    itself={
        "required": ["name"],
        "x-kubernetes-validations": [_same("name", "claimName"), _same("request", "requestName")],
    },
    fields={"name": _SHORT, "deviceName": _SHORT, "claimName": _SHORT, "requestName": _SHORT, "tag": _SHORT},
    extra={"claim": _CLAIM},
)
_NAMED = Additions(itself={"required": ["name"]}, fields={"name": _SHORT})
_KEYED_BY_NAME: Json = {"maxItems": MANY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_ATOMIC: Json = {"maxItems": MANY, "x-kubernetes-list-type": "atomic"}

_VIRTUAL_MACHINES: Final[Mapping[type[Wire], Additions]] = {
    kubevirt.VirtualMachineInstance: Additions(itself={
        "required": ["spec"],
        "x-kubernetes-validations": [rule("self.spec == oldSelf.spec", "update of VMI object is "
"restricted", fieldPath=".spec")],
    }),
    kubevirt.VirtualMachine: Additions(itself={"required": ["spec"]}),
    kubevirt.VirtualMachineSpec: Additions(
        itself={
            "required": ["template"],
            "x-kubernetes-validations": [
                rule("!(has(self.running) && has(self.runStrategy))", "Running and RunStrategy are mutually exclusive")
            ],
        },
        fields={"runStrategy": {"enum": ["Always", "Halted", "Manual", "Once", "RerunOnFailure", "WaitAsReceiver"]}},
    ),
    kubevirt.VirtualMachineInstanceSpec: Additions(
        fields={"resourceClaims": _KEYED_BY_NAME, "networks": _ATOMIC, "volumes": _ATOMIC, "tolerations": _ATOMIC}
    ),
    kubevirt.Devices: Additions(fields={"gpus": _ATOMIC, "hostDevices": _ATOMIC, "interfaces": _ATOMIC,
        "disks": _ATOMIC}),
    kubevirt.GPU: _DEVICE,
    kubevirt.HostDevice: _DEVICE,
    kubevirt.Interface: _NAMED,
    kubevirt.Disk: _NAMED,
    kubevirt.Network: _NAMED,
    PodResourceClaim: Additions(
        itself={"required": ["name"]},
        fields={"name": _SHORT, "resourceClaimName": _SHORT, "resourceClaimTemplateName": _SHORT}
    ),
    Toleration: Additions(fields={"tolerationSeconds": {"format": "int64"}}),
    kubevirt.DeviceStatus: Additions(fields={"gpuStatuses": _ATOMIC, "hostDeviceStatuses": _ATOMIC}),
    kubevirt.DeviceStatusInfo: _NAMED,
}  # fmt: skip
_MESSAGE: Json = {"maxLength": 32768}
_PCI: Json = {"maxLength": 16, "pattern": r"^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$"}
_UUID: Json = {"maxLength": 36, "pattern": r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"}
_DEVICES: Final[Mapping[type[Wire], Additions]] = {
    **{kind: _VIRTUAL_MACHINES[kind] for kind in (kubevirt.DeviceStatus, kubevirt.DeviceStatusInfo)},
    ours.VirtualMachineInstanceDevicesStatus: Additions(
        fields={
            "ready": {"pattern": "^[0-9]+/[0-9]+$", "maxLength": 16},
            "devices": {"maxItems": 2 * MANY, "x-kubernetes-list-type": "atomic"},
            "conditions": {"maxItems": 16, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        }
    ),
    ours.MigrationTarget: Additions(
        itself={"required": ["podName", "podUID"]},
        fields={
            "ready": {"pattern": "^[0-9]+/[0-9]+$", "maxLength": 16},
            "devices": {"maxItems": 2 * MANY, "x-kubernetes-list-type": "atomic"},
        },
    ),
    ours.VmiDevice: Additions(
        itself={
            "required": ["name", "kind", "state"],
            "x-kubernetes-validations": [
                rule(
                    "self.state != 'Resolved' || has(self.pciAddress) || has(self.mdevUUID) || self.kind == 'networks'",
                    "a resolved device has an address",
                ),
                rule("self.state == 'Resolved' || has(self.reason)", "a device that isn't resolved has a reason"),
            ],
        },
        fields={
            "kind": {"enum": ["gpus", "hostDevices", "networks"]},
            "state": {"enum": ["Resolved", "Pending", "Error", "Released"]},
            "pciAddress": _PCI,
            "mdevUUID": _UUID,
            "integrationPath": {"enum": ["native", "metadata-shim", "device-plugin", "none"]},
            "message": _MESSAGE,
            "taints": {"maxItems": MANY, "x-kubernetes-list-type": "atomic"},
        },
    ),
    ours.DeviceHealth: Additions(
        itself={"required": ["status"]},
        fields={"status": {"enum": ["Healthy", "Unhealthy", "Unknown"]}, "message": _MESSAGE},
    ),
    Condition: Additions(
        itself={"required": ["type", "status"]},
        fields={
            "type": {"maxLength": 316},
            "status": {"enum": ["True", "False", "Unknown"]},
            "lastTransitionTime": {"format": "date-time"},
            "message": _MESSAGE,
        },
    ),
}
_PARTIAL: Final[frozenset[type[Wire]]] = frozenset({
    kubevirt.VirtualMachineSpec, kubevirt.VirtualMachineInstanceTemplate, kubevirt.VirtualMachineInstanceSpec,
    kubevirt.VirtualMachineInstanceStatus, kubevirt.DomainSpec, kubevirt.Devices, kubevirt.Interface, kubevirt.Disk,
    kubevirt.CPU, kubevirt.NUMA, kubevirt.Memory, kubevirt.Machine, kubevirt.DomainResources, kubevirt.Network,
})  # fmt: skip
"""KubeVirt's types of which we know a part. What it has besides is kept, so that a VM made for KubeVirt can be applied;
entries that name devices and claims are known wholly, and there a misspelt field must not pass in silence."""


@dataclass(frozen=True)
class Definition:
    """A kind of ours, or a kind of KubeVirt's where there is no KubeVirt."""

    kind: type[TypedObject]
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    additions: Mapping[type[Wire], Additions]
    partial: frozenset[type[Wire]] = frozenset()
    categories: tuple[str, ...] = ("all",)
    descriptions: Mapping[type[Wire], Descriptions] = field(default_factory=lambda: NOT_DESCRIBED)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<plural>.<group>``."""
        return f"{self.kind.PLURAL}.{self._group}"

    @property
    def _group(self) -> str:
        return self.kind.API_VERSION.partition("/")[0]

    def to_wire(self) -> Json:
        """The CustomResourceDefinition."""
        version: Json = {
            "name": self.kind.API_VERSION.partition("/")[2],
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.to_wire() for column in self.columns],
            "schema": {"openAPIV3Schema": object_schema(self.kind, self.additions, self.partial, self.descriptions)},
        }
        if self.kind.HAS_STATUS:
            version["subresources"] = {"status": {}}
        names: Json = {
            "kind": self.kind.KIND,
            "listKind": f"{self.kind.KIND}List",
            "plural": self.kind.PLURAL,
            "singular": self.kind.KIND.lower(),
            "shortNames": list(self.short_names),
            "categories": list(self.categories),
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.name,
                "labels": dict(PART_OF),
                **({"annotations": dict(self.annotations)} if self.annotations else {}),
            },
            "spec": {
                "group": self._group,
                "names": names,
                "scope": "Namespaced" if self.kind.NAMESPACED else "Cluster",
                "versions": [version],
            },
        }


DEVICES: Final = Definition(
    ours.VirtualMachineInstanceDevices,
    ("vmid",),
    (
        Column("Ready", ".status.ready"),
        Column("Node", ".status.nodeName"),
        Column("Path", ".status.integrationPaths"),
        Column("Healthy", _condition(ours.DEVICES_HEALTHY)),
        Column("Reason", f'.status.conditions[?(@.type=="{ours.DEVICES_RESOLVED}")].reason'),
        _AGE,
        Column("Pod", ".status.podName", priority=1),
        Column("Message", f'.status.conditions[?(@.type=="{ours.DEVICES_RESOLVED}")].message', priority=1),
    ),
    _DEVICES,
    descriptions=DESCRIPTIONS,
)
VIRTUAL_MACHINE_INSTANCES: Final = Definition(
    kubevirt.VirtualMachineInstance,
    ("vmi", "vmis"),
    (
        _AGE,
        Column("Phase", ".status.phase"),
        Column("NodeName", ".status.nodeName"),
        Column("Ready", _condition("Ready")),
        Column("Reason", ".status.reason", priority=1),
    ),
    _VIRTUAL_MACHINES,
    _PARTIAL,
    annotations=_KEPT,
)
VIRTUAL_MACHINES: Final = Definition(
    kubevirt.VirtualMachine,
    ("vm", "vms"),
    (_AGE, Column("Status", ".status.printableStatus"), Column("Ready", _condition("Ready"))),
    _VIRTUAL_MACHINES,
    _PARTIAL,
    annotations=_KEPT,
)
NODE_POLICIES: Final = Definition(
    VirtDraNodePolicy,
    ("vdnp",),
    (Column("Sets", ".spec.deviceSets[*].name"), _AGE),
    node_policy_schema.ADDITIONS,
    descriptions=node_policy_schema.DESCRIPTIONS,
)
DEVICE_PROFILES: Final = Definition(
    DeviceProfile,
    ("dprof",),
    (
        Column("Devices", ".spec.devices[*].name"),
        Column("VMs", ".status.vms", "integer"),
        Column("Nodes", ".status.fittingNodes", "integer"),
        Column("Reason", ".status.reason"),
        _AGE,
        Column("Message", ".status.message", priority=1),
    ),
    device_profile_schema.ADDITIONS,
    descriptions=device_profile_schema.DESCRIPTIONS,
)
KEEP_POLICIES: Final = Definition(
    KeepPolicy,
    ("kpol",),
    (
        Column("Stopped-For", ".spec.stoppedFor"),
        Column("Devices", ".spec.devices", "integer"),
        Column("Classes", ".spec.classes[*].deviceClassName"),
        _AGE,
    ),
    keep_policy_schema.ADDITIONS,
    descriptions=keep_policy_schema.DESCRIPTIONS,
)
STANDALONE: Final = (VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES)
BESIDE_KUBEVIRT: Final = (DEVICES,)
NODE_DRIVER: Final = (NODE_POLICIES,)
PROFILES: Final = (DEVICE_PROFILES,)
"""In either mode."""
KEEPER: Final = (KEEP_POLICIES,)
