"""Which parts of an expression Kubernetes computes while it builds a program; evaluating them costs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.cel.functions.conversions import CONVERSIONS
from virt_dra.cel.syntax.nodes import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    Logic,
    MapNode,
    OptionalMap,
    Select,
    SyntaxNode,
    Variable,
)
from virt_dra.cel.types import TypeKind

_FOLDED = CONVERSIONS | {"dyn", "type"}
_PRIMITIVE = frozenset(("bool", "int", "uint", "double", "string"))


def children(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """What a node directly consists of."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case Logic():
            yield from node.terms
        case ListNode():
            for element, _ in node.elements:
                yield element
        case MapNode():
            for key, value, _ in node.entries:
                yield key
                yield value
        case Comprehension():
            yield node.range
            if node.condition is not None:
                yield node.condition
            yield node.body
        case Bind():
            yield node.value
            yield node.body
        case OptionalMap():
            yield node.target
            yield node.body


def bound(node: SyntaxNode) -> list[Variable]:
    """The variables that a node binds."""
    match node:
        case Comprehension():
            return [node.variable] if node.second is None else [node.variable, node.second]
        case Bind() | OptionalMap():
            return [node.variable]
        case _:
            return []


def walk(root: SyntaxNode) -> list[SyntaxNode]:
    """Every node, parents before their children."""
    found = [root]
    for node in found:
        found.extend(children(node))
    return found


_PLAIN_KEYS = _PRIMITIVE | {"bytes"}


def keys_by_identity(root: SyntaxNode) -> bool:
    """Whether lists, maps or objects may become keys, which are found again by the same object only: then what Kubernetes computes once
    and what it computes again must be told apart."""
    return any(isinstance(node, MapNode) and any(key.type.name not in _PLAIN_KEYS for key, _, _ in node.entries) for node in walk(root))


def constants(nodes: list[SyntaxNode]) -> set[int]:
    """The ``id`` of every node that is a constant to Kubernetes; ``nodes`` has parents before children."""
    known: set[int] = set()
    for node in reversed(nodes):
        if _is_constant(node, known):
            known.add(id(node))
    return known


def _is_constant(node: SyntaxNode, known: set[int]) -> bool:
    match node:
        case Literal():
            return True
        case Ident():
            return node.variable is None and node.type.kind is TypeKind.TYPE
        case Select():
            return node.constant is not None
        case ListNode() | MapNode():
            return all(id(child) in known for child in children(node))
        case Call():
            if is_membership(node) and isinstance(node.args[1], ListNode) and not node.args[1].elements:
                return True
            return node.function in _FOLDED and node.target is None and len(node.args) == 1 and id(node.args[0]) in known
        case _:
            return False


def is_membership(node: Call) -> bool:
    """Whether it is ``in`` with a list on the right, known to be one."""
    return node.function == "@in" and len(node.overloads) == 1 and node.overloads[0].params[1].kind is TypeKind.LIST


def is_lookup(node: Call, known: set[int]) -> bool:
    """Whether it is ``x in [constants]`` that Kubernetes turns into a look-up, which costs nothing."""
    if not is_membership(node) or not isinstance(node.args[1], ListNode) or id(node.args[1]) not in known:
        return False
    return all(_primitive(element) for element, _ in node.args[1].elements)


def _primitive(node: SyntaxNode) -> bool:
    while isinstance(node, Call) and node.function == "dyn":
        node = node.args[0]
    return node.type.name in _PRIMITIVE
