"""The outcome for a VM: the hand-overs it passed, their results, and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from webhooks.lint import DENIAL, LintFinding, LintFindingJson


class HandOver(StrEnum):
    """The hand-overs, in order."""

    ADMISSION = "admission"
    LAUNCHER_POD = "launcher pod"
    CLAIMS = "claims"
    PLACEMENT = "placement"
    DEVICE_STATUS = "deviceStatus"
    DOMAIN_XML = "domain XML"


class HandOverFailureJson(TypedDict):
    """Why a VM failed at a hand-over."""

    step: str
    """admission, launcher pod, claims, placement, deviceStatus or domain XML"""
    reason: str
    message: str
    details: list[str]
    """Further lines, one fact each."""
    advice: str
    """The remedy."""


@dataclass(frozen=True)
class HandOverFailure:
    """Why a VM failed at a hand-over. ``details``: further lines, one fact each; ``advice``: the remedy."""

    step: HandOver
    reason: str
    message: str
    advice: str
    details: tuple[str, ...] = ()

    def to_json(self) -> HandOverFailureJson:
        return {
            "step": str(self.step),
            "reason": self.reason,
            "message": self.message,
            "details": list(self.details),
            "advice": self.advice,
        }


class ClaimOutcomeJson(TypedDict):
    """A claim entry of a VMI and its ResourceClaim."""

    entry: str
    claim: str
    template: str | None
    """The ResourceClaimTemplate that the claim was made of."""


@dataclass(frozen=True)
class ClaimOutcome:
    """One claim entry of the VMI and its ResourceClaim; ``template`` if that was generated."""

    entry: str
    claim: str
    template: str | None

    def to_json(self) -> ClaimOutcomeJson:
        return {"entry": self.entry, "claim": self.claim, "template": self.template}


class DeviceOutcomeJson(TypedDict):
    """A device entry or network of a VM, and the device allocated to it."""

    device: str
    """gpus/NAME, hostDevices/NAME or networks/NAME."""
    claim: str | None
    request: str | None
    allocated: str | None
    """driver/pool/device; only the device where that is all that is known."""
    pciAddress: str | None
    mdevUUID: str | None
    source: str | None
    """Where the launcher found the address: status, metadata or environment."""
    xml: str | None
    """The element of the domain."""
    binding: str | None
    """The binding plugin that attaches a network's device by itself."""


@dataclass(frozen=True)
class DeviceOutcome:
    """An entry ``gpus/NAME``, ``hostDevices/NAME`` or ``networks/NAME``, and the device allocated to it."""

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

    def to_json(self) -> DeviceOutcomeJson:
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


class VmOutcomeJson(TypedDict):
    """The outcome for one VM."""

    kind: str
    namespace: str
    name: str
    source: str
    """The file and line that the VM came from."""
    ready: bool
    """Its domain could be rendered, and the lint has no denial."""
    takenOver: bool
    """It runs in the input already."""
    findings: list[LintFindingJson]
    warnings: list[str]
    pod: str | None
    claims: list[ClaimOutcomeJson]
    node: str | None
    devices: list[DeviceOutcomeJson]
    domain: str | None
    """The libvirt domain."""
    failure: HandOverFailureJson | None


@dataclass(frozen=True)
class VmOutcome:
    """The outcome for one VM. It is ready if its domain could be rendered and the lint has no denial."""

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
        """True if a finding keeps the VM from being ready. A running VM is ready all the same."""
        return not self.taken_over and any(finding.severity == DENIAL for finding in self.findings)

    @property
    def ready(self) -> bool:
        return self.failure is None and self.domain is not None and not self.denied

    def to_json(self) -> VmOutcomeJson:
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "source": self.source,
            "ready": self.ready,
            "takenOver": self.taken_over,
            "findings": [finding.to_json() for finding in self.findings],
            "warnings": list(self.warnings),
            "pod": self.pod,
            "claims": [claim.to_json() for claim in self.claims],
            "node": self.node,
            "devices": [device.to_json() for device in self.devices],
            "domain": self.domain,
            "failure": self.failure.to_json() if self.failure else None,
        }
