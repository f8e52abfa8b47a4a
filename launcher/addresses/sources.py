"""The sources of a DRA device's address, and their precedence (K-7.5, K-7.6).

In order: an explicit ``status.deviceStatus``, a metadata file (:mod:`launcher.addresses.metadata_files`), a variable
``PCI_RESOURCE_<claim object>_<request>`` or ``MDEV_PCI_RESOURCE_<claim object>_<request>``. The first one that has an
address is used; a warning reports later ones that disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from launcher.addresses.metadata_files import FileDevice, MetadataError, device_of
from launcher.addresses.pools import MDEV_PREFIX, PCI_PREFIX
from launcher.conversion import ConversionInputs
from launcher.errors import AMBIGUOUS_VARIABLE, LauncherError
from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.kubevirt_v1 import DeviceStatusInfo, VirtualMachineInstance

STATUS = "status"
METADATA = "metadata"
ENVIRONMENT = "environment"


@dataclass(frozen=True)
class SourcedAddress:
    """The address in one source. At least one of the two is set; both together mean an mdev and its parent (K-6.5)."""

    source: str
    place: str
    """The status entry, file or variable, for messages."""
    pci: str = ""
    mdev: str = ""

    def __str__(self) -> str:
        return " and ".join(address for address in (self.mdev, self.pci) if address)

    def disagrees_with(self, other: SourcedAddress) -> bool:
        """True if the two can't be the same device: they differ in a kind that both have, or have no kind in common."""
        both = [(mine, theirs) for mine, theirs in ((self.mdev, other.mdev), (self.pci, other.pci)) if mine and theirs]
        return not both or any(mine.lower() != theirs.lower() for mine, theirs in both)


@dataclass(frozen=True)
class ClaimObjects:
    """The names of the ResourceClaim objects by pod-local claim name, as far as the launcher can know them."""

    names: Mapping[str, str]
    listed: frozenset[str]
    generated_prefix: str
    """The prefix of the names of this VMI's pods, after which generated claims are named (C-3)."""

    @classmethod
    def for_vmi(cls, vmi: VirtualMachineInstance, pod: Pod | None) -> ClaimObjects:
        """The claims of a VMI. Generated names are in the pod's status, direct ones in the entry itself (K-3.3)."""
        entries: tuple[PodResourceClaim, ...] = (*vmi.spec.resource_claims, *(pod.spec.resource_claims if pod else ()))
        names = {entry.name: entry.resource_claim_name for entry in entries if entry.resource_claim_name}
        if pod is not None:
            names |= {
                s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses if s.resource_claim_name
            }
        return cls(names, frozenset(entry.name for entry in entries), f"virt-launcher-{vmi.name}-" if vmi.name else "")


def from_status(entries: Iterable[DeviceStatusInfo], device: str) -> SourcedAddress | None:
    """The address in the status entry of a device; "" counts as absent (K-6.2). None without an entry that has an
    address."""
    for entry in entries:
        attributes = entry.device_resource_claim_status.attributes if entry.device_resource_claim_status else None
        if entry.name == device and attributes and (attributes.pci_address or attributes.mdev_uuid):
            pci, mdev = attributes.pci_address or "", attributes.mdev_uuid or ""
            return SourcedAddress(STATUS, "status.deviceStatus", pci=pci, mdev=mdev)
    return None


def claim_object_in_status(entries: Iterable[DeviceStatusInfo], device: str) -> str:
    """The claim object that a status entry names, which a pending entry may do, too (K-5.12); "" for none."""
    statuses = (e.device_resource_claim_status for e in entries if e.name == device)
    return next((status.resource_claim_name for status in statuses if status and status.resource_claim_name), "")


def variable_spellings(prefix: str, claim_object: str, request: str) -> tuple[str, ...]:
    """The names of a variable by precedence: literal; upper case with "/" and "." as "_"; the same with "-" as "_"
    (K-7.5)."""
    literal = f"{prefix}_{claim_object}_{request}"
    upper = literal.upper().replace("/", "_").replace(".", "_")
    return tuple(dict.fromkeys((literal, upper, upper.replace("-", "_"))))


