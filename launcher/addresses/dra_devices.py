"""Devices of ResourceClaims in spec order, each with the address of the first source that has one (K-7.6, KubeVirt 1.8
and newer)."""

from __future__ import annotations

from dataclasses import replace

from launcher.addresses.sources import (
    ENVIRONMENT,
    METADATA,
    ClaimObjects,
    SourcedAddress,
    claim_object_in_status,
    from_environment,
    from_files,
    from_status,
    nothing_found,
    recognised_claim_object,
)
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.display import mdev_with_display, with_default_display
from launcher.elements.hostdev import HostAddress, Hostdev, mdev, pci
from launcher.entry_kinds import GPUS, HOST_DEVICES, EntryKind
from launcher.errors import (
    INCOMPLETE_CLAIM_REQUEST,
    MALFORMED_ADDRESS,
    NO_ADDRESS,
    AddressSyntaxError,
    LauncherError,
)
from launcher.host_addresses.mdev import MdevUuid
from launcher.host_addresses.pci import PciAddress
from virt_dra.api.kubevirt_v1 import GPU, DeviceEntry, DeviceStatusInfo
from virt_dra.api.kubevirt_versions import V1_8_3


def dra_devices(request: ConversionInputs, kind: EntryKind) -> tuple[ConvertedDevice, ...]:
    """The devices of all entries with a claim. Raises :class:`LauncherError` for the first without a usable address."""
    claims = ClaimObjects.for_vmi(request.vmi, request.sources.pod)
    statuses = kind.statuses(request.vmi.status.device_status)
    entries = ((index, entry) for index, entry in enumerate(kind.entries(request.vmi)) if entry.is_dra)
    built = tuple(
        _device(request, kind, index, entry, _resolve(request, kind, entry, statuses, claims))
        for index, entry in entries
    )
    if kind is not GPUS:
        return built
    shown = with_default_display([device.element for device in built], request.vmi.spec.domain.devices.gpus)
    return tuple(replace(device, element=element) for device, element in zip(built, shown, strict=True))


def _resolve(
    request: ConversionInputs,
    kind: EntryKind,
    entry: DeviceEntry,
    statuses: tuple[DeviceStatusInfo, ...],
    claims: ClaimObjects,
) -> tuple[SourcedAddress, tuple[str, ...]]:
    """The first address, and a sentence for each later source that disagrees (K-7.6)."""
    device = f"{kind.path}/{entry.name}"
    claim, wanted = entry.claim_name or "", entry.request_name or ""
    stated = from_status(statuses, entry.name)
    complete = bool(claim and wanted)
    if stated is None and not complete:
        message = f"{kind.dra_failure}{kind.word} {entry.name} has incomplete ClaimRequest"
        raise LauncherError(INCOMPLETE_CLAIM_REQUEST, device, message)
    files = from_files(request, claim, wanted) if complete else None
    read = files.address if files is not None else None
    claim_object = claims.names.get(claim) or claim_object_in_status(statuses, entry.name)
    if stated is None and read is None:
        claim_object = claim_object or recognised_claim_object(request.sources.env, claims, claim, wanted, device)
    variable = from_environment(request.sources.env, claim_object, wanted) if claim_object and wanted else None
    answers = [answer for answer in (stated, read, variable) if answer is not None]
    if not answers:
        where = f"has no mdevUUID or pciBusID in metadata for claim {claim} request {wanted}"
        why = f" ({nothing_found(claims, claim, claim_object, wanted)})"
        if files is not None:
            why = f" (mdev: {files.no_mdev}, pci: {files.no_pci})" if request.version >= V1_8_3 else ""
        raise LauncherError(NO_ADDRESS, device, f"{kind.dra_failure}{kind.word} {entry.name} {where}{why}")
    first, *later = answers
    return first, tuple(_disagreement(device, first, other) for other in later if first.disagrees_with(other))


def _disagreement(device: str, first: SourcedAddress, other: SourcedAddress) -> str:
    kind = {METADATA: "file", ENVIRONMENT: "variable"}
    used = " ".join(filter(None, (kind.get(first.source), first.place)))
    return f"{device}: {used} says {first}, {kind[other.source]} {other.place} says {other}; the first is used"


def _device(
    request: ConversionInputs,
    kind: EntryKind,
    index: int,
    entry: DeviceEntry,
    resolved: tuple[SourcedAddress, tuple[str, ...]],
) -> ConvertedDevice:
    answer, notes = resolved
    device, gpu = f"{kind.path}/{entry.name}", entry if isinstance(entry, GPU) else None
    address, element = dra_element(kind, entry.name, answer, mdev_model(request, kind), gpu)
    return ConvertedDevice(device, answer.source, address, element, kind.field(index), is_dra=True, notes=notes)


def mdev_model(request: ConversionInputs, kind: EntryKind) -> str:
    """The model of mdevs: ``vfio-ap`` for host devices on s390x, which are crypto adapters (K-7.15)."""
    return "vfio-ap" if kind is HOST_DEVICES and request.vmi.spec.architecture == "s390x" else "vfio-pci"


def dra_element(
    kind: EntryKind, name: str, answer: SourcedAddress, model: str, gpu: GPU | None
) -> tuple[HostAddress, Hostdev]:
    """The address and element: an mdev if there is one, else the PCI function (K-6.5). PCI GPUs of claims never get a
    display (K-7.19)."""
    try:
        if answer.mdev:
            uuid = MdevUuid.parse(answer.mdev)
            return uuid, mdev_with_display(gpu, mdev(uuid, kind.dra_alias + name, model))
        address = PciAddress.parse(answer.pci)
    except AddressSyntaxError as error:
        address_kind = "mdev" if answer.mdev else "PCI"
        message = f"{kind.dra_failure}failed to create {address_kind} device for {name}: {error}"
        raise LauncherError(MALFORMED_ADDRESS, f"{kind.path}/{name}", message) from None
    return address, pci(address, kind.dra_alias + name)
