"""The whole answer to "why does it wait?": what is in the way, the nearest first, and ways out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypedDict

from virt_dra.allocator import DeadlineExceeded, FatalError
from virt_dra.allocator.features.in_use import IN_USE
from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import SCHEDULER_NAME, Pod
from virt_dra.api.counting import counted, listed
from virt_dra.api.go_text import visible
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.unknown import UnknownFact, UnknownFactJson
from virt_dra.model.usage import DeviceHolder, devices_held_by
from virt_dra.scheduling.alignment import aligned_claims, chosen_alignments
from virt_dra.scheduling.fit import FitOptions
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.scheduling.why.document import RefusalGroupJson, group_json
from virt_dra.scheduling.why.groups import RefusalGroup, grouped, nearest_text
from virt_dra.scheduling.why.tree import NodeRefusal
from virt_dra.simulator.explaining.state import ClusterState, Wish
from virt_dra.simulator.explaining.subject import AskedSubject
from virt_dra.simulator.explaining.ways_out import Kind, WayOut, ways_out

JudgeProgress = Callable[[int, int], None]
"""Takes how many nodes of how many are judged."""

ExplainedVerdict = Literal["placed", "fits", "waits", "broken"]
PLACED: Final = "placed"
"""It has its place."""
FITS: Final = "fits"
"""It would get a place now."""
WAITS: Final = "waits"
"""No node can take it."""
BROKEN: Final = "broken"
"""What it asks for can't be answered, whatever the node."""
_HELD: Final = 3
"""Held devices of a group that are named."""


@dataclass(frozen=True)
class ExplainedAnswer:
    """Why a VM, pod or claim gets no place, and what would help. ``reason``: of the nearest refusal, or of the refusal
    of all nodes, which has a page of its own; "" if there is none. ``fitting``: nodes that can take it. ``unjudged``:
    nodes for which time didn't last. ``held``: devices that match but are in use, on the nearest nodes, with their
    holders. ``unknown``: what couldn't be taken into account. ``unaligned``: devices that it prefers together, and gets
    apart. ``keeping``: what the VM keeps while it is stopped, and what KeepPolicies leave of it."""

    title: str
    verdict: ExplainedVerdict
    headline: str
    reason: str = ""
    nodes: int = 0
    fitting: tuple[str, ...] = ()
    groups: tuple[RefusalGroup, ...] = ()
    held: tuple[tuple[DeviceId, DeviceHolder], ...] = ()
    ways: tuple[WayOut, ...] = ()
    unjudged: int = 0
    unknown: tuple[UnknownFact, ...] = ()
    unaligned: tuple[str, ...] = ()
    keeping: tuple[str, ...] = ()


def answered(
    subject: AskedSubject, state: ClusterState, progress: JudgeProgress, restart: Callable[[], None] = lambda: None
) -> ExplainedAnswer:
    """The answer for a subject, with ways out, before which ``restart`` starts the time limit again. Raises
    FatalError."""
    answer = answer_without_ways(subject, state, progress)
    if subject.wish is None or answer.verdict != WAITS:
        return answer
    restart()
    return replace(answer, ways=ways_out(state, subject.wish, answer.groups))


def answer_without_ways(subject: AskedSubject, state: ClusterState, progress: JudgeProgress) -> ExplainedAnswer:
    """The answer for a subject, for all nodes, without ways out."""
    return replace(_without_ways(subject, state, progress), keeping=subject.keeping)


def _without_ways(subject: AskedSubject, state: ClusterState, progress: JudgeProgress) -> ExplainedAnswer:
    if subject.problem is not None:
        headline = f"{subject.title} can't start: {subject.problem.text}"
        return ExplainedAnswer(subject.title, BROKEN, headline, subject.problem.code)
    if subject.wish is None:
        return ExplainedAnswer(
            subject.title, PLACED, _placed_text(subject, state), fitting=(subject.node,) if subject.node else ()
        )
    wish, unaligned = _aligned(subject, subject.wish, state)
    answer = replace(_judged(subject, wish, state, progress), unaligned=unaligned)
    return replace(answer, unknown=(*subject.unknown, *unknown_to([subject.wish.pod], state.model)))


def _aligned(subject: AskedSubject, wish: Wish, state: ClusterState) -> tuple[Wish, tuple[str, ...]]:
    """The wish with the alignments that it would ask for, and what is given up."""
    if not subject.preferences:
        return wish, ()
    options = FitOptions(state.features, interrupt=state.interrupt)
    try:
        choice = chosen_alignments(wish.pod, wish.claims, subject.preferences, state.model, options)
    except DeadlineExceeded:
        return wish, ()
    return replace(wish, claims=aligned_claims(wish.pod, wish.claims, choice.held)), choice.texts


def _judged(subject: AskedSubject, wish: Wish, state: ClusterState, progress: JudgeProgress) -> ExplainedAnswer:
    total, nodes = len(state.nodes), list[NodeRefusal]()
    try:
        asked = state.fit(wish)
        if asked.everywhere is not None:
            headline = f"{subject.title} can't start: {asked.everywhere.description}"
            return ExplainedAnswer(subject.title, BROKEN, headline, asked.everywhere.code, total)
        for node in state.judged(asked):
            nodes.append(node)
            progress(len(nodes), total)
    except DeadlineExceeded:
        pass  # what is known until then is said, and how many nodes are left
    except FatalError as error:
        return ExplainedAnswer(subject.title, BROKEN, f"{subject.title} can't start: {error}", error.code, total)
    unjudged = total - len(nodes)
    fitting = tuple(node.node for node in nodes if node.fits)
    groups = tuple(grouped(nodes))
    if fitting:
        headline = _fits_text(subject, wish.pod, fitting, total)
        return ExplainedAnswer(subject.title, FITS, headline, "", total, fitting, groups, unjudged=unjudged)
    reason = groups[0].reasons[0].code if groups else ""
    headline = f"{subject.title} {'waits' if subject.made else 'would wait'}: {nearest_text(groups, total)}"
    return ExplainedAnswer(
        subject.title, WAITS, headline, reason, total, (), groups, _held(state, groups), unjudged=unjudged
    )


