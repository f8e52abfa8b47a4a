"""Makes the domain of a VMI whose devices have given addresses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from launcher import AddressSources, AnyVmi, HostTopology, LauncherError, as_vmi, convert
from launcher.entry_kinds import GPUS, HOST_DEVICES, EntryKind
from launcher.errors import AddressSyntaxError
from launcher.host_addresses.mdev import MdevUuid
from launcher.placement.host_text import read_host_text
from virt_dra.api.core_v1 import Pod
from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_v1 import (
    DeviceAttributes,
    DeviceResourceClaimStatus,
    DeviceStatus,
    DeviceStatusInfo,
    VirtualMachine,
    VirtualMachineInstance,
)
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion
from virt_dra.api.reading.documents import Sourced, read_document
from virt_dra.cli.shared.console import visible_lines
from virt_dra.cluster.files import read_written
from virt_dra.pytest_plugin import UnusableInput

_KINDS = (GPUS, HOST_DEVICES)
_VMS = (VirtualMachine.KIND, VirtualMachineInstance.KIND)


def made_domain(
    vmi: str | AnyVmi,
    addresses: Mapping[str, str],
    *,
    device_status: Mapping[str, object] | None,
    env: Mapping[str, str],
    pod: Mapping[str, object] | None,
    files: Mapping[str, str] | None,
    topology: str | HostTopology | None,
    kubevirt: str | None,
) -> str:
    """The domain of a VMI, or of its file, as indented XML. Emits the launcher's warnings. Raises
    LauncherError and UnusableInput, with texts that can be printed."""
    __tracebackhide__ = True
    try:
        subject = _with_addresses(_with_status(_read(vmi), device_status), addresses)
        version = KubeVirtVersion.parse_known(kubevirt) if kubevirt is not None else NEWEST
        sources = AddressSources(env, files, Pod.from_wire(dict(pod)) if pod is not None else None)
        made = convert(subject, sources, kubevirt=version, topology=_host(topology))
    except LauncherError as error:
        raise LauncherError(error.reason, error.subject, visible_lines(error.message)) from None
    except ValueError as error:  # of from_wire and parse
        raise UnusableInput(error) from None
    for warning in made.warnings:
        warnings.warn(visible_lines(warning), stacklevel=3)
    return made.domain_xml


def _read(given: str | AnyVmi) -> VirtualMachineInstance:
    """The VMI. Raises WireError, and UnusableInput for a file that can't be read or has none or several."""
    if not isinstance(given, str):
        return as_vmi(given)
    written = read_written([given])
    if written.problems:
        raise UnusableInput(*written.problems)
    documents = [of for of in written.documents if isinstance(of.raw, dict) and of.raw.get("kind") in _VMS]
    if len(documents) != 1:
        number = counted(len(documents), "VirtualMachine(Instance)")
        raise UnusableInput(f"{given}: {number} found; name a file that has one, or pass the object as a dict")
    read = read_document(documents[0])
    if isinstance(read, Sourced) and isinstance(read.object, VirtualMachine | VirtualMachineInstance):
        return as_vmi(read.object)
    problems = [f"{documents[0].source}: apiVersion isn't KubeVirt's"] if isinstance(read, Sourced) else read
    raise UnusableInput(*problems)


def _host(given: str | HostTopology | None) -> HostTopology | None:
    """Raises WireError, and UnusableInput for a file that can't be read."""
    if not isinstance(given, str):
        return given
    try:
        return read_host_text(Path(given).read_text(encoding="utf-8"), given)
    except OSError as error:
        raise UnusableInput(f"{given}: {error.strerror or error}") from None


def _with_status(vmi: VirtualMachineInstance, status: Mapping[str, object] | None) -> VirtualMachineInstance:
    if status is None:
        return vmi
    return vmi.with_(status=vmi.status.with_(device_status=DeviceStatus.from_wire(dict(status))))


def _with_addresses(vmi: VirtualMachineInstance, addresses: Mapping[str, str]) -> VirtualMachineInstance:
    """The VMI whose status has these addresses, in the order of its devices. Raises UnusableInput for a device without
    a claim."""
    if not addresses:
        return vmi
    entries = {f"{kind.path}/{entry.name}": entry for kind in _KINDS for entry in kind.entries(vmi)}
    for device in addresses:
        if device not in entries:
            owner, names = vmi.name or "the VMI", ", ".join(entries) or "none"
            raise UnusableInput(f"addresses: {device} is no device of {owner}; its devices are: {names}")
        if entries[device].is_plugin:
            advice = "give the variable that it sets with env={'PCI_RESOURCE_...': '0000:41:00.0'}"
            plugin = entries[device].device_name
            raise UnusableInput(f"addresses: {device} comes from a device plugin ({plugin}); {advice}")
    status = vmi.status.device_status or DeviceStatus()
    gpus, host_devices = (_statuses(kind, vmi, kind.statuses(status), addresses) for kind in _KINDS)
    whole = status.with_(gpu_statuses=gpus, host_device_statuses=host_devices)
    return vmi.with_(status=vmi.status.with_(device_status=whole))


def _statuses(
    kind: EntryKind, vmi: VirtualMachineInstance, statuses: tuple[DeviceStatusInfo, ...], addresses: Mapping[str, str]
) -> tuple[DeviceStatusInfo, ...]:
    """The known entries of other devices, then one for each device of the list that has an address."""
    given = {
        entry.name: addresses[device]
        for entry in kind.entries(vmi)
        if (device := f"{kind.path}/{entry.name}") in addresses
    }
    return (
        *(status for status in statuses if status.name not in given),
        *(_status(name, address) for name, address in given.items()),
    )


def _status(name: str, address: str) -> DeviceStatusInfo:
    try:
        MdevUuid.parse(address)
        attributes = DeviceAttributes(mdev_uuid=address)
    except AddressSyntaxError:
        attributes = DeviceAttributes(pci_address=address)
    return DeviceStatusInfo(name=name, device_resource_claim_status=DeviceResourceClaimStatus(attributes=attributes))
