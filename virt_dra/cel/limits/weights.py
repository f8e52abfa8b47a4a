"""Static time estimates of an expression, by the nodes of its tree: for selections, calls and literals, which charge nothing themselves.

In measured microseconds; ``devtools/cel/hostile`` searches for expressions that take longer. A loop's body is estimated separately, and
charged for each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.cel.syntax.nodes import Bind, Call, Comprehension, ListNode, Literal, Logic, MapNode, Message, OptionalMap, Select, SyntaxNode

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
_STEP: Final = 0.1
"""Of a step of a loop, besides its body."""


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """Estimates of an expression. ``whole``: of everything outside of loops; ``loops``: of one step, by the id of the comprehension;
    ``nodes``: how many it has; ``patterns``: regular expressions that are literals."""

    whole: float
    loops: dict[int, float]
    nodes: int
    patterns: frozenset[str]


def estimate_work(root: SyntaxNode) -> WorkEstimate:
    """The weights of a checked tree."""
    found: dict[int, float] = {0: EVALUATION}
    waiting: list[tuple[SyntaxNode, int]] = [(root, 0)]
    nodes = 0
    patterns: set[str] = set()
    while waiting:
        node, owner = waiting.pop()
        nodes += 1
        own = _NODE
        match node:
            case Literal():
                own = _LITERAL
            case Select():
                waiting.append((node.operand, owner))
            case Call():
                own = _CALL
                waiting += [(part, owner) for part in node.args]
                if node.function in _SEARCHES:
                    patterns |= {part.value for part in node.args if isinstance(part, Literal) and isinstance(part.value, str)}
                if node.target is not None:
                    waiting.append((node.target, owner))
            case Logic():
                waiting += [(term, owner) for term in node.terms]
            case ListNode():
                waiting += [(element, owner) for element, _ in node.elements]
            case MapNode():
                own = _ENTRY * (1 + len(node.entries))
                waiting += [(part, owner) for key, value, _ in node.entries for part in (key, value)]
            case Message():
                waiting += [(value, owner) for _, value, _, _ in node.fields]
            case Comprehension():
                own = _MACRO
                waiting.append((node.range, owner))
                inside = id(node)
                found[inside] = _STEP
                waiting.append((node.body, inside))
                if node.condition is not None:
                    waiting.append((node.condition, inside))
            case Bind():
                own = _CALL
                waiting += [(node.value, owner), (node.body, owner)]
            case OptionalMap():
                own = _MACRO
                waiting += [(node.target, owner), (node.body, owner)]
        found[owner] += own
    whole = found.pop(0)
    return WorkEstimate(whole, found, nodes, frozenset(patterns))
