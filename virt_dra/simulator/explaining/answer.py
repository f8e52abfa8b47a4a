"""The whole answer to "why does it wait?": what is in the way, the nearest first, and ways out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.allocator import DeadlineExceeded, FatalError
from virt_dra.allocator.features.in_use import IN_USE
from virt_dra.allocator.model import DeviceId
from virt_dra.api.wire import Json
from virt_dra.model.usage import DeviceHolder, holders_by
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.scheduling.why import NodeMisses
from virt_dra.simulator.explaining.groups import MissGroup, grouped
from virt_dra.simulator.explaining.state import ClusterState
from virt_dra.simulator.explaining.subject import AskedSubject
from virt_dra.simulator.explaining.ways_out import WayOut, ways_out

JudgeProgress = Callable[[int, int], None]
"""Takes how many nodes of how many are judged."""

PLACED, FITS, WAITS, BROKEN = "placed", "fits", "waits", "broken"
"""It has its place; it would get one now; no node can take it; what it asks for can't be answered, whatever the
node."""
_HELD: Final = 3
"""Held devices of a group that are named."""


@dataclass(frozen=True)
class ExplainedAnswer:
    """``verdict``: see above. ``reason``: of the nearest miss, which has a page of its own; "" if there is none.

    ``fitting``: nodes that can take it. ``unjudged``: nodes for which time didn't last.
    """

    title: str
    verdict: str
    headline: str
    reason: str = ""
    nodes: int = 0
    fitting: tuple[str, ...] = ()
    groups: tuple[MissGroup, ...] = ()
    held: tuple[tuple[DeviceId, DeviceHolder], ...] = ()
    """Devices that match but are in use, on the nearest nodes, with their holders."""
    ways: tuple[WayOut, ...] = ()
    unjudged: int = 0


def answered(
    subject: AskedSubject, state: ClusterState, progress: JudgeProgress, restart: Callable[[], None] = lambda: None
) -> ExplainedAnswer:
    """Raises FatalError for slices that can't be read. ``restart``: starts the time limit again, before ways out are
    looked for."""
    if subject.problem:
        return ExplainedAnswer(subject.title, BROKEN, f"{subject.title} can't start: {subject.problem}")
    if subject.wish is None:
        return ExplainedAnswer(
            subject.title, PLACED, _placed_text(subject, state), fitting=(subject.node,) if subject.node else ()
        )
    found: list[NodeMisses] = []
    names = sorted(state.nodes)
    try:
        for each in state.judged(subject.wish):
            found.append(each)
            progress(len(found), len(names))
    except DeadlineExceeded:
        pass  # what is known until then is said, and how many nodes are left
    except FatalError as error:
        return ExplainedAnswer(subject.title, BROKEN, f"{subject.title} can't start: {error}", nodes=len(names))
    fitting = tuple(each.node for each in found if each.fits)
    groups = tuple(grouped(found))
    unjudged = len(names) - len(found)
    if fitting:
        headline = _fits_text(subject, fitting, len(names))
        return ExplainedAnswer(subject.title, FITS, headline, "", len(names), fitting, groups, unjudged=unjudged)
    held = _held(state, groups)
    restart()
    ways = ways_out(state, subject.wish, groups)
    reason = groups[0].reasons[0].code if groups else ""
    headline = _waits_text(subject, groups, len(names))
    return ExplainedAnswer(subject.title, WAITS, headline, reason, len(names), (), groups, held, ways, unjudged)


def _placed_text(subject: AskedSubject, state: ClusterState) -> str:
    allocations = [claim.status.allocation for claim in subject.claims if claim.status.allocation is not None]
    devices = [result.device for each in allocations for result in each.devices.results]
    where = f" on node {subject.node}" if subject.node else ""
    have = f" with {', '.join(devices[:8])}{' and more' if len(devices) > 8 else ''}" if devices else ""
    if subject.title.startswith("claim "):
        users = [holder.user for _, holder in holders_by(subject.claims[0], state.model)[:1]]
        by = f", used by {users[0]}" if users and not users[0].startswith("claim ") else ""
        return f"{subject.title} is allocated{where}{have}{by}"
    return f"{subject.title} has its place{where}{have}"


def _fits_text(subject: AskedSubject, fitting: Sequence[str], nodes: int) -> str:
    some = ", ".join(fitting[:3]) + (f" and {len(fitting) - 3} more" if len(fitting) > 3 else "")
    waiting = (
        "its pod waits for something else than devices and room, or for its turn"
        if subject.made
        else "it isn't created yet"
    )
    return f"{subject.title} fits on {len(fitting)} of {_many(nodes, 'node')} ({some}): {waiting}"


def _waits_text(subject: AskedSubject, groups: Sequence[MissGroup], nodes: int) -> str:
    says = "waits" if subject.made else "would wait"
    if not groups:
        return f"{subject.title} {says}: there is no node"
    none = "the one node can't take it" if nodes == 1 else f"none of {nodes:,} nodes can take it"
    return f"{subject.title} {says}: {none}. Nearest: {group_text(groups[0])}"


def group_text(group: MissGroup) -> str:
    """``3 nodes, 24 devices: in use``."""
    parts = [miss.text for miss in group.host]
    for miss, number in group.devices.most_common():
        parts.append(f"{_many(number, 'device')}: {miss.text}")
    if not group.devices and group.lacking is not None:
        parts.append(group.lacking.text)
    where = group.nodes[0] if len(group.nodes) == 1 else _many(len(group.nodes), "node")
    of = f", request {group.request}" if group.request else ""
    best = f" ({group.placed} of {group.wanted} at best)" if group.wanted > 1 else ""
    return f"{where}{of}: {'; '.join(parts)}{best}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _held(state: ClusterState, groups: Sequence[MissGroup]) -> tuple[tuple[DeviceId, DeviceHolder], ...]:
    found: list[tuple[DeviceId, DeviceHolder]] = []
    for group in groups[:1]:
        for miss, devices in group.examples.items():
            if miss.code == IN_USE:
                found += [(device, holder) for device in devices for holder in state.holders.get(device, ())]
    return tuple(found[:_HELD])


def answer_json(answer: ExplainedAnswer) -> Json:
    """The answer as a document; ``reason`` has a page: ``virt-dra explain REASON``."""
    return {
        "version": 1,
        "subject": answer.title,
        "verdict": answer.verdict,
        "headline": answer.headline,
        "reason": answer.reason or None,
        "nodes": answer.nodes,
        "unjudged": answer.unjudged,
        "fitting": list(answer.fitting),
        "misses": [_group_json(group) for group in answer.groups],
        "held": [_held_json(device, holder) for device, holder in answer.held],
        "waysOut": [
            {
                "text": way.text,
                "node": way.node,
                "changes": [{"kind": each.kind, "text": each.text} for each in way.changes],
            }
            for way in answer.ways
        ],
    }


def _group_json(group: MissGroup) -> Json:
    return {
        "nodes": group.nodes,
        "claim": group.claim or None,
        "request": group.request or None,
        "wanted": group.wanted,
        "placed": group.placed,
        "node": [_miss_json(miss) for miss in group.host],
        "devices": [
            {**_miss_json(miss), "count": number, "examples": [str(device) for device in group.examples[miss]]}
            for miss, number in group.devices.most_common()
        ],
        "lacking": None if group.lacking is None else _miss_json(group.lacking),
    }


def _miss_json(miss: Reason) -> Json:
    return {"reason": miss.code, "text": miss.text, "detail": miss.detail}


def _held_json(device: DeviceId, holder: DeviceHolder) -> Json:
    return {
        "device": str(device),
        "claim": holder.claim.key,
        "vm": f"{holder.namespace}/{holder.vm}" if holder.vm else None,
        "pod": holder.pods[0].key if holder.pods else None,
        "since": holder.since or None,
    }
