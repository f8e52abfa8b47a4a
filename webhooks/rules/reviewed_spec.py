"""The input of a rule: the spec of a VMI, or of a VM's template, and the feature gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from virt_dra.api.kubevirt_v1 import (
    DeviceEntry,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineInstanceSpec,
    VirtualMachineInstanceTemplate,
)
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, Gates
from webhooks.verdict import AdmissionCause, AdmissionCauseType

VmObject = VirtualMachine | VirtualMachineInstance


@dataclass(frozen=True)
class ReviewedSpec:
    """A VMI spec under review.

    ``root`` is the path of the spec (``spec``, or ``spec.template.spec`` in a VM), ``metadata`` that of its metadata
    (K-2.1).
    """

    spec: VirtualMachineInstanceSpec
    annotations: Mapping[str, str]
    gates: Gates
    root: str
    metadata: str
    instancetype: bool = False
    """True if an instancetype may add to a VM's spec, perhaps devices (K-1.6)."""
    labels: Mapping[str, str] = field(default_factory=dict)
    outsider: bool = False
    """True if the request isn't from one of KubeVirt's own accounts."""

    @classmethod
    def from_vm(cls, obj: VmObject, gates: Gates, outsider: bool = False) -> ReviewedSpec:
        template: VirtualMachineInstance | VirtualMachineInstanceTemplate = (
            obj if isinstance(obj, VirtualMachineInstance) else obj.spec.template
        )
        root = "" if template is obj else "spec.template."
        instancetype = isinstance(obj, VirtualMachine) and bool((obj.spec.model_extra or {}).get("instancetype"))
        meta = template.metadata
        return cls(
            template.spec,
            meta.annotations,
            gates,
            f"{root}spec",
            f"{root}metadata",
            instancetype,
            meta.labels,
            outsider,
        )

    def path(self, field: str) -> str:
        """A path below the spec: ``resourceClaims[0]`` -> ``spec.resourceClaims[0]``."""
        return f"{self.root}.{field}"

    def cause(self, type: AdmissionCauseType, field: str, message: str) -> AdmissionCause:
        """A reason to refuse a field below the spec."""
        return AdmissionCause(type, message, self.path(field))

    def listed_claims(self) -> frozenset[str]:
        """The names that devices and networks may refer to (K-1.4)."""
        return frozenset(entry.name for entry in self.spec.resource_claims)


Rule = Callable[[ReviewedSpec], Iterator[AdmissionCause]]


@dataclass(frozen=True)
class DeviceList:
    """One of a VMI's two lists of devices, with its words in messages."""

    path: str
    word: str
    gate: str

    @property
    def plural(self) -> str:
        return f"{self.word}s"

    @property
    def field(self) -> str:
        return f"domain.devices.{self.path}"

    def devices(self, spec: VirtualMachineInstanceSpec) -> tuple[DeviceEntry, ...]:
        devices = spec.domain.devices
        return devices.gpus if self is GPUS else devices.host_devices


GPUS = DeviceList("gpus", "GPU", GPUS_WITH_DRA)
HOST_DEVICES = DeviceList("hostDevices", "HostDevice", HOST_DEVICES_WITH_DRA)
DEVICE_LISTS = (GPUS, HOST_DEVICES)
