"""What the command answers of one VMI: its domain, why there is none, and what was found of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NotRequired, TypedDict

from launcher import AddressSources, Conversion, Dialect, HostTopology, LauncherError, convert
from launcher.comparison.differences import DomainDifference, differences
from launcher.comparison.facts import DomainFacts, GuestPlace, facts
from launcher.elements.page import compact, element
from launcher.schema import schema_faults
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import WireError
from virt_dra.cli.domain_xml.inputs import SubjectVm


class GuestPlaceJson(TypedDict):
    """A device's place in the guest."""

    address: str
    pcieRoot: int | None
    """Index of the PCI controller at the root above it; null for another bus."""
    numaCell: int | None
    """The guest's NUMA cell that this root belongs to."""


class ConvertedDeviceJson(TypedDict):
    """A device of a domain."""

    device: str
    """gpus/NAME, hostDevices/NAME or interfaces/NAME."""
    field: str
    """The path of its entry in the VMI."""
    source: str
    """Where its address was found: status, metadata or environment."""
    address: str
    """On the host: a PCI address, the UUID of a mediated device, or a USB bus and device."""
    guest: GuestPlaceJson | None
    """null where libvirt chooses."""
    element: str
    """The <hostdev> as it is in the domain."""


class DomainDifferenceJson(TypedDict):
    """In what two domains differ."""

    path: str
    ours: str | None
    """null where only the other domain has it."""
    other: str | None
    """null where only ours has it."""


class ConvertedVmJson(TypedDict):
    """A VM or VMI, and the domain that it becomes."""

    kind: str
    """VirtualMachine or VirtualMachineInstance."""
    namespace: str
    name: str
    devices: list[ConvertedDeviceJson]
    """In the order of the domain's <hostdev> elements."""
    placement: Mapping[str, str]
    """Path in the domain -> value, of what decides on which node of the host memory, vCPUs and devices are."""
    domain: str | None
    """The <domain>; null where there is an error."""
    error: str | None
    """Why there is no domain, in KubeVirt's words where it has some."""
    warnings: list[str]
    invalid: NotRequired[list[str]]
    """With --validate: what libvirt's schema doesn't allow."""
    differences: NotRequired[list[DomainDifferenceJson]]
    """With --diff."""


class DomainListJson(TypedDict):
    """The domains of VMs."""

    domains: list[ConvertedVmJson]
    """One for each VM or VMI, in the order of the files."""


@dataclass(frozen=True)
class DomainRequest:
    """How domains are made. ``cpus``: the pod's; None for all of the host's. ``other``: what they are compared with;
    None for nothing."""

    sources: AddressSources
    version: KubeVirtVersion
    dialect: Dialect
    topology: HostTopology | None
    cpus: tuple[int, ...] | None
    validate: bool
    other: DomainFacts | None


@dataclass(frozen=True)
class DomainAnswer:
    """``error``: why there is no domain, None where there is one. ``invalid``: what libvirt's schema doesn't allow;
    ``differing``: from the other domain; None for what wasn't asked."""

    subject: SubjectVm
    made: Conversion | None = None
    error: str | None = None
    invalid: tuple[str, ...] | None = None
    differing: tuple[DomainDifference, ...] | None = None

    @property
    def good(self) -> bool:
        return self.error is None and not self.invalid and not self.differing

    @property
    def warnings(self) -> tuple[str, ...]:
        return (*self.subject.warnings, *(self.made.warnings if self.made is not None else ()))

    def to_json(self) -> ConvertedVmJson:
        document: ConvertedVmJson = {
            "kind": self.subject.kind,
            "namespace": self.subject.vmi.namespace,
            "name": self.subject.vmi.name,
            "devices": _devices(self.made) if self.made is not None else [],
            "placement": dict(_facts(self.made).placement) if self.made is not None else {},
            "domain": self.made.domain_xml if self.made is not None else None,
            "error": self.error,
            "warnings": list(self.warnings),
        }
        if self.invalid is not None:
            document["invalid"] = list(self.invalid)
        if self.differing is not None:
            document["differences"] = [
                {"path": fact.path, "ours": fact.ours, "other": fact.other} for fact in self.differing
            ]
        return document


def answer(subject: SubjectVm, request: DomainRequest) -> DomainAnswer:
    """Raises :class:`LauncherError` where libvirt's schema is asked for and isn't installed."""
    if subject.refusals:
        return DomainAnswer(subject, error="; ".join(subject.refusals))
    try:
        made = convert(
            subject.vmi,
            request.sources,
            kubevirt=request.version,
            dialect=request.dialect,
            topology=request.topology,
            cpus=request.cpus,
        )
    except (LauncherError, WireError) as error:
        return DomainAnswer(subject, error=str(error))
    invalid = schema_faults(made.domain_xml) if request.validate else None
    differing = differences(_facts(made), request.other) if request.other is not None else None
    return DomainAnswer(subject, made, None, invalid, differing)


def _facts(made: Conversion) -> DomainFacts:
    return facts(element(made.domain))


def _devices(made: Conversion) -> list[ConvertedDeviceJson]:
    return [
        {
            "device": device.device,
            "field": device.field,
            "source": device.source,
            "address": str(device.address),
            "guest": _guest(fact.place),
            "element": compact(page),
        }
        for device, page, fact in zip(made.hostdevs, made.domain.hostdevs, _facts(made).hostdevs, strict=True)
    ]


def _guest(place: GuestPlace | None) -> GuestPlaceJson | None:
    """None where libvirt chooses."""
    return None if place is None else {"address": place.address, "pcieRoot": place.root, "numaCell": place.cell}
