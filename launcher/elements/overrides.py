"""``<qemu:override>``: properties of QEMU's devices that no element of libvirt's has (K-7.28)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from launcher.elements.page import Page

X_VGA: Final = "x-vga"
"""Of vfio-pci: the guest gets the device's VGA ranges, so that its firmware takes it for the display."""


@dataclass(frozen=True)
class PropertyElement(Page):
    """A property, in place of the value that libvirt would give to it."""

    TAG: ClassVar[str] = "qemu:property"

    name: Annotated[str, "@name"]
    type: Annotated[str, "@type"]
    value: Annotated[str | None, "@value"] = None


@dataclass(frozen=True)
class OverriddenDevice(Page):
    """A device by its alias, which must be a user's (``ua-…``), since libvirt chooses its own when a guest starts."""

    TAG: ClassVar[str] = "qemu:device"

    alias: Annotated[str, "@alias"]
    frontend: Annotated[tuple[PropertyElement, ...], "qemu:frontend"] = ()

    @property
    def is_display(self) -> bool:
        return any((item.name, item.value) == (X_VGA, "true") for item in self.frontend)


def as_display(alias: str) -> OverriddenDevice:
    """The override that makes the device of an alias the guest's display."""
    return OverriddenDevice(alias, (PropertyElement(X_VGA, "bool", "true"),))
