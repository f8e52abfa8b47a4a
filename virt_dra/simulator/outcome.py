"""What became of a VM: how far it came through the hand-overs, with what, and why no further. Data; the command line renders it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from virt_dra.api.wire import Json
from webhooks.lint import DENIAL, LintFinding


class HandOver(StrEnum):
    """The hand-overs, in order."""

    ADMISSION = "admission"
    LAUNCHER_POD = "launcher pod"
    CLAIMS = "claims"
    PLACEMENT = "placement"
    DEVICE_STATUS = "deviceStatus"
    DOMAIN_XML = "domain XML"


@dataclass(frozen=True)
class HandOverFailure:
    """Why a VM came no further. ``details`` are further lines, one fact each; ``advice`` says what to do."""

    step: HandOver
    reason: str
    message: str
    advice: str
    details: tuple[str, ...] = ()

    def to_json(self) -> Json:
        return {
            "step": str(self.step),
            "reason": self.reason,
            "message": self.message,
            "details": list(self.details),
            "advice": self.advice,
        }


@dataclass(frozen=True)
class ClaimOutcome:
    """One claim entry of the VMI and the object behind it; ``template`` if it was generated."""

    entry: str
    claim: str
    template: str | None

    def to_json(self) -> Json:
        return {"entry": self.entry, "claim": self.claim, "template": self.template}


@dataclass(frozen=True)
class DeviceOutcome:
    """One device entry (``gpus/NAME``, ``hostDevices/NAME``) or network from a claim (``networks/NAME``), and what is known to serve it."""

    device: str
    claim: str | None = None
    request: str | None = None
    allocated: str | None = None
    """``driver/pool/device``; only the device where that is all that is known."""
    pci_address: str | None = None
    mdev_uuid: str | None = None
    source: str | None = None
    """Where the launcher found the address: ``status``, ``metadata`` or ``environment``."""
    xml: str | None = None
    binding: str | None = None
    """The binding plugin that attaches a network's device by itself, so that it gets no element (K-5.32)."""

    def to_json(self) -> Json:
        return {
            "device": self.device,
            "claim": self.claim,
            "request": self.request,
            "allocated": self.allocated,
            "pciAddress": self.pci_address,
            "mdevUUID": self.mdev_uuid,
            "source": self.source,
            "xml": self.xml,
            "binding": self.binding,
        }


@dataclass(frozen=True)
class VmOutcome:
    """How far one VM got. Ready means: libvirt could start it (the domain is written), and the lint has no denial."""

    kind: str
    namespace: str
    name: str
    source: str
    """The file (and line) that the VM came from."""
    warnings: tuple[str, ...] = ()
    pod: str | None = None
    claims: tuple[ClaimOutcome, ...] = ()
    node: str | None = None
    devices: tuple[DeviceOutcome, ...] = ()
    domain: str | None = None
    failure: HandOverFailure | None = None
    taken_over: bool = False
    """Its VMI and launcher pod are those of the input."""
    findings: tuple[LintFinding, ...] = ()
    """The lint's findings on it."""

    @property
    def denied(self) -> bool:
        """Whether a finding keeps it from being ready. What runs already has proved that it can, whatever keeps it from starting anew."""
        return not self.taken_over and any(each.severity == DENIAL for each in self.findings)

    @property
    def ready(self) -> bool:
        return self.failure is None and self.domain is not None and not self.denied

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "source": self.source,
            "ready": self.ready,
            "takenOver": self.taken_over,
            "findings": [each.to_json() for each in self.findings],
            "warnings": list(self.warnings),
            "pod": self.pod,
            "claims": [claim.to_json() for claim in self.claims],
            "node": self.node,
            "devices": [device.to_json() for device in self.devices],
            "domain": self.domain,
            "failure": self.failure.to_json() if self.failure else None,
        }
