"""PCI addresses as KubeVirt reads them and libvirt writes them (K-7.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import AddressSyntaxError

_SYNTAX = re.compile(r"([0-9a-fA-F]{4}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])")
HIGHEST_SLOT = 0x1F
"""The highest slot that libvirt accepts. KubeVirt's syntax allows ff."""


@dataclass(frozen=True)
class PciAddress:
    """A PCI address, ``DDDD:BB:SS.F``, in its original case."""

    domain: str
    bus: str
    slot: str
    function: str

    @classmethod
    def parse(cls, text: str) -> PciAddress:
        """Parse ``address = 4hex ":" 2hex ":" 2hex "." octal-digit``, without blanks (K-7.4). Raises
        AddressSyntaxError."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise AddressSyntaxError(f"failed to parse pci address {text}")
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.domain}:{self.bus}:{self.slot}.{self.function}"

    @property
    def identity(self) -> str:
        """The normal form: equal for two spellings of one address."""
        return str(self).lower()

    @property
    def libvirt_refuses(self) -> str:
        """Why libvirt will refuse this address, which KubeVirt's syntax allows; "" if it accepts it."""
        return f"slot 0x{self.slot} is beyond 0x{HIGHEST_SLOT:x}" if int(self.slot, 16) > HIGHEST_SLOT else ""
