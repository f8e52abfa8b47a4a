"""VMIs with host devices of device plugins, and the variables by which a launcher gets their addresses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher import AddressSources


def vmi(devices: Iterable[str], domain: Mapping[str, Any]) -> dict[str, Any]:
    """A VMI with host devices of these names. ``domain``: what its domain has beside them."""
    hosted = [{"name": name, "deviceName": f"example.org/{name}"} for name in devices]
    cpu = {"cores": 1, **domain.get("cpu", {}), "model": "host-passthrough"}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "guest", "namespace": "default"},
        "spec": {"domain": {**domain, "cpu": cpu, "devices": {"hostDevices": hosted}}},
    }


def pci_variables(addresses: Mapping[str, str]) -> AddressSources:
    """Name of each device -> its PCI address, as variables of a device plugin."""
    return AddressSources(env={f"PCI_RESOURCE_EXAMPLE_ORG_{name.upper()}": at for name, at in addresses.items()})
