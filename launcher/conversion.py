"""The input and the output of a conversion: immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.elements.hostdev import HostAddress, Hostdev
from launcher.elements.page import compact
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion


@dataclass(frozen=True)
class AddressSources:
    """The sources of devices' addresses, beside the VMI's own status (K-7.6)."""

    env: Mapping[str, str] = field(default_factory=dict)
    """The variables of the compute container, never the caller's own."""
    files: Mapping[str, str] | None = None
    """Its metadata files, absolute path -> content (K-7.7); None if they weren't read."""
    pod: Pod | None = None
    """The launcher pod, whose status has the names of the claims generated for it (K-7.5)."""


NO_SOURCES = AddressSources()


@dataclass(frozen=True)
class ConversionInputs:
    """A VMI, what its launcher reads besides, and the release whose rules apply."""

    vmi: VirtualMachineInstance
    sources: AddressSources
    version: KubeVirtVersion


@dataclass(frozen=True)
class ConvertedDevice:
    """A device of the VMI with its host address and its ``<hostdev>`` element."""

    device: str
    """``gpus/NAME``, ``hostDevices/NAME`` or ``interfaces/NAME``."""
    source: str
    """``status``, ``metadata`` or ``environment``."""
    address: HostAddress
    element: Hostdev
    field: str
    """The field path of its entry in the VMI."""
    is_dra: bool
    notes: tuple[str, ...] = ()
    """Warnings about it: sources that disagree."""

    @property
    def xml(self) -> str:
        """The ``<hostdev>`` as KubeVirt writes it, on one line (K-7.14 to K-7.16)."""
        return compact(self.element)
