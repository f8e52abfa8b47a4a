"""USB addresses of device-plugin host devices: bus and device number (K-7.16)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import AddressSyntaxError

_SYNTAX = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True)
class UsbAddress:
    """``BUS:DEVICE``, decimal, the digits as they were given."""

    bus: str
    device: str

    @classmethod
    def parse(cls, text: str) -> UsbAddress:
        """KubeVirt only checks that there is one colon; libvirt wants numbers. Raises AddressSyntaxError."""
        match = _SYNTAX.fullmatch(text)
        if match is None:
            raise AddressSyntaxError(f"Bad value: {text}")
        return cls(*match.groups())

    def __str__(self) -> str:
        return f"{self.bus}:{self.device}"

    @property
    def identity(self) -> str:
        """Equal for two spellings of one device."""
        return f"{int(self.bus)}:{int(self.device)}"

    @property
    def libvirt_refuses(self) -> str:
        """Nothing: every pair of small numbers is accepted."""
        return ""
