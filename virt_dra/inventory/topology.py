"""A cluster's devices by place: node, NUMA node, PCIe root; nodes that are alike are folded into one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import hexdigits
from typing import Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import Device
from virt_dra.api.tolerations import taint_text
from virt_dra.inventory.device_rows import ALL_NODES, BY_SELECTOR, FREE, DeviceRow
from virt_dra.inventory.document_types import PlacedDeviceJson, TopologyJson
from virt_dra.inventory.fields import natural
from virt_dra.model.unknown import UnknownFact

CHOSEN: Final = "chosen"
REFUSED: Final = "refused"
"""The answer about a device that an overlay shows."""
SHARED_PLACE: Final = "devices of several nodes"
"""The title of the place for devices that no single node has."""
UNPUBLISHED_PLACE: Final = "held, but not published"
"""The title of the place for devices that a claim has and no slice: which node they are on isn't known."""
PLACES: Final = (SHARED_PLACE, UNPUBLISHED_PLACE)
"""In place of nodes, in this order behind them."""

_CORDONED: Final = "node.kubernetes.io/unschedulable"
"""The taint that a cordoned node gets, too."""
_ROOT: Final = "resource.kubernetes.io/pcieRoot"
_NUMA: Final = ("numaNode", "numa", "numaNodeID", "numaNodeId")
"""Identifiers of attributes that name the NUMA node, of any domain (as the policy `aligned` reads them)."""


@dataclass(frozen=True)
class DeviceVerdict:
    """What an allocation says of a device: CHOSEN or REFUSED, and why."""

    word: str
    why: str = ""


DeviceVerdicts = Mapping[DeviceId, DeviceVerdict]


@dataclass(frozen=True)
class TopologyOverlay:
    """What an allocation says of devices. ``unknown``: what it couldn't take into account."""

    verdicts: DeviceVerdicts
    unknown: tuple[UnknownFact, ...] = ()


NO_OVERLAY: Final = TopologyOverlay({})


@dataclass(frozen=True)
class PlacedDevice:
    """A device with the answer about it, if there is one."""

    row: DeviceRow
    verdict: DeviceVerdict | None = None

    @property
    def state(self) -> str:
        return self.row.states[0]

    @property
    def holder(self) -> str:
        """``VM ns/name``, "" if it is free."""
        return str(self.row.holders[0]) if self.row.holders else ""

    @property
    def label(self) -> str:
        return self.row.model or self.row.id.driver


@dataclass(frozen=True)
class DeviceGroup:
    """Devices of one PCIe root of one NUMA node; each name is "" where the devices don't say."""

    numa: str
    root: str
    devices: tuple[PlacedDevice, ...]


@dataclass(frozen=True)
class TopologyNode:
    """A node with its devices; or, called SHARED_PLACE or UNPUBLISHED_PLACE, those of no single node. ``closed``: what
    keeps pods away that don't tolerate it: ``cordoned``, or a taint."""

    name: str
    groups: tuple[DeviceGroup, ...]
    closed: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[PlacedDevice, ...]:
        return tuple(device for group in self.groups for device in group.devices)


@dataclass(frozen=True)
class NodeFold:
    """Nodes that are alike: as many devices of the same models in the same states, arranged alike, and open or closed
    to the same pods. ``example`` is the first."""

    nodes: tuple[str, ...]
    example: TopologyNode

    @property
    def free(self) -> int:
        return sum(device.state == FREE for device in self.example.devices)

    @property
    def title(self) -> str:
        """``480 nodes like node-7: 8 × H100, 6 free``."""
        who = self.nodes[0] if len(self.nodes) == 1 else f"{len(self.nodes):,} nodes like {self.nodes[0]}"
        counts: dict[str, int] = defaultdict(int)
        for device in self.example.devices:
            counts[device.label] += 1
        models = ", ".join(f"{number} × {label}" for label, number in sorted(counts.items()))
        return f"{who}: {models or 'no devices'}{f', {self.free} free' if counts else ''}"


