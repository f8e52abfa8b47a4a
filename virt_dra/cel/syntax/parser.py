"""The parser: text becomes a syntax tree.

    expression : or ["?" or ":" expression]
    or         : and ("||" and)*            and : relation ("&&" relation)*
    relation   : calc (("<" | "<=" | ">=" | ">" | "==" | "!=" | "in") calc)*        left to right
    calc       : unary (("*" | "/" | "%" | "+" | "-") unary)*                       the usual precedence, left to right
    unary      : "!"+ member | "-"+ member | member
    member     : primary (["." ["?"] NAME ["(" arguments ")"]] | "[" ["?"] expression "]")*
    primary    : ["."] IDENT ["(" arguments ")"] | "(" expression ")" | list | map | message | literal
    list       : "[" [["?"] expression ("," …)*] [","] "]"                             ``[,]`` is an empty one
    map        : "{" [["?"] expression ":" expression ("," …)*] [","] "}"
    message    : ["."] IDENT ("." IDENT)* "{" [["?"] NAME ":" expression ("," …)*] [","] "}"

Macros are recognised here, from a name, a number of arguments and whether there is a receiver. Two limits hold (L-2.1):
expressions nest at most MAX_DEPTH deep, and a chain of operators, selections or indexes is at most MAX_DEPTH long
(``&&`` and ``||`` are not counted).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

from virt_dra.cel.errors import Issue
from virt_dra.cel.syntax.nodes import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    Logic,
    MapNode,
    Message,
    OptionalMap,
    Select,
    SyntaxNode,
    Variable,
)
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.syntax.tokens import SyntaxFault, Token, bytes_value, string_value, tokenize
from virt_dra.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT, Type

MAX_DEPTH = 250
MAX_LENGTH = 10 * 1024
"""Characters in an expression (L-2.1)."""

_RESERVED = frozenset((
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
))  # fmt: skip
_LEAVES = frozenset(("INT", "UINT", "FLOAT", "STRING", "BYTES", "IDENT", "true", "false", "null"))
_CONTINUED = frozenset(".[({")
"""Tokens after which an operand goes on, as a selection, an index or a call."""
_ENDS = frozenset((",", ")", "]", "}", ":"))
"""Tokens after an operand that is a whole expression."""
_TERM_ENDS = _ENDS | {"&&", "||", "?", "EOF"}
"""Tokens after an operand that is a whole term."""
_BINARY = {
    "*": (3, "_*_"), "/": (3, "_/_"), "%": (3, "_%_"), "+": (2, "_+_"), "-": (2, "_-_"),
    "<": (1, "_<_"), "<=": (1, "_<=_"), ">": (1, "_>_"), ">=": (1, "_>=_"), "==": (1, "_==_"), "!=": (1, "_!=_"),
    "in": (1, "@in"),
}  # fmt: skip
_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_INT_MAX, _UINT_MAX = 2**63 - 1, 2**64 - 1
_ACCUMULATORS = ("__result__", "@result")


def parse(text: str) -> SyntaxNode:
    """The syntax tree. Raises SyntaxFault."""
    if len(text) > MAX_LENGTH:
        raise SyntaxFault(
            Issue(None, f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}")
        )
    parser = _Parser(text)
    try:
        root = run(parser.whole())
    except SyntaxFault as fault:
        raise SyntaxFault(*parser.issues, *fault.issues) from None
    if parser.issues:
        raise SyntaxFault(*parser.issues)
    return root


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._position = 0
        self._token = self._tokens[0]
        self._depth = 0
        self.issues: list[Issue] = []
        """Faults after which parsing continued."""

    # --- tokens ---

    def _next(self) -> Token:
        token = self._token
        if token.kind != "EOF":
            self._position += 1
            self._token = self._tokens[self._position]
        return token

    def _accept(self, kind: str) -> bool:
        if self._token.kind == kind:
            self._next()
            return True
        return False

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            self._fail(f"Syntax error: missing '{kind}' at '{self._token.text}'")
        return self._next()

    def _ends(self, end: str, *, first: bool) -> bool:
        """True if a list's end was taken, with the one comma that may stand before it; False if an element follows.

        Between elements a comma is needed. ``first``: nothing has been read of the list.
        """
        comma = self._accept(",")
        if self._accept(end):
            return True
        if comma and (first or self._token.kind == ","):
            self._fail(f"Syntax error: mismatched input '{self._token.text}' expecting '{end}'")
        if not comma and not first:
            self._expect(end)
        return False

    def _fail(self, message: str, offset: int | None = None) -> NoReturn:
        raise SyntaxFault(Issue(self._token.offset if offset is None else offset, message))

    def _instead(self, offset: int, message: str) -> SyntaxNode:
        """Report a fault outside of the grammar and continue with a placeholder, which no macro takes for a name."""
        self.issues.append(Issue(offset, message))
        return Literal(offset, None)

    def _peek(self, ahead: int = 1) -> str:
        place = self._position + ahead
        return self._tokens[place].kind if place < len(self._tokens) else "EOF"

    # --- grammar ---

    def whole(self) -> Step[SyntaxNode]:
        node: SyntaxNode = yield self._expression()
        if self._token.kind != "EOF":
            self._fail(f"Syntax error: extraneous input '{self._token.text}' expecting <EOF>")
        return node

    def _expression(self) -> Step[SyntaxNode]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SyntaxFault(Issue(None, f"expression recursion limit exceeded: {MAX_DEPTH}"))
        node: SyntaxNode = yield self._or()
        if self._token.kind == "?":
            offset = self._next().offset
            chosen: SyntaxNode = yield self._or()
            self._expect(":")
            other: SyntaxNode = yield self._expression()
            node = self._chained(Call(offset, "_?_:_", None, [node, chosen, other]), node, chosen, other)
        self._depth -= 1
        return node

    def _chained(self, node: SyntaxNode, *parts: SyntaxNode) -> SyntaxNode:
        node.height = 1 + max(part.height for part in parts)
        if node.height > MAX_DEPTH:
            raise SyntaxFault(Issue(None, "max recursion depth exceeded"))
        return node

    def _or(self) -> Step[SyntaxNode]:
        alternatives: list[SyntaxNode] = []
        first_or: int | None = None
        while True:
            terms: list[SyntaxNode] = []
            first_and: int | None = None
            while True:
                term: SyntaxNode = (self._leaf() if self._peek() in _TERM_ENDS else None) or (yield self._relation())
                terms.append(term)
                if self._token.kind != "&&":
                    break
                offset = self._next().offset
                first_and = offset if first_and is None else first_and
            alternatives.append(_logic("_&&_", terms, first_and))
            if self._token.kind != "||":
                return _logic("_||_", alternatives, first_or)
            offset = self._next().offset
            first_or = offset if first_or is None else first_or

    def _relation(self) -> Step[SyntaxNode]:
        first: SyntaxNode = self._leaf() or (yield self._unary())
        operator = _BINARY.get(self._token.kind)
        if operator is None:
            return first
        operands = [first]
        operators: list[tuple[int, str, int]] = []
        while True:
            precedence = operator[0] if operator else 0
            while operators and operators[-1][0] >= precedence:
                _, function, offset = operators.pop()
                right = operands.pop()
                left = operands.pop()
                operands.append(self._chained(Call(offset, function, None, [left, right]), left, right))
            if operator is None:
                return operands[0]
            operators.append((precedence, operator[1], self._next().offset))
            operand: SyntaxNode = self._leaf() or (yield self._unary())
            operands.append(operand)
            operator = _BINARY.get(self._token.kind)

    def _unary(self) -> Step[SyntaxNode]:
        kind = self._token.kind
        if kind not in ("!", "-") or (kind == "-" and self._peek() in ("INT", "FLOAT")):
            plain: SyntaxNode = yield self._member()
            return plain
        offset = self._token.offset
        count = 0
        while self._token.kind == kind:
            self._next()
            count += 1
        operand: SyntaxNode = yield self._member()
        if count % 2 == 0:
            return operand
        node = Call(offset, "!_" if kind == "!" else "-_", None, [operand])
        node.height = operand.height
        return node

    def _leaf(self) -> SyntaxNode | None:
        """The operand that begins here if it is a single token, as most are: a shortcut that needs no generator."""
        token = self._token
        if token.kind not in _LEAVES or self._peek() in _CONTINUED or token.text in _RESERVED:
            return None
        if token.kind != "IDENT":
            return self._literal()
        self._next()
        return Ident(token.offset, token.text)

    def _whole_leaf(self) -> SyntaxNode | None:
        """:meth:`_leaf` where an expression begins, if that token is the whole expression."""
        return self._leaf() if self._peek() in _ENDS and self._depth < MAX_DEPTH else None

    def _member(self) -> Step[SyntaxNode]:
        node: SyntaxNode = yield self._primary()
        while True:
            token = self._token
            if token.kind == ".":
                self._next()
                optional = self._accept("?")
                name = self._name()
                if self._token.kind == "(" and not optional and name.kind == "IDENT":
                    offset = self._token.offset
                    arguments: list[SyntaxNode] = yield self._arguments()
                    try:
                        call = _receiver_call(offset, name.text, node, arguments)
                    except _MacroFault as fault:
                        call = self._instead(fault.offset, fault.message)
                    node = self._chained(call, node, *arguments)
                else:
                    node = self._chained(Select(token.offset, node, name.text.strip("`"), optional), node)
            elif token.kind == "[":
                self._next()
                function = "_[?_]" if self._accept("?") else "_[_]"
                index: SyntaxNode = self._whole_leaf() or (yield self._expression())
                self._expect("]")
                node = self._chained(Call(token.offset, function, None, [node, index]), node, index)
            else:
                return node

    def _name(self) -> Token:
        if self._token.kind not in ("IDENT", "ESCAPED"):
            self._fail("Syntax error: no viable alternative at input '.'")
        return self._next()

    def _arguments(self) -> Step[list[SyntaxNode]]:
        self._expect("(")
        arguments: list[SyntaxNode] = []
        if not self._accept(")"):
            while True:
                argument: SyntaxNode = self._whole_leaf() or (yield self._expression())
                arguments.append(argument)
                if not self._accept(","):
                    break
            self._expect(")")
        return arguments

    def _primary(self) -> Step[SyntaxNode]:
        token = self._token
        if token.kind == "(":
            self._next()
            node: SyntaxNode = yield self._expression()
            self._expect(")")
            return node
        if token.kind in ("[", "{"):
            node = yield self._list() if token.kind == "[" else self._map()
            return node
        if token.kind == "IDENT" or (token.kind == "." and self._peek() == "IDENT"):
            node = yield self._identifier()
            return node
        if token.kind == "." or (token.kind == "-" and self._peek() not in ("INT", "FLOAT")):
            self._begins_nothing()
        return self._literal()

    def _begins_nothing(self) -> NoReturn:
        """Skip a dot or sign, so that the fault is reported at the token after it."""
        start = self._next().offset
        if self._token.kind in ("true", "false", "null"):
            self._fail(f"Syntax error: mismatched input '{self._token.text}' expecting IDENTIFIER")
        end = len(self._text) if self._token.kind == "EOF" else self._token.offset + len(self._token.text)
        shown = self._text[start:end].replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        self._fail(f"Syntax error: no viable alternative at input '{shown}'")

    def _list(self) -> Step[SyntaxNode]:
        offset = self._expect("[").offset
        elements: list[tuple[SyntaxNode, bool]] = []
        while not self._ends("]", first=not elements):
            optional = self._accept("?")
            element: SyntaxNode = self._whole_leaf() or (yield self._expression())
            elements.append((element, optional))
            if self._token.kind not in ("]", ","):
                self._fail(f"Syntax error: mismatched input '{self._token.text}' expecting {{']', ','}}")
        return ListNode(offset, elements, height=max((element.height for element, _ in elements), default=0))

    def _map(self) -> Step[SyntaxNode]:
        offset = self._expect("{").offset
        entries: list[tuple[SyntaxNode, SyntaxNode, bool]] = []
        height = 0
        while not self._ends("}", first=not entries):
            optional = self._accept("?")
            key: SyntaxNode = self._whole_leaf() or (yield self._expression())
            self._expect(":")
            value: SyntaxNode = self._whole_leaf() or (yield self._expression())
            entries.append((key, value, optional))
            height = max(height, key.height, value.height)
        return MapNode(offset, entries, height=height)

    def _identifier(self) -> Step[SyntaxNode]:
        leading = "." if self._accept(".") else ""
        if self._names_message():
            node: SyntaxNode = yield self._message(leading)
            return node
        token = self._next()
        if token.text in _RESERVED:
            reserved = self._instead(token.offset, f"reserved identifier: {token.text}")
            if self._token.kind == "(":
                count = len(self.issues)
                yield self._arguments()
                del self.issues[count:]
            return reserved
        if self._token.kind == "(":
            offset = self._token.offset
            arguments: list[SyntaxNode] = yield self._arguments()
            height = max((argument.height for argument in arguments), default=0)
            try:
                call = _global_call(offset, leading + token.text, arguments)
            except _MacroFault as fault:
                call = self._instead(fault.offset, fault.message)
            call.height = height
            return call
        return Ident(token.offset, leading + token.text)

    def _names_message(self) -> bool:
        """True if `IDENT ("." IDENT)* "{"` begins here."""
        ahead = 1
        while self._peek(ahead) == "." and self._peek(ahead + 1) == "IDENT":
            ahead += 2
        return self._peek(ahead) == "{"

    def _message(self, leading: str) -> Step[SyntaxNode]:
        name = leading + self._next().text
        while self._accept("."):
            name += "." + self._next().text
        offset = self._expect("{").offset
        fields: list[tuple[str, SyntaxNode, bool, int]] = []
        height = 0
        while not self._ends("}", first=not fields):
            optional = self._accept("?")
            field = self._name().text.strip("`")
            colon = self._expect(":").offset
            value: SyntaxNode = yield self._expression()
            fields.append((field, value, optional, colon))
            height = max(height, value.height)
        return Message(offset, name, fields, height=height)

    def _literal(self) -> SyntaxNode:
        offset = self._token.offset
        negative = self._token.kind == "-" and self._peek() in ("INT", "FLOAT")
        if negative:
            self._next()
        token = self._token
        sign = -1 if negative else 1
        match token.kind:
            case "INT":
                value = sign * _number(token.text)
                fits, made = -_INT_MAX - 1 <= value <= _INT_MAX, Literal(offset, value, type=INT)
            case "UINT":
                value = _number(token.text[:-1])
                fits, made = value <= _UINT_MAX, Literal(offset, value, type=UINT)
            case "FLOAT":
                number = sign * float(token.text)
                fits, made = not math.isinf(number), Literal(offset, number, type=DOUBLE)
            case "STRING":
                return self._quoted(string_value, STRING)
            case "BYTES":
                return self._quoted(bytes_value, BYTES)
            case "true" | "false":
                fits, made = True, Literal(offset, token.kind == "true", type=BOOL)
            case "null":
                fits, made = True, Literal(offset, None, type=NULL)
            case _:
                message = f"Syntax error: mismatched input '{token.text}' expecting {_EXPECTED}"
                raise SyntaxFault(Issue(token.offset, message))
        self._next()
        return made if fits else self._instead(offset, f"invalid {made.type.name} literal")

    def _quoted(self, value: Callable[[Token], str | bytes], kind: Type) -> SyntaxNode:
        token = self._next()
        try:
            return Literal(token.offset, value(token), type=kind)
        except SyntaxFault as fault:
            return self._instead(token.offset, fault.issues[0].message)


def _number(text: str) -> int:
    """The value of digits; for far too many, a value that is too large in any case."""
    digits = text.removeprefix("0x").lstrip("0") or "0"
    if len(digits) > 20:
        return _UINT_MAX + 1
    return int(digits, 16 if text.startswith("0x") else 10)


def _logic(function: str, terms: list[SyntaxNode], offset: int | None) -> SyntaxNode:
    if offset is None:
        return terms[0]
    return Logic(offset, function, terms, height=max(term.height for term in terms))


# --- macros ---


class _MacroFault(Exception):
    """A macro's arguments have a form that it does not accept."""

    def __init__(self, offset: int, message: str) -> None:
        self.offset = offset
        self.message = message
        super().__init__(message)


