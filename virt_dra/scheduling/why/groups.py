"""Nodes that are refused alike, together, the nearest group first; and a group in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.counting import counted, listed
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why.tree import NodeRefusal

_SAMPLES: Final = 5
"""Devices of a group that are examples of a reason."""
_KEPT: Final = 1000
"""Devices of a group that are kept for each reason."""


@dataclass
class RefusalGroup:
    """Nodes that are refused alike. ``devices``: by reason, how many; ``refused``: them, a thousand at most.
    ``placed``, ``wanted``: of the best node; ``others``: devices that are further from it."""

    node_reasons: tuple[Reason, ...]
    claim: str
    request: str
    distance: int
    nodes: list[str] = field(default_factory=list)
    devices: Counter[Reason] = field(default_factory=Counter)
    refused: dict[Reason, list[DeviceId]] = field(default_factory=dict)
    common_reason: Reason | None = None
    placed: int = 0
    wanted: int = 0
    others: int = 0
    tried: frozenset[tuple[str, str]] = frozenset()
    """The requests that the search came to on these nodes, by claim and name; all but the last were served."""

    @property
    def examples(self) -> dict[Reason, list[DeviceId]]:
        """Some of the refused devices, by reason."""
        return {reason: devices[:_SAMPLES] for reason, devices in self.refused.items()}

    @property
    def missing(self) -> int:
        """How many devices the best node has too few; 1 where it is the node itself that is in the way."""
        return self.wanted - self.placed if self.wanted else 1

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of the nodes, then those of devices."""
        return (*self.node_reasons, *self.of_devices)

    @property
    def of_devices(self) -> tuple[Reason, ...]:
        """The reasons of devices; empty where only the nodes themselves are in the way."""
        return tuple(self.devices) or ((self.common_reason,) if self.common_reason is not None else ())


def grouped(nodes: Iterable[NodeRefusal]) -> list[RefusalGroup]:
    """The nodes that don't fit, grouped by what is in the way: the nearest group first, then the one where the fewest
    devices are missing, then the largest. Requests that the search never came to on a node miss as many devices as they
    ask for where it did."""
    groups: dict[object, RefusalGroup] = {}
    asked = dict[tuple[str, str], int]()
    # Details differ from device to device; those of the first stand for a group.
    reasons: dict[tuple[int, str, str], Reason] = {}
    for node in nodes:
        if node.fits:
            continue
        blocking = node.blocking
        claim, request = (blocking.claim, blocking.request) if blocking is not None else ("", "")
        alike = [(reason.code, reason.text) for reason in node.node_reasons]
        key = (tuple(alike), claim, request, *((reason.code, reason.text) for reason in node.device_reasons))
        group = groups.get(key)
        if group is None:
            requests = node.devices.requests if node.devices is not None else ()
            # The request of a claim, whichever of its alternatives was tried.
            wanted = {(tried.claim, tried.request.partition("/")[0]): tried.wanted for tried in requests}
            asked = wanted | asked
            group = groups[key] = RefusalGroup(
                node.node_reasons, claim, request, node.distance,
                common_reason=node.common_reason, tried=frozenset(wanted),
            )  # fmt: skip
        if blocking is None:
            group.nodes.append(node.node)
            continue
        if not group.wanted or blocking.wanted - blocking.placed < group.missing:
            group.placed, group.wanted = blocking.placed, blocking.wanted
            group.nodes.insert(0, node.node)  # at most once for each device that is asked for
        else:
            group.nodes.append(node.node)
        nearest = blocking.nearest
        if blocking.common_reason is None:
            group.others += len(blocking.devices) - len(nearest)
        for refused in nearest:
            reason = reasons.setdefault((id(group), refused.reason.code, refused.reason.text), refused.reason)
            group.devices[reason] += 1
            kept = group.refused.setdefault(reason, [])
            if len(kept) < _KEPT:
                kept.append(refused.device)

    def missing(group: RefusalGroup) -> int:
        untried = asked.keys() - group.tried if group.wanted else ()
        return group.missing + sum(asked[request] for request in untried)

    return sorted(
        groups.values(), key=lambda group: (group.distance, missing(group), -len(group.nodes), group.nodes[0])
    )


def group_text(group: RefusalGroup) -> str:
    """``3 nodes, request gpu: 24 devices: in use``."""
    where = group.nodes[0] if len(group.nodes) == 1 else counted(len(group.nodes), "node")
    return f"{where}{f', request {group.request}' if group.request else ''}: {reasons_text(group)}"


def named_group_text(group: RefusalGroup) -> str:
    """``3 nodes (a, b and 1 more), claim team-a/gpu, request gpu: 24 devices: in use``."""
    where = f"{counted(len(group.nodes), 'node')} ({listed(group.nodes, 2)})"
    of = f", claim {group.claim}, request {group.request}" if group.request else ""
    return f"{where}{of}: {reasons_text(group)}"


def reasons_text(group: RefusalGroup) -> str:
    """``cordoned, 24 devices: in use (1 of 2 at best)``."""
    parts = [reason.text for reason in group.node_reasons]
    parts += [f"{counted(number, 'device')}: {reason.text}" for reason, number in group.devices.most_common()]
    if not group.devices and group.common_reason is not None:
        parts.append(group.common_reason.text)
    best = f" ({group.placed} of {group.wanted} at best)" if group.wanted > 1 else ""
    return f"{'; '.join(parts)}{best}"


def nearest_text(groups: Sequence[RefusalGroup], nodes: int) -> str:
    """``none of 3 nodes can take it. Nearest: …``."""
    if not groups:
        return "there is no node"
    none = "the one node can't take it" if nodes == 1 else f"none of {nodes:,} nodes can take it"
    return f"{none}. Nearest: {group_text(groups[0])}"
