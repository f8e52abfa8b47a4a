"""USB addresses of device-plugin host devices: bus and device number (K-7.16)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import AddressSyntaxError

_SYNTAX = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True)
class UsbAddress:
    """A USB address, ``BUS:DEVICE``, both decimal."""

    bus: str
    device: str

    @classmethod
    def parse(cls, text: str) -> UsbAddress:
        """Parse an address. KubeVirt only requires one colon, libvirt numbers. Raises AddressSyntaxError."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise AddressSyntaxError(f"Bad value: {text}")
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.bus}:{self.device}"

    @property
    def identity(self) -> str:
        """The normal form: equal for two spellings of one address."""
        return f"{int(self.bus)}:{int(self.device)}"

    @property
    def libvirt_refuses(self) -> str:
        """Always "": libvirt accepts every pair of small numbers."""
        return ""
