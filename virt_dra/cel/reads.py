"""The parts of a device that an expression reads: it is evaluated once for all devices that are equal in them."""

from __future__ import annotations

from typing import NamedTuple

from virt_dra.cel.syntax.nodes import Call, Ident, Literal, Logic, Select, SyntaxNode, children


class Reads(NamedTuple):
    """The parts of a device on which an expression's value depends, also if absent. Names: (domain, identifier)."""

    driver: bool
    allow_multiple_allocations: bool
    attributes: frozenset[tuple[str, str]]
    capacity: frozenset[tuple[str, str]]


NOTHING = Reads(False, False, frozenset(), frozenset())


def together(all_reads: list[Reads | None]) -> Reads | None:
    """The parts that any of several expressions reads; None if they are unknown for one of them."""
    certain = [parts for parts in all_reads if parts is not None]
    if len(certain) < len(all_reads):
        return None
    return Reads(
        any(parts.driver for parts in certain),
        any(parts.allow_multiple_allocations for parts in certain),
        frozenset().union(*(parts.attributes for parts in certain)),
        frozenset().union(*(parts.capacity for parts in certain)),
    )


def reads(root: SyntaxNode) -> Reads | None:
    """The parts of a device that a checked tree reads; None where it passes on the whole device, iterates over a map,
    or computes a name."""
    scalars = {"driver": False, "allowMultipleAllocations": False}
    maps: dict[str, set[tuple[str, str]]] = {"attributes": set(), "capacity": set()}
    todo = [root]
    while todo:
        node = todo.pop()
        named = _named(node)
        if named is not None:
            field, domain, identifier = named
            maps[field].add((domain, identifier))
        elif (field := _field(node)) in scalars:
            scalars[field] = True
        elif isinstance(node, Ident) and node.variable is None and node.name == "device":
            return None
        else:
            todo.extend(children(node))
    return Reads(
        scalars["driver"],
        scalars["allowMultipleAllocations"],
        frozenset(maps["attributes"]),
        frozenset(maps["capacity"]),
    )


class Wanted(NamedTuple):
    """The value of an attribute, a capacity or the driver (``field``) without which an expression isn't true."""

    field: str
    domain: str
    identifier: str
    value: str | bool | int


def wanted(root: SyntaxNode) -> tuple[Wanted, ...]:
    """The equalities with literals that an expression requires, in order: those of ``a == "x" && b == 1 && …``."""
    equalities: list[Wanted] = []
    todo = [root]
    while todo:
        node = todo.pop()
        if isinstance(node, Logic) and node.function == "_&&_":
            todo.extend(reversed(node.terms))
        elif isinstance(node, Call) and node.function == "_==_" and len(node.args) == 2:
            for side, other in (node.args, node.args[::-1]):
                if isinstance(other, Literal) and isinstance(other.value, str | bool | int):
                    named = _named(side)
                    if named is not None:
                        equalities.append(Wanted(*named, other.value))
                    elif _field(side) == "driver":
                        equalities.append(Wanted("driver", "", "driver", other.value))
    return tuple(equalities)


def _named(node: SyntaxNode) -> tuple[str, str, str] | None:
    """``MAP["domain"].id`` in any form: has() of it, optional, indexed, or ``"id" in MAP["domain"]``."""
    if isinstance(node, Select):
        inside, identifier = node.operand, node.name
    elif isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "@in") and len(node.args) == 2:
        inside, key = node.args if node.function != "@in" else reversed(node.args)
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            return None
        identifier = key.value
    else:
        return None
    domain = _domain(inside)
    return None if domain is None else (*domain, identifier)


def _domain(node: SyntaxNode) -> tuple[str, str] | None:
    """``device.attributes["domain"]`` or ``device.attributes.domain``, an empty map if it isn't there (L-3.4)."""
    if isinstance(node, Select) and not node.optional and not node.test:
        field, domain = _field(node.operand), node.name
    elif (
        isinstance(node, Call)
        and node.function == "_[_]"
        and isinstance(node.args[1], Literal)
        and isinstance(node.args[1].value, str)
    ):
        field, domain = _field(node.args[0]), node.args[1].value
    else:
        return None
    return (field, domain) if field in ("attributes", "capacity") else None


def _field(node: SyntaxNode) -> str:
    """``device.FIELD``; empty for anything else."""
    if not isinstance(node, Select) or node.optional or node.test or not isinstance(node.operand, Ident):
        return ""
    return node.name if node.operand.name == "device" and node.operand.variable is None else ""
