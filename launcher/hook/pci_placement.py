"""Places the PCI host devices of KubeVirt's domain on PCIe expanders, by guest NUMA cell or PCIe root (K-8,
K-11.18)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lxml import etree

from launcher.elements.hostdev import Hostdev, behind_port
from launcher.elements.page import element
from launcher.errors import UNPLACEABLE_DEVICE, LauncherError
from launcher.hook.domain_text import has_pcie, insert_after, machine_type, number, pci_source
from launcher.layout import placement_choice
from launcher.placement.guest import GuestTopology
from launcher.placement.host import HostTopology
from launcher.placement.placing import FunctionToPlace, PlacementRule, TakenNumbers, kubevirt_rule, place
from virt_dra.api.kubevirt_versions import NEWEST


@dataclass(frozen=True)
class PlacedDevices:
    """``changes`` and ``warnings``: a sentence for each device that was placed, or couldn't be."""

    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def placement_rule(value: str) -> PlacementRule | None:
    """The rule of an annotation's value; None for no placement. Raises :class:`LauncherError`."""
    choice = placement_choice(value)
    if not choice.by_numa_node:
        return None
    return kubevirt_rule(NEWEST, strict=choice.strict, by_pcie_root=choice.by_pcie_root)


def place_pci_devices(
    root: etree._Element, host: HostTopology, rule: PlacementRule, left_out: Collection[etree._Element] = ()
) -> PlacedDevices:
    """Changes ``<devices>``: controllers are added behind the others, and the devices get their addresses. Devices on
    an expander stay where they are, those ``left_out`` aren't placed. Raises :class:`LauncherError` where the rule is
    strict."""
    (devices,) = root.iterfind("devices")
    controllers = devices.findall("controller")
    hostdevs = _hostdevs_to_place(devices, _ports_of_expanders(controllers), left_out)
    if not hostdevs:
        return PlacedDevices()
    if not has_pcie(root):
        machine = f"machine type {machine_type(root)!r} has no PCI Express"
        why = f"{machine}, so no device is placed by NUMA node or PCIe root"
        if rule.strict:
            raise LauncherError(UNPLACEABLE_DEVICE, "spec.domain.machine.type", why)
        return PlacedDevices(warnings=(why,))
    taken = TakenNumbers(
        frozenset(_numbers(controller.get("index") for controller in controllers)),
        frozenset(_numbers(target.get("busNr") for target in devices.iterfind("controller/target"))),
    )
    functions = [function for function, _ in hostdevs.values()]
    placement = place(functions, GuestTopology.from_domain(root), host, rule, taken)
    last = controllers[-1] if controllers else None
    for controller in placement.controllers:
        last = insert_after(devices, last, element(controller))
    changes = []
    for key, port in placement.ports.items():
        function, hostdev = hostdevs[key]
        _set_guest_address(hostdev, port)
        changes.append(f"device {function.source}: placed behind root port {port}")
    return PlacedDevices(tuple(changes), placement.warnings)


def _ports_of_expanders(controllers: list[etree._Element]) -> frozenset[int]:
    """The indexes of root ports that are on an expander, which are the bus numbers of the devices behind them."""
    expanders = {number(item.get("index")) for item in controllers if item.get("model") == "pcie-expander-bus"}
    ports = [port for port in controllers if port.get("model") == "pcie-root-port"]
    addresses = ((port, address) for port in ports for address in port.iterfind("address"))
    return frozenset(_numbers(port.get("index") for port, at in addresses if number(at.get("bus")) in expanders))


def _hostdevs_to_place(
    devices: etree._Element, placed_ports: frozenset[int], left_out: Collection[etree._Element]
) -> dict[str, tuple[FunctionToPlace, etree._Element]]:
    """The PCI host devices that aren't on an expander, by a key of ours. What has no address of a PCI function is left
    to libvirt."""
    hostdevs = {}
    for index, hostdev in enumerate(devices.iterfind("hostdev")):
        source = pci_source(hostdev)
        if source is None or hostdev in left_out:
            continue
        bus = next((number(address.get("bus")) for address in hostdev.iterfind("address")), None)
        if bus not in placed_ports or bus is None:
            key = str(index)
            hostdevs[key] = FunctionToPlace(key, source, has_guest_address=bus is not None), hostdev
    return hostdevs


def _set_guest_address(hostdev: etree._Element, port: int) -> None:
    for address in hostdev.findall("address"):
        hostdev.remove(address)
    placed = element(behind_port(Hostdev("pci"), port))
    hostdev.extend(placed.findall("address"))


def _numbers(texts: Iterable[str | None]) -> Iterator[int]:
    return (value for value in map(number, texts) if value is not None)
