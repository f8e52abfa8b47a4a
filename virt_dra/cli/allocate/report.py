"""The report of ``virt-dra allocate``, as data (JSON, YAML) and as text: a table of devices, the scheduler's line, trees of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text
from rich.tree import Tree

from virt_dra.allocator import Explanation
from virt_dra.allocator.explain import RequestExplanation
from virt_dra.api.counting import counted
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult
from virt_dra.api.wire import Json
from virt_dra.simulator.allocation import FITS, AllocationAnswer, NodeAnswer

SHOWN_NODES = 20
"""Nodes whose refusals are shown as text; as JSON and YAML all of them are."""
SHOWN_DEVICES = 5
"""Devices named in one line of refusals."""

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
    """One line per allocated device, in aligned columns, and one per unallocated claim; ``every_node``: also one per refusing node."""
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
                yield claim, node.node, "-", "-", "requests no devices"
            for device in result.devices.results:
                yield claim, node.node, device.request, f"{device.driver}/{device.pool}/{device.device}", _details(device)


def _details(device: DeviceRequestAllocationResult) -> str:
    words = ["admin access"] if device.admin_access else []
    words += [f"{name} {amount}" for name, amount in (device.consumed_capacity or {}).items()]
    return ", ".join(words)


def refusal_trees(answer: AllocationAnswer) -> Iterator[Tree]:
    """One tree per refusing node: the pools that can't be used, then for each request why which devices were refused."""
    explained = [node for node in answer.nodes if node.verdict != FITS]
    for node in explained[:SHOWN_NODES]:
        tree = Tree(Text(f"{', '.join(answer.claims)} on node {node.node}: {node.summary}"))
        if node.explanation is not None:
            _grow(tree, node.explanation)
        yield tree
    if len(explained) > SHOWN_NODES:
        yield Tree(Text(f"and {counted(len(explained) - SHOWN_NODES, 'more node')}; -o json shows all, --node NAME one of them"))


def _grow(tree: Tree, explanation: Explanation) -> None:
    for problem in explanation.pools:
        tree.add(Text(f"pool {problem.pool}: {problem.reason}: {problem.detail}"))
    if not explanation.devices:
        tree.add(Text("no device is accessible from this node"))
    for request in explanation.requests:
        limit = "; the claim would hold more devices than the API allows" if request.over_limit else ""
        at_best = f"{request.placed} of {counted(request.wanted, 'device')} at best"
        branch = tree.add(Text(f"claim {request.claim}, request {request.request}: {at_best}{limit}"))
        for line in _refusal_lines(request):
            branch.add(Text(line))


def _refusal_lines(request: RequestExplanation) -> Iterator[str]:
    """One line for all devices that were refused for the same reason in the same words."""
    groups: dict[tuple[str, str], list[str]] = {}
    for each in request.rejections:
        groups.setdefault((each.reason, each.detail), []).append(str(each.device))
    for (reason, detail), devices in groups.items():
        yield f"{_some(devices)}: {reason}: {detail}"


def _some(devices: Sequence[str]) -> str:
    shown = ", ".join(devices[:SHOWN_DEVICES])
    return f"{shown} and {len(devices) - SHOWN_DEVICES} more" if len(devices) > SHOWN_DEVICES else shown
