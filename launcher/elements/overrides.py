"""``<qemu:override>``: properties of QEMU's devices that no element of libvirt's has (K-7.28)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from launcher.elements.page import Page, Property

X_VGA: Final = "x-vga"
"""Of vfio-pci: the guest gets the device's VGA ranges, so that its firmware takes it for the display."""


@dataclass(frozen=True)
class PropertyElement(Page):
    """A property, in place of the value that libvirt would give to it."""

    TAG: ClassVar[str] = "qemu:property"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("name", attribute="name"),
        Property("type", attribute="type"),
        Property("value", attribute="value"),
    )

    name: str
    type: str
    value: str | None = None


@dataclass(frozen=True)
class OverriddenDevice(Page):
    """A device by its alias, which must be a user's (``ua-…``), since libvirt chooses its own when a guest starts."""

    TAG: ClassVar[str] = "qemu:device"
    PROPERTIES: ClassVar[tuple[Property, ...]] = (
        Property("alias", attribute="alias"),
        Property("frontend", "qemu:frontend"),
    )

    alias: str
    frontend: tuple[PropertyElement, ...] = ()

    @property
    def is_display(self) -> bool:
        return any((item.name, item.value) == (X_VGA, "true") for item in self.frontend)


def as_display(alias: str) -> OverriddenDevice:
    """The override that makes the device of an alias the guest's display."""
    return OverriddenDevice(alias, (PropertyElement(X_VGA, "bool", "true"),))
