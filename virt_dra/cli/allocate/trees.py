"""The refusals of ``virt-dra allocate -v`` as trees. Imported when there are some, since rich takes 30 ms to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from rich.tree import Tree

from virt_dra.allocator import Explanation
from virt_dra.allocator.explain import RequestExplanation
from virt_dra.api.counting import counted
from virt_dra.simulator.allocation import FITS, AllocationAnswer

SHOWN_NODES = 20
"""Nodes whose refusals are shown as text; as JSON and YAML all of them are."""
SHOWN_DEVICES = 5
"""Devices named in one line of refusals."""


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
