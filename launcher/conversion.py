"""The input and the output of a conversion: immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from launcher.elements.hostdev import HostAddress, Hostdev
from launcher.elements.page import compact
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import NEWEST, KubeVirtVersion

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ConversionInputs:
    """A VMI, and what its launcher can read. ``pod``: its status has the names of generated claims.

    ``files``: the metadata files of the container, absolute path -> content; None if they weren't read.
    """

    vmi: VirtualMachineInstance
    env: Mapping[str, str]
    pod: Pod | None = None
    version: KubeVirtVersion = NEWEST
    files: Mapping[str, str] | None = None


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