_ONE_VARIABLE = {("all", 2), ("exists", 2), ("exists_one", 2), ("map", 2), ("map", 3), ("filter", 2)}
_TWO_VARIABLES = {
    ("all", 3), ("exists", 3), ("exists_one", 3), ("existsOne", 3), ("transformList", 3), ("transformList", 4),
    ("transformMap", 3), ("transformMap", 4), ("transformMapEntry", 3), ("transformMapEntry", 4),
}  # fmt: skip


def _variable(argument: SyntaxNode, complaint: str) -> Variable:
    if not isinstance(argument, Ident) or argument.name.startswith("."):
        raise _MacroFault(argument.offset, complaint)
    if argument.name in _ACCUMULATORS:
        raise _MacroFault(argument.offset, "iteration variable overwrites accumulator variable")
    return Variable(argument.name)


def _global_call(offset: int, name: str, arguments: list[SyntaxNode]) -> SyntaxNode:
    if name == "has" and len(arguments) == 1:
        argument = arguments[0]
        if not isinstance(argument, Select) or argument.optional:
            raise _MacroFault(argument.offset, "invalid argument to has() macro")
        argument.test = True
        argument.offset = offset
        return argument
    return Call(offset, name, None, arguments)


def _receiver_call(offset: int, name: str, target: SyntaxNode, arguments: list[SyntaxNode]) -> SyntaxNode:
    shape = (name, len(arguments))
    if shape in _ONE_VARIABLE:
        complaint = "argument is not an identifier" if name in ("map", "filter") else "argument must be a simple name"
        variable = _variable(arguments[0], complaint)
        condition = arguments[1] if len(arguments) == 3 else None
        return Comprehension(offset, name, target, variable, None, condition, arguments[-1])
    if shape in _TWO_VARIABLES:
        first = _variable(arguments[0], "argument must be a simple name")
        second = _variable(arguments[1], "argument must be a simple name")
        if first.name == second.name:
            raise _MacroFault(arguments[1].offset, f"duplicate variable name: {first.name}")
        macro = "exists_one" if name == "existsOne" else name
        condition = arguments[2] if len(arguments) == 4 else None
        return Comprehension(offset, macro, target, first, second, condition, arguments[-1])
    if shape == ("sortBy", 2):
        if not isinstance(target, (ListNode, Ident, Comprehension, Call, Select, Logic, Bind, OptionalMap)):
            complaint = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
            raise _MacroFault(target.offset, complaint)
        variable = _variable(arguments[0], "argument is not an identifier")
        return Comprehension(offset, name, target, variable, None, None, arguments[1])
    if shape in (("optMap", 2), ("optFlatMap", 2)):
        variable = _variable(arguments[0], f"{name}() variable name must be a simple identifier")
        return OptionalMap(offset, name == "optFlatMap", target, variable, arguments[1])
    if shape == ("bind", 3) and isinstance(target, Ident) and target.name == "cel":
        variable = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
        return Bind(offset, variable, arguments[1], arguments[2])
    return Call(offset, name, target, arguments)
