"""The host devices of a VMI's claims in KubeVirt's domain: added where they are missing, corrected where their address
is another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from launcher.conversion import AddressSources, ConversionInputs, ConvertedDevice
from launcher.devices import host_devices
from launcher.elements.hostdev import ALIAS_PREFIX
from launcher.elements.page import element
from launcher.entry_kinds import GPUS, HOST_DEVICES, SRIOV_ALIAS
from launcher.errors import NO_ADDRESS, LauncherError
from launcher.hook.domain_text import insert_after, number
from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.kubevirt_v1 import GPU, DeviceEntry, HostDevice, Interface, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST


@dataclass(frozen=True)
class ClaimedEntry:
    """A device of the VMI that a claim serves, with the alias of its element. ``claim``: its name in the pod."""

    alias: str
    claim: str
    entry: DeviceEntry | Interface


def complete_host_devices(root: etree._Element, vmi: VirtualMachineInstance, sources: AddressSources) -> list[str]:
    """Changes ``<devices>``, and returns a sentence for each change. A device whose address only KubeVirt knows stays
    as it is.

    Raises :class:`LauncherError`, too for a device that the domain doesn't have and whose address isn't known.
    """
    (devices,) = root.iterfind("devices")
    present = {alias.get("name", ""): alias.getparent() for alias in devices.iterfind("hostdev/alias")}
    last = next(devices.iterchildren("hostdev", reversed=True), None)
    if last is None:
        last = next(devices.iterchildren(reversed=True), None)
    changes = []
    for device in _addressed_devices(vmi, sources, frozenset(present)):
        wanted, hostdev = element(device.element), present.get(device.element.alias or "")
        wanted.set("mode", "subsystem")  # libvirt's default, which KubeVirt's plugins can't read a hostdev without
        if hostdev is None:
            last = insert_after(devices, last, wanted)
            changes.append(f"{device.device}: added with address {device.address}, from {device.source}")
        elif _identity(hostdev) != _identity(wanted):
            _correct(hostdev, wanted)
            changes.append(f"{device.device}: corrected to address {device.address}, from {device.source}")
    return changes


def _addressed_devices(
    vmi: VirtualMachineInstance, sources: AddressSources, present: frozenset[str]
) -> tuple[ConvertedDevice, ...]:
    """The claims' devices whose addresses are known, in KubeVirt's order (K-7.22)."""
    claims: dict[str, PodResourceClaim] = {}
    for claim in vmi.spec.resource_claims:
        claims.setdefault(claim.name, claim)
    addressed = []
    for claimed in _claimed_entries(vmi):
        try:
            own_claim = claims.get(claimed.claim)
            host_devices(_inputs(vmi, [claimed], (own_claim,) if own_claim is not None else (), sources))
            addressed.append(claimed)
        except LauncherError as error:
            if error.reason != NO_ADDRESS:
                raise
            if claimed.alias not in present:
                message = (
                    f"{error.subject}: KubeVirt's domain has no device for it, and its address isn't known: it is "
                    "neither in the VMI's status or annotation nor in a metadata file or variable of the sidecar"
                )
                raise LauncherError(NO_ADDRESS, error.subject, message) from None
    return host_devices(_inputs(vmi, addressed, vmi.spec.resource_claims, sources))


def _claimed_entries(vmi: VirtualMachineInstance) -> Iterator[ClaimedEntry]:
    devices = vmi.spec.domain.devices
    for kind in (HOST_DEVICES, GPUS):
        for entry in kind.entries(vmi):
            if entry.is_dra:
                yield ClaimedEntry(ALIAS_PREFIX + kind.dra_alias + entry.name, entry.claim_name or "", entry)
    requests = {network.name: network.resource_claim for network in vmi.spec.networks}
    for interface in devices.interfaces:
        request = requests.get(interface.name)
        if interface.sriov is not None and request is not None:
            yield ClaimedEntry(ALIAS_PREFIX + SRIOV_ALIAS + interface.name, request.claim_name or "", interface)


def _inputs(
    vmi: VirtualMachineInstance,
    entries: Sequence[ClaimedEntry],
    claims: tuple[PodResourceClaim, ...],
    sources: AddressSources,
) -> ConversionInputs:
    """The conversion of a VMI that has these devices and claims only."""
    domain = vmi.spec.domain
    devices = domain.devices.with_(
        gpus=tuple(claimed.entry for claimed in entries if isinstance(claimed.entry, GPU)),
        host_devices=tuple(claimed.entry for claimed in entries if isinstance(claimed.entry, HostDevice)),
        interfaces=tuple(claimed.entry for claimed in entries if isinstance(claimed.entry, Interface)),
    )
    spec = vmi.spec.with_(domain=domain.with_(devices=devices), resource_claims=claims)
    return ConversionInputs(vmi.with_(spec=spec), sources, NEWEST)


def _correct(hostdev: etree._Element, wanted: etree._Element) -> None:
    """Changes the host device of an element, and nothing else: its place in the guest, boot order and display stay."""
    for name in ("type", "managed", "mode", "model"):
        hostdev.attrib.pop(name, "")
        if name in wanted.attrib:
            hostdev.set(name, wanted.attrib[name])
    (right,) = wanted.iterfind("source")
    source = hostdev.find("source")
    if source is None:
        hostdev.insert(0, right)
    else:
        right.tail = source.tail
        hostdev.replace(source, right)


def _identity(hostdev: etree._Element) -> tuple[str | int | None, ...]:
    """A key that is equal for two elements of one host device, however their addresses are spelled."""
    address = hostdev.find("source/address")
    if address is None:
        return ()
    numbers = (number(address.get(name, "0")) for name in ("domain", "bus", "slot", "function"))
    return (hostdev.get("type"), address.get("uuid", "").lower(), *numbers)
