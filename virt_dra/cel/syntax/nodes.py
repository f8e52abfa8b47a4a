"""The syntax tree of an expression. Macros have own nodes; the checker fills in types and what names refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from virt_dra.cel.types import DYN, Type

if TYPE_CHECKING:
    from virt_dra.cel.functions.registry import Overload


@dataclass(slots=True, eq=False)
class Variable:
    """A name bound by a macro. Two macros that bind the same name bind two variables."""

    name: str
    type: Type = DYN
    unsure: bool = False
    """As :attr:`SyntaxNode.unsure`."""
    slot: int = 0
    """Number of the variable in generated code, unique in its expression."""


@dataclass(slots=True, eq=False)
class SyntaxNode:
    """A node of the tree. ``offset``: where issues point. ``type``: set by the checker. ``height``: see the parser."""

    offset: int
    type: Type = field(default=DYN, kw_only=True)
    height: int = field(default=0, kw_only=True)
    unsure: bool = field(default=False, kw_only=True)
    """True if the type was inferred from the value's use: that of ``[dyn(1)].flatten()[0]`` can have any type."""

    @property
    def known_type(self) -> Type:
        """The type that every value certainly has; dyn if that is uncertain."""
        return DYN if self.unsure else self.type


LiteralValue: TypeAlias = "bool | int | float | str | bytes | None"


@dataclass(slots=True, eq=False)
class Literal(SyntaxNode):
    value: LiteralValue


@dataclass(slots=True, eq=False)
class Ident(SyntaxNode):
    name: str
    variable: Variable | None = None
    """The macro variable it refers to, if any; otherwise ``name`` is a variable or a type of the environment."""


@dataclass(slots=True, eq=False)
class Select(SyntaxNode):
    operand: SyntaxNode
    name: str
    optional: bool = False
    test: bool = False
    """True for the argument of has()."""
    constant: str | None = None
    """The qualified name of a type, if the whole chain is one."""


@dataclass(slots=True, eq=False)
class Call(SyntaxNode):
    """A function or operator (``_+_``, ``_[_]``, ``_?_:_``, ``@in`` …)."""

    function: str
    target: SyntaxNode | None
    args: list[SyntaxNode]
    overloads: tuple[Overload, ...] = ()


@dataclass(slots=True, eq=False)
class Logic(SyntaxNode):
    """``&&`` or ``||`` over two or more terms."""

    function: str
    terms: list[SyntaxNode]


@dataclass(slots=True, eq=False)
class ListNode(SyntaxNode):
    elements: list[tuple[SyntaxNode, bool]]
    """Elements with whether each is optional (``[?x]``)."""


@dataclass(slots=True, eq=False)
class MapNode(SyntaxNode):
    entries: list[tuple[SyntaxNode, SyntaxNode, bool]]


@dataclass(slots=True, eq=False)
class Message(SyntaxNode):
    name: str
    fields: list[tuple[str, SyntaxNode, bool, int]]
    """Name, value, whether optional, offset."""


@dataclass(slots=True, eq=False)
class Comprehension(SyntaxNode):
    """``range.macro(variable[, second], [condition,] body)``.

    ``macro`` is all, exists, exists_one, map, filter, transformList, transformMap, transformMapEntry or sortBy.
    """

    macro: str
    range: SyntaxNode
    variable: Variable
    second: Variable | None
    condition: SyntaxNode | None
    body: SyntaxNode
    overloads: tuple[Overload, ...] = ()
    """The overloads of the sorting call, for sortBy."""


@dataclass(slots=True, eq=False)
class Bind(SyntaxNode):
    """``cel.bind(variable, value, body)``."""

    variable: Variable
    value: SyntaxNode
    body: SyntaxNode


@dataclass(slots=True, eq=False)
class OptionalMap(SyntaxNode):
    """``target.optMap(variable, body)``, or optFlatMap if ``flat``."""

    flat: bool
    target: SyntaxNode
    variable: Variable
    body: SyntaxNode


def children(node: SyntaxNode) -> Sequence[SyntaxNode]:
    """The operands, elements or parts that a node directly consists of."""
    match node:
        case Literal() | Ident():
            return ()
        case Select():
            return (node.operand,)
        case Call():
            return node.args if node.target is None else (node.target, *node.args)
        case Logic():
            return node.terms
        case ListNode():
            return [element for element, _ in node.elements]
        case MapNode():
            return [part for key, value, _ in node.entries for part in (key, value)]
        case Comprehension():
            return (node.range, node.body) if node.condition is None else (node.range, node.condition, node.body)
        case Bind():
            return (node.value, node.body)
        case OptionalMap():
            return (node.target, node.body)
    return ()


def bound_variables(node: SyntaxNode) -> Sequence[Variable]:
    """The variables that a node binds."""
    match node:
        case Comprehension():
            return (node.variable,) if node.second is None else (node.variable, node.second)
        case Bind() | OptionalMap():
            return (node.variable,)
    return ()


def walk(root: SyntaxNode) -> list[SyntaxNode]:
    """Every node of a tree, parents before their children."""
    nodes = [root]
    for node in nodes:
        nodes.extend(children(node))
    return nodes
