"""Addresses that device plugins pass to the launcher in environment variables (K-7.2, K-7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virt_dra.api.integration.paths import MDEV_PREFIX, PCI_PREFIX
from virt_dra.api.integration.paths import resource_variable as variable_name

__all__ = ["MDEV_PREFIX", "PCI_PREFIX", "USB_PREFIX", "AddressPool", "variable_name"]

USB_PREFIX = "USB_RESOURCE"


class AddressPool:
    """The addresses of several resources under one prefix, each used once (K-7.3).

    An address that several resources have is removed from all of them. Two resource names may share one variable.
    """

    def __init__(self, prefix: str, resources: Iterable[str], env: Mapping[str, str]) -> None:
        self._left: dict[str, list[str]] = {}
        for resource in resources:
            value = env.get(variable_name(prefix, resource), "").removesuffix(",")
            self._left[resource] = value.split(",") if value else []

    def pop(self, resource: str) -> str:
        """The next address of the resource; "" if there is none, or for an empty member of the list."""
        addresses = self._left.get(resource)
        if not addresses:
            return ""
        first = addresses[0]
        self._left = {name: [address for address in left if address != first] for name, left in self._left.items()}
        return first
