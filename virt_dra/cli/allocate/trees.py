"""The refusals of ``virt-dra allocate -v`` as trees. Imported when there are some, since rich takes 30 ms to import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.text import Text
from rich.tree import Tree

from virt_dra.allocator import Explanation
from virt_dra.allocator.explain import RequestExplanation
from virt_dra.api.counting import counted, listed
from virt_dra.simulator.allocation import FITS, AllocationAnswer, NodeAnswer

SHOWN_TREES: Final = 20
"""Groups of like nodes whose refusals are shown as text; as JSON and YAML those of every node are."""
SHOWN_NAMES: Final = 5
"""Devices or nodes named in one line."""


def refusal_trees(answer: AllocationAnswer) -> Iterator[Tree]:
    """One tree for all nodes that refuse alike: the pools that can't be used, then for each request why how many
    devices were refused."""
    groups: dict[object, list[NodeAnswer]] = {}
    for node in answer.nodes:
        if node.verdict != FITS:
            groups.setdefault(_likeness(node), []).append(node)
    for nodes in list(groups.values())[:SHOWN_TREES]:
        names = listed([node.node for node in nodes], SHOWN_NAMES)
        where = f"node {names}" if len(nodes) == 1 else f"{len(nodes):,} nodes ({names})"
        tree = Tree(Text(f"{', '.join(answer.claims)} on {where}: {nodes[0].summary}"))
        _grow(tree, [node.explanation for node in nodes if node.explanation is not None])
        yield tree
    left = sum(map(len, list(groups.values())[SHOWN_TREES:]))
    if left:
        yield Tree(Text(f"and {counted(left, 'more node')}; -o json shows all, --node NAME one of them"))


def _likeness(node: NodeAnswer) -> object:
    """What nodes of one tree have in common: everything that it says besides the names of devices and pools."""
    if node.explanation is None:
        return node.summary
    requests = tuple(
        (
            of.claim,
            of.request,
            of.wanted,
            of.placed,
            of.over_limit,
            tuple((why, len(devices)) for why, devices in _refused(of)),
        )
        for of in node.explanation.requests
    )
    pools = tuple((problem.reason, problem.detail) for problem in node.explanation.pools)
    return node.summary, node.explanation.devices == 0, pools, requests


def _grow(tree: Tree, alike: Sequence[Explanation]) -> None:
    if not alike:
        return
    first = alike[0]
    for number, problem in enumerate(first.pools):
        pools = [str(explanation.pools[number].pool) for explanation in alike]
        tree.add(Text(f"pool {listed(pools, SHOWN_NAMES)}: {problem.reason}: {problem.detail}"))
    if not first.devices:
        tree.add(Text(f"no device is accessible from {'this node' if len(alike) == 1 else 'these nodes'}"))
    for number, request in enumerate(first.requests):
        limit = "; the claim would hold more devices than the API allows" if request.over_limit else ""
        at_best = f"{request.placed} of {counted(request.wanted, 'device')} at best"
        branch = tree.add(Text(f"claim {request.claim}, request {request.request}: {at_best}{limit}"))
        of_nodes = [_refused(explanation.requests[number]) for explanation in alike]
        for place, ((reason, detail), _) in enumerate(of_nodes[0]):
            devices = [device for refused in of_nodes for device in refused[place][1]]
            branch.add(Text(f"{listed(devices, SHOWN_NAMES)}: {reason}: {detail}"))


def _refused(request: RequestExplanation) -> list[tuple[tuple[str, str], list[str]]]:
    """The devices by what refused them: the reason, and its words."""
    groups: dict[tuple[str, str], list[str]] = {}
    for rejection in request.rejections:
        groups.setdefault((rejection.reason, rejection.detail), []).append(str(rejection.device))
    return list(groups.items())
