"""Networks and their interfaces as pairs: each network has one source, each interface one network (K-2.38 to
K-2.41)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_v1 import Interface, Network
from webhooks.rules.reviewed_spec import ReviewedSpec
from webhooks.verdict import DUPLICATE, INVALID, REQUIRED, AdmissionCause

T = TypeVar("T", Network, Interface)


def one_default(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """The refusals of several pod networks, of several Multus networks in its place, and of one beside the other
    (K-2.38)."""
    networks = subject.spec.networks
    pods = sum(network.pod is not None for network in networks)
    defaults = sum(network.multus is not None and network.multus.get("default") is True for network in networks)
    if pods > 1:
        field = subject.path("interfaces")
        yield AdmissionCause(DUPLICATE, f"more than one interface is connected to a pod network in {field}", field)
    if defaults > 1:
        yield subject.cause(INVALID, "networks", "Multus CNI should only have one default network")
    if pods and defaults:
        text = "Pod network cannot be defined when Multus default network is defined"
        yield subject.cause(INVALID, "networks", text)


def one_source(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Each network has exactly one source (K-2.39). Where a release doesn't know claims of networks, one with only a
    claim has none."""
    for index, network in enumerate(subject.spec.networks):
        sources = sum(source is not None for source in (network.pod, network.multus, network.resource_claim))
        if sources != 1:
            text = "should have only one network type" if sources else "should have a network type"
            yield subject.cause(REQUIRED, f"networks[{index}]", text)
    for index, network in enumerate(subject.spec.networks):
        if network.multus is not None and not network.multus.get("networkName"):
            yield subject.cause(REQUIRED, f"networks[{index}]", "CNI delegating plugin must have a networkName")
            return


def network_names(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Every network has a name of its own (K-2.40)."""
    return _repeated(
        subject.spec.networks,
        lambda name: f"Network with name {quoted(name)} already exists, every network must have a unique name",
        subject.path("networks"),
    )


def network_interfaces(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Every network has an interface (K-2.40)."""
    interfaces = {interface.name for interface in subject.spec.domain.devices.interfaces}
    for index, network in enumerate(subject.spec.networks):
        if network.name not in interfaces:
            field = subject.path(f"networks[{index}].name")
            yield AdmissionCause(REQUIRED, f"{field} '{network.name}' not found.", field)


def interface_names(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Every interface has a network of its own (K-2.41)."""
    networks = {network.name for network in subject.spec.networks}
    interfaces, field = subject.spec.domain.devices.interfaces, subject.path("domain.devices.interfaces")
    yield from _repeated(interfaces, lambda _: "Only one interface can be connected to one specific network", field)
    for index, interface in enumerate(interfaces):
        if interface.name not in networks:
            where = f"{field}[{index}].name"
            yield AdmissionCause(INVALID, f"{where} '{interface.name}' not found.", where)


def _repeated(items: tuple[T, ...], text: Callable[[str], str], field: str) -> Iterator[AdmissionCause]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item.name in seen:
            yield AdmissionCause(DUPLICATE, text(item.name), f"{field}[{index}].name")
        seen.add(item.name)
