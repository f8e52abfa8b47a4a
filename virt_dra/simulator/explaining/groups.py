"""Nodes that miss in the same way, together; the nearest group first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from virt_dra.allocator.model import DeviceId
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why import NodeMisses

_SAMPLES = 5
"""Devices of a group that are kept as examples of each miss."""


@dataclass
class MissGroup:
    """Nodes with equal misses. ``devices``: by miss, how many; ``examples``: some of them. ``placed``, ``wanted``: of
    the best node."""

    host: tuple[Reason, ...]
    claim: str
    request: str
    distance: int
    nodes: list[str] = field(default_factory=list)
    devices: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[DeviceId]] = field(default_factory=dict)
    lacking: Reason | None = None
    placed: int = 0
    wanted: int = 0
    others: int = 0

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """All that is in the way, of the nodes first."""
        return (*self.host, *(self.devices or ((self.lacking,) if self.lacking is not None else ())))

    @property
    def of_devices(self) -> bool:
        """Whether devices are in the way, and not only the nodes themselves."""
        return bool(self.devices) or self.lacking is not None


def grouped(nodes: Iterable[NodeMisses]) -> list[MissGroup]:
    """The nodes that don't fit, by what is in the way: the nearest, then the largest group first."""
    found: dict[object, MissGroup] = {}
    known: dict[tuple[int, str, str], Reason] = {}
    for node in nodes:
        if node.fits:
            continue
        key = (tuple((each.code, each.text) for each in node.host), node.claim, node.request, *_texts(node))
        group = found.get(key)
        if group is None:
            group = found[key] = MissGroup(node.host, node.claim, node.request, node.distance, lacking=node.lacking)
        group.nodes.append(node.node)
        group.placed, group.wanted = max(group.placed, node.placed), max(group.wanted, node.wanted)
        group.others += node.others
        for device, own in node.devices:
            miss = known.setdefault(
                (id(group), own.code, own.text), own
            )  # details differ from device to device; one is enough
            group.devices[miss] += 1
            examples = group.examples.setdefault(miss, [])
            if len(examples) < _SAMPLES:
                examples.append(device)
    return sorted(found.values(), key=lambda group: (group.distance, -len(group.nodes), group.nodes[0]))


def _texts(node: NodeMisses) -> Iterable[tuple[str, str]]:
    return ((miss.code, miss.text) for miss in node.of_devices)
