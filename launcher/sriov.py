"""SR-IOV interfaces whose network is a ResourceClaim (K-7.21, KubeVirt 1.9 and newer)."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.addresses.pools import PCI_PREFIX
from launcher.addresses.sources import (
    ClaimObjects,
    from_environment,
    from_files,
    nothing_found,
    recognised_claim_object,
)
from launcher.conversion import ConversionInputs, ConvertedDevice
from launcher.elements.hostdev import Hostdev, at_guest_address, pci
from launcher.entry_kinds import SRIOV_ALIAS
from launcher.errors import MALFORMED_ADDRESS, NO_ADDRESS, AddressSyntaxError, LauncherError
from launcher.host_addresses.pci import PciAddress
from virt_dra.api.kubevirt_v1 import ClaimRequest, Interface
from virt_dra.api.kubevirt_versions import V1_9_0


def sriov_devices(request: ConversionInputs) -> tuple[ConvertedDevice, ...]:
    """The devices in the order of interfaces. Their address is in no status, so it comes from a metadata file or an
    environment variable. Raises :class:`LauncherError`."""
    sources = _claimed_networks(request)
    claims = ClaimObjects.for_vmi(request.vmi, request.sources.pod)
    return tuple(
        _device(request, claims, index, interface, sources[interface.name])
        for index, interface in enumerate(request.vmi.spec.domain.devices.interfaces)
        if interface.sriov is not None and interface.name in sources
    )


def _claimed_networks(request: ConversionInputs) -> Mapping[str, ClaimRequest]:
    """The claims of networks, by name; before KubeVirt 1.9 there are none."""
    networks = request.vmi.spec.networks if request.version >= V1_9_0 else ()
    return {network.name: network.resource_claim for network in networks if network.resource_claim is not None}


def left_out(request: ConversionInputs) -> tuple[str, ...]:
    """A sentence for each SR-IOV interface without an element: its address is in the pod's network status, which isn't
    an input."""
    served = _claimed_networks(request)
    return tuple(
        f"interfaces/{interface.name} is left out: only SR-IOV networks with a "
        "resourceClaim are converted (KubeVirt 1.9 and newer)"
        for interface in request.vmi.spec.domain.devices.interfaces
        if interface.sriov is not None and interface.name not in served
    )


def _device(
    request: ConversionInputs, claims: ClaimObjects, index: int, interface: Interface, claim_request: ClaimRequest
) -> ConvertedDevice:
    device = f"interfaces/{interface.name}"
    text, source = _resolve(request, claims, interface.name, claim_request)
    try:
        address = PciAddress.parse(text)
    except AddressSyntaxError as error:
        message = f"failed to create PCI address for SR-IOV DRA interface {interface.name}: {error}"
        raise LauncherError(MALFORMED_ADDRESS, device, message) from None
    element = _placed(interface, pci(address, SRIOV_ALIAS + interface.name))
    if interface.boot_order is not None:
        element = element.with_(boot_order=interface.boot_order)
    return ConvertedDevice(device, source, address, element, f"spec.domain.devices.interfaces[{index}]", is_dra=True)


def _resolve(request: ConversionInputs, claims: ClaimObjects, name: str, wanted: ClaimRequest) -> tuple[str, str]:
    device, claim, of_claim = f"interfaces/{name}", wanted.claim_name or "", wanted.request_name or ""
    where = f"failed to resolve PCI address for SR-IOV DRA interface {name} (claim {claim} request {of_claim})"
    if not claim or not of_claim:
        raise LauncherError(NO_ADDRESS, device, f"{where}: claimName and requestName are both needed")
    files = from_files(request, claim, of_claim, with_mdev=False)
    if files is not None and files.address is not None:
        return files.address.pci, files.address.source
    claim_object = claims.names.get(claim, "") or recognised_claim_object(
        request.sources.env, claims, claim, of_claim, device
    )
    answer = from_environment(request.sources.env, claim_object, of_claim) if claim_object else None
    if answer is None or not answer.pci:
        why = files.no_pci if files is not None else nothing_found(claims, claim, claim_object, of_claim, (PCI_PREFIX,))
        raise LauncherError(NO_ADDRESS, device, f"{where}: {why}")
    return answer.pci, answer.source


def _placed(interface: Interface, element: Hostdev) -> Hostdev:
    if not interface.pci_address:
        return element
    try:
        return at_guest_address(element, PciAddress.parse(interface.pci_address))
    except AddressSyntaxError as error:
        message = f"failed to interpret the guest PCI address for interface {interface.name}: {error}"
        raise LauncherError(MALFORMED_ADDRESS, f"interfaces/{interface.name}", message) from None
