"""Rules for single interfaces: their bindings and their fields (K-2.42, K-2.43, and guest addresses, K-2.25)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from virt_dra.api.kubevirt_v1 import Interface
from virt_dra.api.kubevirt_versions import V1_9_0
from webhooks.rules.reviewed_spec import ReviewedSpec
from webhooks.verdict import DUPLICATE, INVALID, NOT_SUPPORTED, REQUIRED, AdmissionCause

_PCI_ADDRESS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
"""As K-7.4: the slot may be anything up to ff."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_OCTETS = re.compile(r"[0-9a-fA-F]{2}(?:(:|-)[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2})*")
_DOTTED = re.compile(r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4})*")
_MAC_LENGTHS: Final = (6, 8, 20)
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(?:-[a-z0-9]+)*")
_PORT_NAME_MAX: Final = 15
_RESERVED_MAC: Final = "02:00:00:00:00:00"
"""The address of the bridge in the launcher pod."""
_MODELS: Final = frozenset({"e1000", "e1000e", "igb", "ne2k_pci", "pcnet", "rtl8139", "virtio"})
"""igb came with a newer release than the others; it isn't known with which."""
_DISCONTINUED: Final[Mapping[str, str]] = {
    "slirp": "Slirp interface support has been discontinued since v1.3",
    "passt": "Passt network binding has been discontinued since v1.3",
    "macvtap": "Macvtap network binding has been discontinued since v1.3",
}


def discontinued_bindings(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Bindings that no release has any more (K-2.42)."""
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        for name, text in _DISCONTINUED.items():
            if (interface.model_extra or {}).get(name) is not None:
                yield subject.cause(INVALID, f"domain.devices.interfaces[{index}].{name}", text)


def bindings(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """The refusals of interfaces with several bindings or none, and of masquerade or passt without the pod network
    (K-2.42)."""
    exactly_one = subject.gates.version >= V1_9_0
    on_pod = _on_pod_network(subject)
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        field = subject.path(f"domain.devices.interfaces[{index}]")
        passt = (interface.model_extra or {}).get("passtBinding")
        methods = (interface.bridge, interface.masquerade, interface.sriov, passt)
        bound = sum(binding is not None for binding in (*methods, interface.binding))
        if exactly_one and bound != 1:
            text = f"logical {interface.name} interface must have exactly one binding method or binding plugin"
            yield AdmissionCause(INVALID, text, field)
        elif interface.binding is not None and bound > 1:
            text = f"logical {interface.name} interface cannot have both binding plugin and interface binding method"
            yield AdmissionCause(INVALID, text, f"{field}.binding")
        on_pod_network = interface.name in on_pod
        if interface.masquerade is not None and not on_pod_network:
            yield AdmissionCause(INVALID, "Masquerade interface only implemented with pod network", f"{field}.name")
        if interface.masquerade is not None and (interface.mac_address or "").lower() == _RESERVED_MAC:
            text = "The requested MAC address is reserved for the in-pod bridge. Please choose another one."
            yield AdmissionCause(INVALID, text, f"{field}.macAddress")
        if passt is not None and not on_pod_network:
            text = "PasstBinding interface only implemented with pod network"
            yield AdmissionCause(INVALID, text, f"{field}.name")


def fields(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Invalid name, model, MAC address, guest PCI address or ports of an interface (K-2.43, K-2.25)."""
    on_pod = _on_pod_network(subject)
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        field = subject.path(f"domain.devices.interfaces[{index}]")
        yield from _name_and_model(interface, field)
        for kind, name, value in _bad_addresses(interface):
            yield AdmissionCause(INVALID, f"interface {field}.name has {kind} address ({value}).", f"{field}.{name}")
        if interface.name in on_pod:
            ports = (interface.model_extra or {}).get("ports")
            yield from _ports(ports, field, strict=subject.gates.version >= V1_9_0)


def _on_pod_network(subject: ReviewedSpec) -> frozenset[str]:
    """The names of pod networks. The last network of a name counts, as KubeVirt indexes them."""
    by_name = {network.name: network for network in subject.spec.networks}
    return frozenset(name for name, network in by_name.items() if network.pod is not None)


def _name_and_model(interface: Interface, field: str) -> Iterator[AdmissionCause]:
    if not _NAME.fullmatch(interface.name):
        text = "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)"
        yield AdmissionCause(INVALID, text, f"{field}.name")
    model = (interface.model_extra or {}).get("model")
    if isinstance(model, str) and model and model not in _MODELS:
        text = f"interface {field}.name uses model {model} that is not supported."
        yield AdmissionCause(NOT_SUPPORTED, text, f"{field}.model")


def _bad_addresses(interface: Interface) -> Iterator[tuple[str, str, str]]:
    """What is wrong with which address, the field that has it, and the address."""
    mac, address = interface.mac_address, interface.pci_address
    if mac and (octets := _octets(mac)) not in _MAC_LENGTHS:
        yield "malformed MAC", "macAddress", mac
    elif mac and octets > _MAC_LENGTHS[0]:
        yield "too long MAC", "macAddress", mac
    if address and not _PCI_ADDRESS.fullmatch(address):
        yield "malformed PCI", "pciAddress", address


def _octets(mac: str) -> int:
    """How many octets a hardware address has, in one of the notations that Go's net.ParseMAC takes; 0 for none of
    them."""
    if len(mac) > 60:
        return 0
    if _OCTETS.fullmatch(mac):
        return (len(mac) + 1) // 3
    return (len(mac) + 1) // 5 * 2 if _DOTTED.fullmatch(mac) else 0


def _ports(given: object, field: str, *, strict: bool) -> Iterator[AdmissionCause]:
    """The ports of an interface on the pod network; values of another type are left to the API server. ``strict``: as
    since 1.9, when 65536 stopped to pass."""
    ports: list[Any] = [port if isinstance(port, dict) else {} for port in given] if isinstance(given, list) else []
    seen: set[object] = set()
    for position, port in enumerate(ports):
        name, where = port.get("name"), f"{field}.ports[{position}].name"
        if not isinstance(name, str) or not name:
            continue
        if name in seen:
            yield AdmissionCause(DUPLICATE, f"Duplicate name of the port: {name}", where)
        if len(name) > _PORT_NAME_MAX or not _PORT_NAME.fullmatch(name):
            yield AdmissionCause(INVALID, f"Invalid name of the port: {name}", where)
        seen.add(name)
    for position, port in enumerate(ports):
        number, protocol, where = port.get("port", 0), port.get("protocol"), f"{field}.ports[{position}]"
        of_number = f"{where}.port" if strict else where
        if number == 0:
            yield AdmissionCause(REQUIRED, "Port field is mandatory.", of_number)
        if isinstance(number, int) and not 0 <= number <= (65535 if strict else 65536):
            yield AdmissionCause(INVALID, "Port field must be in range 0 < x < 65536.", of_number)
        if protocol and protocol not in ("TCP", "UDP"):
            yield AdmissionCause(INVALID, "Unknown protocol, only TCP or UDP allowed", f"{where}.protocol")
