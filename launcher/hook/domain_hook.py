"""The domain that libvirt gets in place of the one that KubeVirt made: the hook's decision, a function of texts
(K-11.17)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from launcher.conversion import AddressSources
from launcher.errors import UNREADABLE_VMI, LauncherError
from launcher.hook.device_options import apply_device_options, join_functions
from launcher.hook.domain_text import domain_text, parsed_domain
from launcher.hook.host_devices import complete_host_devices
from launcher.hook.pci_placement import PlacedDevices, place_pci_devices, placement_rule
from launcher.hook.root_complex import place_on_root_complex
from launcher.placement.host import HostTopology
from virt_dra.api.integration.hostdev_options import HOSTDEV_OPTIONS_ANNOTATION
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, PCI_PLACEMENT_ANNOTATION
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.wire import WireError

VMI_MAX: Final = 2 << 20
"""Bytes; etcd keeps no object of more than 1.5 MiB."""


@dataclass(frozen=True)
class HookedDomain:
    """The domain for libvirt: KubeVirt's own bytes if ``changes`` is empty. ``changes`` and ``warnings``: sentences."""

    text: bytes
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def hooked_domain(
    domain: bytes,
    vmi_json: bytes,
    sources: AddressSources,
    host: HostTopology,
    default_placement: str | None = None,
) -> HookedDomain:
    """The domain with the host devices of the VMI's claims and the options of all its host devices, its PCI devices
    placed. Asked again with its own result it changes nothing.

    ``default_placement``: for a VMI without annotation; None: the domain of such a VMI is returned unchanged, unless it
    has ``hostdev-options``. Raises :class:`LauncherError`.
    """
    vmi = _vmi(vmi_json)
    annotations = vmi.metadata.annotations
    value = annotations.get(PCI_PLACEMENT_ANNOTATION, default_placement)
    if value is None and HOSTDEV_OPTIONS_ANNOTATION not in annotations:
        return HookedDomain(domain)
    rule = placement_rule(value) if value is not None else None
    root = parsed_domain(domain)
    changes = complete_host_devices(root, vmi, sources)
    optional, shared = apply_device_options(root, vmi)
    optional += place_on_root_complex(root, vmi, shared.followers)
    placed = place_pci_devices(root, host, rule, shared.followers) if rule is not None else PlacedDevices()
    changes += [*optional, *placed.changes, *join_functions(root, shared)]
    return HookedDomain(domain_text(root) if changes else domain, tuple(changes), placed.warnings)


def _vmi(text: bytes) -> VirtualMachineInstance:
    """The VMI; without a deviceStatus of KubeVirt's, with that of our operator's annotation (K-9.2)."""
    if len(text) > VMI_MAX:
        raise _unreadable(f"has {len(text)} bytes, at most {VMI_MAX} are read")
    try:
        vmi = VirtualMachineInstance.from_wire(json.loads(text))
        published = vmi.metadata.annotations.get(DEVICE_STATUS_ANNOTATION)
        if published is None or vmi.status.device_status is not None:
            return vmi
        return vmi.with_(status=vmi.status.with_(device_status=DeviceStatus.from_wire(json.loads(published))))
    except RecursionError:
        raise _unreadable("is nested too deeply") from None
    except (WireError, ValueError) as error:
        raise _unreadable(f"can't be read: {error}") from None


def _unreadable(fault: str) -> LauncherError:
    return LauncherError(UNREADABLE_VMI, "vmi", f"the VMI {fault}")
