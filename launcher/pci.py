"""PCI addresses as KubeVirt reads them and libvirt writes them (K-7.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import AddressSyntaxError

_SYNTAX = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
HIGHEST_SLOT = 0x1F
"""What libvirt accepts. KubeVirt's syntax goes to ff."""


@dataclass(frozen=True)
class PciAddress:
    """``DDDD:BB:SS.F``, the digits as they were given."""

    domain: str
    bus: str
    slot: str
    function: str

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """``address = 4hex ":" 2hex ":" 2hex "." octal-digit``, case kept, nothing around it (K-7.4). Raises AddressSyntaxError."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise AddressSyntaxError(f"failed to parse pci address {text}")
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.domain}:{self.bus}:{self.slot}.{self.function}"

    @property
    def identity(self) -> str:
        """Equal for two spellings of one device."""
        return str(self).lower()

    @property
    def libvirt_refuses(self) -> str:
        """Why libvirt will not take this address though KubeVirt's syntax does; empty when it will."""
        return f"slot 0x{self.slot} is beyond 0x{HIGHEST_SLOT:x}" if int(self.slot, 16) > HIGHEST_SLOT else ""
