"""A quick upper bound of Kubernetes' run-time cost, for expressions without macros or functions that traverse texts or
lists.

It is coarser than the estimate of :mod:`virt_dra.cel.cost.estimate`, which takes several times as long on a long
expression. It only proves that an evaluation can't exceed the limit, so that counting its cost is unnecessary.
"""

from __future__ import annotations

from typing import Final

from virt_dra.cel.cost.actual import LIST_BASE, MAP_BASE, call_cost, tenth
from virt_dra.cel.syntax.nodes import Call, Ident, ListNode, Literal, Logic, MapNode, Select, SyntaxNode, children
from virt_dra.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT

_SCALARS: Final = (BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP)
_QUALIFIER: Final = 3
"""The most that a name, a selection or an index costs: as a qualifier, as a chain, and standing alone."""


def ceiling(root: SyntaxNode) -> int | None:
    """An upper bound of what evaluating a checked tree costs; None where the text alone gives none."""
    total = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        match node:
            case Call():
                cost = _call(node)
            case Ident() | Select():
                cost = _QUALIFIER
            case Literal() | Logic():
                cost = 0
            case ListNode():
                cost = LIST_BASE + 1
            case MapNode():
                cost = MAP_BASE + 1
            case _:
                cost = None
        if cost is None:
            return None
        total += cost
        waiting += children(node)
    return total


def _call(node: Call) -> int | None:
    if node.function in ("_==_", "_!=_"):
        return min((size for size in map(_compared, node.args) if size is not None), default=None)
    if node.function == "@in" and isinstance(node.args[1], ListNode):
        return 1 + len(node.args[1].elements)
    return _QUALIFIER if call_cost(node.function, node.overloads) is None else None


def _compared(operand: SyntaxNode) -> int | None:
    """The cost of comparing with the operand, which bounds the comparison: the smaller of both counts."""
    if operand.known_type in _SCALARS:
        return 1
    if isinstance(operand, Literal) and operand.type in (STRING, BYTES) and isinstance(operand.value, (str, bytes)):
        return 1 + tenth(len(operand.value))
    return None
