"""What the command answers of one VMI: its domain, why there is none, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass

from launcher import AddressSources, Conversion, Dialect, HostTopology, LauncherError, convert
from launcher.comparison.differences import DomainDifference, differences
from launcher.comparison.facts import DomainFacts, GuestPlace, facts
from launcher.elements.page import compact, element
from launcher.schema import schema_faults
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.wire import Json, WireError
from virt_dra.cli.domain_xml.inputs import SubjectVm


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

    def to_json(self) -> Json:
        asked: Json = {}
        if self.invalid is not None:
            asked["invalid"] = list(self.invalid)
        if self.differing is not None:
            asked["differences"] = [
                {"path": fact.path, "ours": fact.ours, "other": fact.other} for fact in self.differing
            ]
        return {
            "kind": self.subject.kind,
            "namespace": self.subject.vmi.namespace,
            "name": self.subject.vmi.name,
            "devices": _devices(self.made) if self.made is not None else [],
            "placement": dict(_facts(self.made).placement) if self.made is not None else {},
            "domain": self.made.domain_xml if self.made is not None else None,
            "error": self.error,
            "warnings": list(self.warnings),
            **asked,
        }


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


def _devices(made: Conversion) -> list[Json]:
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


def _guest(place: GuestPlace | None) -> Json | None:
    """None where libvirt chooses."""
    return None if place is None else {"address": place.address, "pcieRoot": place.root, "numaCell": place.cell}
