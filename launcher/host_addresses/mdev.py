"""Mediated devices: identified by the UUID under which the kernel created them (K-6.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import AddressSyntaxError

_SYNTAX = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True)
class MdevUuid:
    """The UUID of a mediated device, ``xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx``, in its original case."""

    text: str

    @classmethod
    def parse(cls, text: str) -> MdevUuid:
        """Parse the hyphenated form, the only one in sysfs. KubeVirt doesn't check it, libvirt does. Raises
        AddressSyntaxError."""
        if _SYNTAX.fullmatch(text) is None:
            raise AddressSyntaxError(f"failed to parse mdev UUID {text}")
        return cls(text)

    def __str__(self) -> str:
        return self.text

    @property
    def identity(self) -> str:
        """The normal form: equal for two spellings of one address."""
        return self.text.lower()

    @property
    def libvirt_refuses(self) -> str:
        """Always "": libvirt accepts every UUID."""
        return ""
