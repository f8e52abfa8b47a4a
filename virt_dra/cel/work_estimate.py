"""Static time estimates of an expression, by the nodes of its tree: for selections, calls and literals, which charge
nothing themselves.

In measured microseconds; ``devtools/cel/hostile`` searches for expressions that take longer. A loop's body is estimated
separately, and charged for each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.cel.syntax.nodes import Bind, Call, Comprehension, Literal, MapNode, OptionalMap, SyntaxNode, children

EVALUATION: Final = 1.5
"""Of every evaluation."""
COUNTED: Final = 3.0
"""Factor for the form of an expression that also counts Kubernetes' cost."""
_SEARCHES: Final = frozenset(("matches", "find", "findAll"))
_LITERAL: Final = 0.02
_NODE: Final = 0.06
_CALL: Final = 0.4
_ENTRY: Final = 0.3
_MACRO: Final = 0.8
_OWN: Final = {Literal: _LITERAL, Call: _CALL, Bind: _CALL, MapNode: _ENTRY, Comprehension: _MACRO, OptionalMap: _MACRO}
"""By class of node; of a map's entries on top."""
_STEP: Final = 0.1
"""Of a step of a loop, besides its body."""


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """Estimates of an expression. ``whole``: of everything outside of loops; ``loops``: of one step, by the id of the
    comprehension; ``nodes``: how many it has; ``patterns``: regular expressions that are literals."""

    whole: float
    loops: dict[int, float]
    nodes: int
    patterns: frozenset[str]


def estimate_work(root: SyntaxNode) -> WorkEstimate:
    """The estimate for a checked tree."""
    loops: dict[int, float] = {}
    nodes = 0
    patterns: set[str] = set()
    bodies: list[tuple[int, float, list[SyntaxNode]]] = [(0, EVALUATION, [root])]
    while bodies:
        owner, total, waiting = bodies.pop()
        while waiting:
            node = waiting.pop()
            nodes += 1
            total += _OWN.get(type(node), _NODE)
            if isinstance(node, Comprehension):
                waiting.append(node.range)
                bodies.append((id(node), _STEP, list(children(node)[1:])))
                continue
            if isinstance(node, MapNode):
                total += _ENTRY * len(node.entries)
            elif isinstance(node, Call) and node.function in _SEARCHES:
                patterns |= {
                    part.value for part in node.args if isinstance(part, Literal) and isinstance(part.value, str)
                }
            waiting += children(node)
        loops[owner] = total
    whole = loops.pop(0)
    return WorkEstimate(whole, loops, nodes, frozenset(patterns))
