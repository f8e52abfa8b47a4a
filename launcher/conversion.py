"""What the launcher is asked to convert, and what it answers: immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from launcher.hostdev import HostAddress, Hostdev
from launcher.xml import compact
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ConversionInputs:
    """A VMI and all that its launcher can see. ``pod`` helps to name generated claims.

    ``files``: the metadata files of the container, absolute path -> content; None where nobody looked for any.
    """

    vmi: VirtualMachineInstance
    env: Mapping[str, str]
    pod: Pod | None = None
    version: KubeVirtVersion = NEWEST
    files: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ConvertedDevice:
    """One device of the VMI as libvirt will see it."""

    device: str
    """``gpus/NAME``, ``hostDevices/NAME`` or ``interfaces/NAME``."""
    source: str
    """``status``, ``metadata`` or ``environment``."""
    address: HostAddress
    element: Hostdev
    field: str
    """The entry it was made for, as a field path."""
    is_dra: bool
    notes: tuple[str, ...] = ()
    """What is worth knowing though nothing failed: sources that disagree, an address libvirt will refuse."""

    @property
    def xml(self) -> str:
        """The ``<hostdev>`` as KubeVirt writes it, on one line (K-7.14 to K-7.16)."""
        return compact(self.element)

    def with_element(self, element: Hostdev) -> ConvertedDevice:
        return replace(self, element=element)
