"""What an allocation came to, as data (JSON, YAML) and as text: a table of devices, the scheduler's line, the tree of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text
from rich.tree import Tree

from virt_dra.allocator import Explanation
from virt_dra.allocator.explain import RequestExplanation, histogram
from virt_dra.api.resource_v1 import AllocationResult, DeviceRequestAllocationResult
from virt_dra.api.wire import Json

SHOWN_NODES = 20
"""Nodes whose refusals are shown as text; as JSON and YAML all of them are."""
SHOWN_DEVICES = 5
"""Devices named in one line of refusals."""

FITS, REFUSED, ERROR, TIMED_OUT = "fits", "refused", "error", "timed out"
"""Verdicts on a node: the claims can be allocated there; they can't; the node (or the pod) can't be decided; not in time."""


@dataclass(frozen=True)
class NodeAnswer:
    """What one node says to the claims. ``summary``: a few words for the histogram, "" where the claims fit."""

    node: str
    verdict: str
    summary: str = ""
    results: tuple[AllocationResult, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True)
class AllocationAnswer:
    """What became of claims that are placed together.

    ``nodes``: the nodes that were tried, in order. ``error``: broken input, for which no node can help. ``total``: nodes there are to try.
    """

    claims: tuple[str, ...]
    nodes: tuple[NodeAnswer, ...]
    total: int
    error: str | None = None

    @property
    def fitting(self) -> tuple[NodeAnswer, ...]:
        return tuple(answer for answer in self.nodes if answer.verdict == FITS)

    @property
    def allocated(self) -> bool:
        return self.error is None and bool(self.fitting)

    @property
    def message(self) -> str | None:
        """Why there is no allocation, in one line; None where there is one."""
        if self.allocated:
            return None
        return self.error or histogram(self.total, (answer.summary for answer in self.nodes))


# --- data ---------------------------------------------------------------------------------------------------------


def answer_json(answer: AllocationAnswer) -> Json:
    return {
        "claims": list(answer.claims),
        "allocated": answer.allocated,
        "node": answer.fitting[0].node if answer.allocated else None,
        "message": answer.message,
        "nodes": [_node_json(each) for each in answer.nodes],
    }


def _node_json(answer: NodeAnswer) -> Json:
    return {
        "node": answer.node,
        "verdict": answer.verdict,
        "summary": answer.summary or None,
        "results": [result.to_wire() for result in answer.results] if answer.verdict == FITS else None,
        "explanation": explanation_json(answer.explanation) if answer.explanation is not None else None,
    }


def explanation_json(explanation: Explanation) -> Json:
    """The tree of refusals: pools that can't be used, then per request what refused each device."""
    return {
        "node": explanation.node,
        "reason": explanation.reason,
        "summary": explanation.summary,
        "devices": explanation.devices,
        "pools": [{"pool": str(each.pool), "reason": each.reason, "detail": each.detail} for each in explanation.pools],
        "requests": [_request_json(each) for each in explanation.requests],
    }


def _request_json(request: RequestExplanation) -> Json:
    return {
        "claim": request.claim,
        "request": request.request,
        "wanted": request.wanted,
        "placed": request.placed,
        "overLimit": request.over_limit,
        "rejections": [
            {"device": str(each.device), "reason": each.reason, "summary": each.summary, "detail": each.detail}
            for each in request.rejections
        ],
    }


# --- text ---------------------------------------------------------------------------------------------------------

HEADINGS = ("CLAIM", "NODE", "REQUEST", "DEVICE", "DETAILS")


def table(answers: Iterable[AllocationAnswer], *, every_node: bool) -> list[str]:
    """A line per allocated device, in aligned columns, and one for what isn't allocated; with ``every_node`` also for nodes that refuse."""
    rows = [row for answer in answers for row in _rows(answer, every_node=every_node)]
    widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (HEADINGS, *rows)]


def _rows(answer: AllocationAnswer, *, every_node: bool) -> Iterator[tuple[str, ...]]:
    if not answer.allocated:
        yield ", ".join(answer.claims), "-", "-", "-", answer.message or ""
        return
    for node in answer.nodes:
        if node.verdict != FITS:
            if every_node:
                yield ", ".join(answer.claims), node.node, "-", "-", node.summary
            continue
        for claim, result in zip(answer.claims, node.results, strict=True):
            if not result.devices.results:
                yield claim, node.node, "-", "-", "wants no devices"
            for device in result.devices.results:
                yield claim, node.node, device.request, f"{device.driver}/{device.pool}/{device.device}", _details(device)


def _details(device: DeviceRequestAllocationResult) -> str:
    words = ["admin access"] if device.admin_access else []
    words += [f"{name} {amount}" for name, amount in (device.consumed_capacity or {}).items()]
    return ", ".join(words)


def refusal_trees(answer: AllocationAnswer) -> Iterator[Tree]:
    """A tree per node that refused: the pools that can't be used, then per request what refused which devices."""
    explained = [node for node in answer.nodes if node.verdict != FITS]
    for node in explained[:SHOWN_NODES]:
        tree = Tree(Text(f"{', '.join(answer.claims)} on node {node.node}: {node.summary}"))
        if node.explanation is not None:
            _grow(tree, node.explanation)
        yield tree
    if len(explained) > SHOWN_NODES:
        yield Tree(Text(f"and {len(explained) - SHOWN_NODES} more nodes; -o json tells all, --node NAME one of them"))


def _grow(tree: Tree, explanation: Explanation) -> None:
    for problem in explanation.pools:
        tree.add(Text(f"pool {problem.pool}: {problem.reason}: {problem.detail}"))
    if not explanation.devices:
        tree.add(Text("the node reaches no device"))
    for request in explanation.requests:
        limit = "; the claim would hold more devices than it may" if request.over_limit else ""
        branch = tree.add(
            Text(f"claim {request.claim}, request {request.request}: {request.placed} of {request.wanted} devices at best{limit}")
        )
        for line in _refusal_lines(request):
            branch.add(Text(line))


def _refusal_lines(request: RequestExplanation) -> Iterator[str]:
    """Devices that were refused for the same reason in the same words share a line."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in request.rejections:
        groups.setdefault((each.reason, each.detail), []).append(str(each.device))
    for (reason, detail), devices in groups.items():
        yield f"{_some(devices)}: {reason}: {detail}"


def _some(devices: Sequence[str]) -> str:
    shown = ", ".join(devices[:SHOWN_DEVICES])
    return f"{shown} and {len(devices) - SHOWN_DEVICES} more" if len(devices) > SHOWN_DEVICES else shown