def _placed_text(subject: AskedSubject, state: ClusterState) -> str:
    devices = [result.device for claim in subject.claims for result in claim.results]
    where = f" on node {subject.node}" if subject.node else ""
    have = f" with {listed(devices, 8)}" if devices else ""
    if subject.kind is not ResourceClaim:
        return f"{subject.title} has its place{where}{have}"
    holder = next((holder for _, holder in devices_held_by(subject.claims[0], state.model)), None)
    by = f", used by {holder.user}" if holder is not None and len(holder.users) == 1 else ""
    return f"{subject.title} is allocated{where}{have}{by}"


def _fits_text(subject: AskedSubject, pod: Pod, fitting: Sequence[str], nodes: int) -> str:
    where = f"{len(fitting):,} of {counted(nodes, 'node')} ({listed(fitting, 3)})"
    return f"{subject.title} fits on {where}: {_awaited(subject, pod)}"


def _awaited(subject: AskedSubject, pod: Pod) -> str:
    """What a subject that fits waits for, as a clause."""
    if not subject.made:
        return f"it has ended ({subject.ended})" if subject.ended else "it isn't created yet"
    if subject.kind is ResourceClaim:
        return "it gets devices when a pod that names it is scheduled"
    gates = [visible(gate.name) for gate in pod.spec.scheduling_gates]
    if gates:
        noun, verb = ("gate", "is") if len(gates) == 1 else ("gates", "are")
        return f"its pod isn't scheduled before its scheduling {noun} {listed(gates, 3)} {verb} removed"
    if pod.spec.scheduler_name not in (None, "", SCHEDULER_NAME):
        return f"its pod waits for another scheduler, {visible(pod.spec.scheduler_name)}"
    return "its pod waits for its turn, or for what isn't checked here, such as volumes"


def _held(state: ClusterState, groups: Sequence[RefusalGroup]) -> tuple[tuple[DeviceId, DeviceHolder], ...]:
    examples = groups[0].examples.items() if groups else ()
    held = [device for reason, devices in examples if reason.code == IN_USE for device in devices]
    return tuple([(device, holder) for device in held for holder in state.holders.get(device, ())][:_HELD])


class HeldDeviceJson(TypedDict):
    """A device that matches but is in use, and who has it."""

    device: str
    claim: str
    vm: str | None
    pod: str | None
    since: str | None
    """RFC 3339"""


class WayOutStepJson(TypedDict):
    """A change."""

    kind: Kind
    text: str


class WayOutJson(TypedDict):
    """Changes after which it fits on the node, tried on a copy of the cluster."""

    text: str
    node: str
    changes: list[WayOutStepJson]


class ExplainedAnswerJson(TypedDict):
    """Why a VM, pod or claim gets no place, and what would help."""

    subject: str
    """e.g. VM team-a/trainer"""
    verdict: ExplainedVerdict
    """broken: no node is tried, since what it asks for can't be answered"""
    headline: str
    reason: str | None
    """The nearest reason; virt-dra explain REASON shows its page."""
    nodes: int
    """Nodes of the cluster."""
    unjudged: int
    """Nodes for which the time didn't last."""
    unknown: list[UnknownFactJson]
    fitting: list[str]
    """Nodes that can take it."""
    unaligned: list[str]
    """Devices that a profile prefers together, and that it gets apart."""
    keeping: list[str]
    """Devices that the VM keeps while it is stopped, until when, and what KeepPolicies leave of what it asks for."""
    misses: list[RefusalGroupJson]
    """Nodes that are refused alike, the nearest first."""
    held: list[HeldDeviceJson]
    waysOut: list[WayOutJson]


def answer_json(answer: ExplainedAnswer) -> ExplainedAnswerJson:
    return {
        "subject": answer.title,
        "verdict": answer.verdict,
        "headline": answer.headline,
        "reason": answer.reason or None,
        "nodes": answer.nodes,
        "unjudged": answer.unjudged,
        "unknown": [fact.to_json() for fact in answer.unknown],
        "fitting": list(answer.fitting),
        "unaligned": list(answer.unaligned),
        "keeping": list(answer.keeping),
        "misses": [group_json(group) for group in answer.groups],
        "held": [_held_json(device, holder) for device, holder in answer.held],
        "waysOut": [
            {
                "text": way.text,
                "node": way.node,
                "changes": [{"kind": step.kind, "text": step.text} for step in way.changes],
            }
            for way in answer.ways
        ],
    }


def _held_json(device: DeviceId, holder: DeviceHolder) -> HeldDeviceJson:
    return {
        "device": str(device),
        "claim": holder.claim.key,
        "vm": f"{holder.namespace}/{holder.vm}" if holder.vm else None,
        "pod": holder.pods[0].key if holder.pods else None,
        "since": holder.since or None,
    }