def from_environment(env: Mapping[str, str], claim_object: str, request: str) -> SourcedAddress | None:
    """The address in the variables of a claim and request; the first spelling that is set and not empty counts."""
    mdev, pci = (
        next((name for name in variable_spellings(prefix, claim_object, request) if env.get(name)), "")
        for prefix in (MDEV_PREFIX, PCI_PREFIX)
    )
    if not mdev and not pci:
        return None
    return SourcedAddress(ENVIRONMENT, mdev or pci, pci=env.get(pci, ""), mdev=env.get(mdev, ""))


def recognised_claim_object(env: Mapping[str, str], claims: ClaimObjects, claim: str, request: str, device: str) -> str:
    """The claim object that a literal variable names. Needed because a launcher can't read its pod's status.

    Claim objects and requests contain no "_", so a literal name splits at the last one (K-7.5), and the object
    generated for a pod-local claim is called ``<pod>-<claim>-<5 characters>``. "" without such a variable. Raises
    :class:`LauncherError` when several objects fit.
    """
    generated = re.compile(rf".+-{re.escape(claim)}-[a-z0-9]{{5}}")
    of_this_vmi = re.compile(rf"{re.escape(claims.generated_prefix)}[a-z0-9]{{5}}-{re.escape(claim)}-[a-z0-9]{{5}}")
    candidates = {name for name in _claim_objects_of(env, request) if generated.fullmatch(name)}
    candidates = {name for name in candidates if of_this_vmi.fullmatch(name)} or candidates
    if len(candidates) > 1:
        names = f"{', '.join(sorted(candidates))}; pass the pod, whose status names the claim"
        message = f"{device}: variables of several claims fit claim {claim}: {names}"
        raise LauncherError(AMBIGUOUS_VARIABLE, device, message)
    return next(iter(candidates), "")


def _claim_objects_of(env: Mapping[str, str], request: str) -> Iterator[str]:
    """The claim objects that the names of variables contain, of those that are set and end with the request."""
    for name, value in env.items():
        prefix = next((p for p in (PCI_PREFIX, MDEV_PREFIX) if name.startswith(p + "_")), None)
        claim_object, separator, last = name[len(prefix) + 1 :].rpartition("_") if prefix else ("", "", "")
        if value and separator and last == request:
            yield claim_object


@dataclass(frozen=True)
class FromFiles:
    """The address in the metadata files, or why they have no mdev and no PCI address (K-7.10)."""

    address: SourcedAddress | None
    no_mdev: str = ""
    no_pci: str = ""


def from_files(request: ConversionInputs, claim: str, wanted: str, *, with_mdev: bool = True) -> FromFiles | None:
    """The address in the metadata files; None if they weren't read. ``with_mdev`` False: mdevs are ignored (K-7.21)."""
    if request.sources.files is None:
        return None
    try:
        device = device_of(request.sources.files, request.vmi.spec.resource_claims, claim, wanted, request.version)
    except MetadataError as error:
        return FromFiles(None, str(error), str(error))
    if not with_mdev:
        device = FileDevice(device.place, device.pci, "")
    if device.pci or device.mdev:
        return FromFiles(SourcedAddress(METADATA, device.place, pci=device.pci, mdev=device.mdev))
    asked = f"not found for claim {json.dumps(claim)} request {json.dumps(wanted)}"
    return FromFiles(None, f"mdevUUID {asked}", f"pciBusID {asked}")


def nothing_found(
    claims: ClaimObjects,
    claim: str,
    claim_object: str,
    request: str,
    prefixes: tuple[str, ...] = (PCI_PREFIX, MDEV_PREFIX),
) -> str:
    """The sources that have no address, for a message. ``prefixes``: of the variables that were read."""
    if claim_object:
        names = ", ".join(name for prefix in prefixes for name in variable_spellings(prefix, claim_object, request))
        tried = f"environment: none of {names} is set"
    elif claim in claims.listed:
        unknown = "whose object is not known without the pod's status"
        tried = f"environment: no variable of a claim generated for {claim}, {unknown}"
    else:
        tried = f"environment: claim {claim} is not listed in spec.resourceClaims"
    return f"status.deviceStatus: no address; metadata files: none; {tried}"
