"""The nodes that fit a VM, by the scores of their best offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from virt_dra.allocator.attempt import DeviceOrder
from virt_dra.scheduling.policies.policy import Score


class RankedNode(NamedTuple):
    """A node by its number, its version when it was ranked, and the order in which its devices are tried."""

    number: int
    version: int
    order: DeviceOrder | None


class Ranking:
    """Nodes in the order of their scores. One whose version has changed doesn't count until it is put again."""

    __slots__ = ("_draw", "_scores", "_size", "_tied", "_versions")

    def __init__(self, versions: Sequence[int], draw: Callable[[], float] | None) -> None:
        """``versions``: of the nodes, now. ``draw`` decides between equals; None: the first is taken."""
        self._versions = versions
        self._draw = draw
        self._scores: list[Score] = []
        """A heap of the different scores."""
        self._tied: dict[Score, list[RankedNode]] = {}
        """The nodes of a score: a heap, or, if one of them is drawn, in no order."""
        self._size = 0

    def put(self, score: Score, node: RankedNode) -> None:
        tied = self._tied.get(score)
        if tied is None:
            tied = self._tied[score] = []
            heappush(self._scores, score)
        if self._draw is None:
            heappush(tied, node)
        else:
            tied.append(node)
        self._size += 1
        if self._size > 2 * len(self._versions):
            self._forget_old_versions()

    def best(self) -> RankedNode | None:
        """The best node; None if there is none."""
        while self._scores:
            tied = self._tied[self._scores[0]]
            while tied:
                if self._draw is not None:  # the one that is drawn is the last of them then
                    drawn = int(self._draw() * len(tied))
                    tied[drawn], tied[-1] = tied[-1], tied[drawn]
                node = tied[0] if self._draw is None else tied[-1]
                if node.version == self._versions[node.number]:
                    return node
                self._take(tied)
            del self._tied[heappop(self._scores)]
        return None

    def take_best(self) -> tuple[Score, RankedNode]:
        """Takes out the node that `best` has just given."""
        score = self._scores[0]
        return score, self._take(self._tied[score])

    def _take(self, tied: list[RankedNode]) -> RankedNode:
        self._size -= 1
        return heappop(tied) if self._draw is None else tied.pop()

    def _forget_old_versions(self) -> None:
        versions = self._versions
        current = {
            score: [node for node in tied if node.version == versions[node.number]]
            for score, tied in self._tied.items()
        }
        self._tied = {score: tied for score, tied in current.items() if tied}
        for tied in self._tied.values():
            heapify(tied)
        self._scores = sorted(self._tied)
        self._size = sum(map(len, self._tied.values()))
