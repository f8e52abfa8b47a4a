"""Constant folding as in Kubernetes: parts of an expression that are computed with the program, and cost nothing."""

from __future__ import annotations

from virt_dra.cel.functions.conversions import CONVERSIONS
from virt_dra.cel.syntax.nodes import Call, Ident, ListNode, Literal, MapNode, Select, SyntaxNode, children, walk
from virt_dra.cel.types import TypeKind

_FOLDED = CONVERSIONS | {"dyn", "type"}
_PRIMITIVE = frozenset(("bool", "int", "uint", "double", "string"))


_PLAIN_KEYS = _PRIMITIVE | {"bytes"}


def keys_by_identity(root: SyntaxNode) -> bool:
    """True if lists, maps or objects may become keys of maps. Those are compared by identity, so it matters what
    Kubernetes computes only once."""
    return any(
        isinstance(node, MapNode) and any(key.type.name not in _PLAIN_KEYS for key, _, _ in node.entries)
        for node in walk(root)
    )


def constants(nodes: list[SyntaxNode]) -> set[int]:
    """The ``id`` of every node that is a constant to Kubernetes; ``nodes`` has parents before children."""
    constant_ids: set[int] = set()
    for node in reversed(nodes):
        if _is_constant(node, constant_ids):
            constant_ids.add(id(node))
    return constant_ids


def _is_constant(node: SyntaxNode, constant_ids: set[int]) -> bool:
    match node:
        case Literal():
            return True
        case Ident():
            return node.variable is None and node.type.kind is TypeKind.TYPE
        case Select():
            return node.constant is not None
        case ListNode() | MapNode():
            return all(id(child) in constant_ids for child in children(node))
        case Call():
            if is_membership(node) and isinstance(node.args[1], ListNode) and not node.args[1].elements:
                return True
            return (
                node.function in _FOLDED
                and node.target is None
                and len(node.args) == 1
                and id(node.args[0]) in constant_ids
            )
        case _:
            return False


def is_membership(node: Call) -> bool:
    """Whether it is ``in`` with a list on the right, known to be one."""
    return node.function == "@in" and len(node.overloads) == 1 and node.overloads[0].params[1].kind is TypeKind.LIST


def is_lookup(node: Call, constant_ids: set[int]) -> bool:
    """Whether it is ``x in [constants]`` that Kubernetes turns into a look-up, which costs nothing."""
    if not is_membership(node) or not isinstance(node.args[1], ListNode) or id(node.args[1]) not in constant_ids:
        return False
    return all(_primitive(element) for element, _ in node.args[1].elements)


def _primitive(node: SyntaxNode) -> bool:
    while isinstance(node, Call) and node.function == "dyn":
        node = node.args[0]
    return node.type.name in _PRIMITIVE