def topology(
    rows: Iterable[DeviceRow], nodes: Iterable[Node] = (), overlay: DeviceVerdicts | None = None
) -> list[TopologyNode]:
    """Every node with its devices, by name; then the places of devices without one. ``nodes``: shown even without
    devices."""
    closed = {node.name: _closed(node) for node in nodes}
    placed: dict[str, list[DeviceRow]] = {name: [] for name in closed}
    for row in rows:
        place = SHARED_PLACE if row.node in (ALL_NODES, BY_SELECTOR) else row.node or UNPUBLISHED_PLACE
        placed.setdefault(place, []).append(row)
    names = sorted((name for name in placed if name not in PLACES), key=natural)
    names += [place for place in PLACES if place in placed]
    return [TopologyNode(name, _groups(placed[name], overlay or {}), closed.get(name, ())) for name in names]


def folded(nodes: Iterable[TopologyNode]) -> list[NodeFold]:
    """Nodes that are alike together, in the order of the first of each."""
    alike_nodes: dict[object, list[TopologyNode]] = {}
    for node in nodes:
        alike_nodes.setdefault(_shape(node), []).append(node)
    return [NodeFold(tuple(node.name for node in alike), alike[0]) for alike in alike_nodes.values()]


def unfolded(nodes: Iterable[TopologyNode]) -> list[NodeFold]:
    """Each node by itself."""
    return [NodeFold((node.name,), node) for node in nodes]


def to_json(folds: Iterable[NodeFold], unknown: Iterable[UnknownFact] = ()) -> TopologyJson:
    """``unknown``: what the verdicts don't take into account."""
    return {
        "unknown": [fact.to_json() for fact in unknown],
        "folds": [
            {
                "nodes": list(fold.nodes),
                "free": fold.free,
                "groups": [
                    {
                        "numa": group.numa or None,
                        "pcieRoot": group.root or None,
                        "devices": [_device_json(device) for device in group.devices],
                    }
                    for group in fold.example.groups
                ],
            }
            for fold in folds
        ],
    }


def _device_json(device: PlacedDevice) -> PlacedDeviceJson:
    verdict = device.verdict
    return {
        **device.row.to_json(),
        "verdict": None if verdict is None else {"word": verdict.word, "why": verdict.why or None},
    }


def _groups(rows: Iterable[DeviceRow], overlay: DeviceVerdicts) -> tuple[DeviceGroup, ...]:
    by_place: dict[tuple[str, str], list[PlacedDevice]] = {}
    for row in rows:
        by_place.setdefault(_place(row.device), []).append(PlacedDevice(row, overlay.get(row.id)))
    ordered = sorted(by_place.items(), key=lambda item: (natural(item[0][0]), _root_order(item[0][1])))
    return tuple(DeviceGroup(numa, root, tuple(devices)) for (numa, root), devices in ordered)


def _root_order(root: str) -> tuple[list[int], list[tuple[int, str]]]:
    """Sorts ``pci0000:9f`` before ``pci0000:a0``, and other names as people count."""
    numbers = root.removeprefix("pci").split(":")
    hexadecimal = all(number and set(number) <= set(hexdigits) for number in numbers)
    return ([int(number, 16) for number in numbers], []) if hexadecimal else ([], natural(root))


def _closed(node: Node) -> tuple[str, ...]:
    taints = (
        taint_text(taint)
        for taint in node.spec.taints
        if taint.effect in ("NoSchedule", "NoExecute") and taint.key != _CORDONED
    )
    return (*(("cordoned",) if node.spec.unschedulable else ()), *taints)


def _place(device: Device | None) -> tuple[str, str]:
    """NUMA node and PCIe root, "" where they aren't known."""
    if device is None:
        return "", ""
    attributes = device.attributes
    root = attributes.get(_ROOT)
    numa = next((value for name, value in attributes.items() if name.rpartition("/")[2] in _NUMA), None)
    number = "" if numa is None else str(numa.int_value) if numa.int_value is not None else numa.string or ""
    return number, (root.string or "") if root is not None else ""


def _shape(node: TopologyNode) -> object:
    """Equal for nodes that look alike. Names of devices, roots and addresses don't count; nor does the order of devices
    of a root."""
    if node.name in PLACES:
        return node.name
    groups = tuple((group.numa, tuple(sorted(_look(device) for device in group.devices))) for group in node.groups)
    return node.closed, groups


def _look(device: PlacedDevice) -> tuple[str, ...]:
    verdict = device.verdict
    return (
        device.row.id.driver,
        device.row.model,
        *device.row.states,
        *((verdict.word, verdict.why) if verdict is not None else ()),
    )
