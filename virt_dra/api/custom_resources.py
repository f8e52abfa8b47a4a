"""Our CustomResourceDefinitions: the types' own schemas, and what types can't say (required, bounds, list keys, CEL rules, columns).

``manifests/crds`` holds what :func:`definitions` gives, as YAML; a test holds them together. Why it is like this:
docs/decisions/0013-manifests.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api.core_v1 import PodResourceClaim, Toleration
from virt_dra.api.meta import TypedObject
from virt_dra.api.structural_schema import PRESERVE, Additions, object_schema
from virt_dra.api.wire import Json, Wire

PART_OF: Final = {"app.kubernetes.io/part-of": "virt-dra"}
MANY: Final = 256
"""Members that a list of a VM may have. A pod holds far fewer devices; CEL's costs need some bound."""
TEXT: Final = 1024
"""Characters of a name. Longer ones aren't names; shorter ones that are too long are told by the webhook, in KubeVirt's words."""


@dataclass(frozen=True)
class Column:
    """A column of ``kubectl get``; those of priority 1 are shown with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def to_wire(self) -> Json:
        return {"name": self.name, "type": self.type, "jsonPath": self.path} | ({"priority": self.priority} if self.priority else {})


def rule(expression: str, message: str, **more: str) -> Json:
    """A CEL rule of a schema (``x-kubernetes-validations``)."""
    return {"rule": expression, "message": message, **more}


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_NAME: Json = {"minLength": 1, "maxLength": TEXT}
_SHORT: Json = {"maxLength": TEXT}
_CLAIM: Json = {"type": "object", "properties": {"name": {"type": "string", **_SHORT}, "request": {"type": "string", **_SHORT}}}


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


def _same(spelling: str, upstream: str) -> Json:
    """K-1.8."""
    given = f"has(self.claim) && has(self.claim.{spelling}) && has(self.{upstream})"
    return rule(f"!({given}) || self.claim.{spelling} == self.{upstream}", f"claim.{spelling} and {upstream} differ; give only one of them")


_DEVICE = Additions(
    itself={"required": ["name"], "x-kubernetes-validations": [_same("name", "claimName"), _same("request", "requestName")]},
    fields={"name": _SHORT, "deviceName": _SHORT, "claimName": _SHORT, "requestName": _SHORT, "tag": _SHORT},
    extra={"claim": _CLAIM},
)
_NAMED = Additions(itself={"required": ["name"]}, fields={"name": _SHORT})
_KEYED_BY_NAME: Json = {"maxItems": MANY, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_ATOMIC: Json = {"maxItems": MANY, "x-kubernetes-list-type": "atomic"}

_VIRTUAL_MACHINES: Final[Mapping[type[Wire], Additions]] = {
    kubevirt.VirtualMachineInstance: Additions(itself={
        "required": ["spec"],
        "x-kubernetes-validations": [rule("self.spec == oldSelf.spec", "update of VMI object is restricted", fieldPath=".spec")],
    }),
    kubevirt.VirtualMachine: Additions(itself={"required": ["spec"]}),
    kubevirt.VirtualMachineSpec: Additions(
        itself={
            "required": ["template"],
            "x-kubernetes-validations": [
                rule("!(has(self.running) && has(self.runStrategy))", "Running and RunStrategy are mutually exclusive; running is the older one")
            ],
        },
        fields={"runStrategy": {"enum": ["Always", "Halted", "Manual", "Once", "RerunOnFailure", "WaitAsReceiver"]}},
    ),
    kubevirt.VirtualMachineInstanceSpec: Additions(
        fields={"resourceClaims": _KEYED_BY_NAME, "networks": _ATOMIC, "volumes": _ATOMIC, "tolerations": _ATOMIC}
    ),
    kubevirt.Devices: Additions(fields={"gpus": _ATOMIC, "hostDevices": _ATOMIC, "interfaces": _ATOMIC, "disks": _ATOMIC}),
    kubevirt.GPU: _DEVICE,
    kubevirt.HostDevice: _DEVICE,
    kubevirt.Interface: _NAMED,
    kubevirt.Disk: _NAMED,
    kubevirt.Network: _NAMED,
    PodResourceClaim: Additions(
        itself={"required": ["name"]}, fields={"name": _SHORT, "resourceClaimName": _SHORT, "resourceClaimTemplateName": _SHORT}
    ),
    Toleration: Additions(fields={"tolerationSeconds": {"format": "int64"}}),
    kubevirt.DeviceStatus: Additions(fields={"gpuStatuses": _ATOMIC, "hostDeviceStatuses": _ATOMIC}),
    kubevirt.DeviceStatusInfo: _NAMED,
}  # fmt: skip
_PARTIAL: Final = frozenset({
    kubevirt.VirtualMachineSpec, kubevirt.VirtualMachineInstanceTemplate, kubevirt.VirtualMachineInstanceSpec,
    kubevirt.VirtualMachineInstanceStatus, kubevirt.DomainSpec, kubevirt.Devices, kubevirt.Interface, kubevirt.Disk, kubevirt.CPU,
    kubevirt.NUMA, kubevirt.Memory, kubevirt.Machine, kubevirt.DomainResources, kubevirt.Network,
})  # fmt: skip
"""KubeVirt's types of which we know a part. What it has besides is kept, so that a VM made for KubeVirt can be applied; entries that
name devices and claims are known wholly, and there a misspelt field must not pass in silence."""


@dataclass(frozen=True)
class Definition:
    """A kind of ours, or a kind of KubeVirt's where there is no KubeVirt."""

    kind: type[TypedObject]
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    additions: Mapping[type[Wire], Additions]
    partial: frozenset[type[Wire]] = frozenset()
    categories: tuple[str, ...] = ("all",)

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
            "schema": {"openAPIV3Schema": object_schema(self.kind, self.additions, self.partial)},
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
            "metadata": {"name": self.name, "labels": dict(PART_OF)},
            "spec": {
                "group": self._group,
                "names": names,
                "scope": "Namespaced" if self.kind.NAMESPACED else "Cluster",
                "versions": [version],
            },
        }


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
)
VIRTUAL_MACHINES: Final = Definition(
    kubevirt.VirtualMachine,
    ("vm", "vms"),
    (_AGE, Column("Status", ".status.printableStatus"), Column("Ready", _condition("Ready"))),
    _VIRTUAL_MACHINES,
    _PARTIAL,
)
STANDALONE: Final = (VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES)
BESIDE_KUBEVIRT: Final[tuple[Definition, ...]] = ()
