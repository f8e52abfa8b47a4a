"""The type checker: resolves names and overloads, checks literals (L-2.*, L-3.*), writes types into the tree."""

from __future__ import annotations

from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import MAX_ISSUES, Issue
from virt_dra.cel.functions.lists import SORT_BY
from virt_dra.cel.functions.regex import Patterns, Spend, free
from virt_dra.cel.functions.registry import Overload
from virt_dra.cel.literals import format_issue, invalid_literal
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
from virt_dra.cel.types import (
    BOOL,
    DYN,
    ERROR,
    INT,
    Type,
    TypeKind,
    Types,
    Unifier,
    format_in_issue,
    is_dyn,
    most_general,
)
from virt_dra.cel.types import SHARED as SHARED_TYPES


def check(root: SyntaxNode, environment: Environment, spend: Spend = free) -> list[Issue]:
    """The faults of a tree, which is filled in with types and overloads; none if it is well typed and its literals are
    valid. Raises TypeTooLarge, PatternsTooLarge."""
    checker = _Checker(environment)
    run(checker.visit(root))
    if not checker.issues:
        checker.settle()
        checker.validate(Patterns(spend))
    return checker.issues


def _inherits_doubt(node: SyntaxNode) -> bool:
    """True if a node's type is only as certain as those of its parts."""
    match node:
        case Ident():
            return node.variable is not None and node.variable.unsure
        case Select():
            return node.operand.unsure and not node.test
        case Call():
            operands = node.args if node.target is None else [node.target, *node.args]
            return any(overload.result.open for overload in node.overloads) and any(
                operand.unsure for operand in operands
            )
        case ListNode():
            return any(element.unsure for element, _ in node.elements)
        case MapNode():
            return any(key.unsure or value.unsure for key, value, _ in node.entries)
        case Comprehension():
            kept = node.macro in ("filter", "sortBy", "transformMap") and node.range.unsure
            return kept or (
                node.macro in ("map", "transformList", "transformMap", "transformMapEntry") and node.body.unsure
            )
        case Bind():
            return node.body.unsure
        case OptionalMap():
            return node.target.unsure or node.body.unsure
    return False


_MESSAGES = frozenset((
    "Any", "BoolValue", "BytesValue", "DoubleValue", "Duration", "Empty", "FloatValue", "Int32Value", "Int64Value",
    "ListValue", "StringValue", "Struct", "Timestamp", "UInt32Value", "UInt64Value", "Value",
))  # fmt: skip
"""Messages of google.protobuf that cel-go can create from a literal."""

_LONGEST_NAME = 8
"""Parts of a qualified name: no type or function has more; longer chains are selections."""

_MOST_REPEATED = 10 * MAX_ISSUES
"""optMap's target occurs twice in its expansion, and its issues with it; nested ones are repeated up to this number."""


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._types = Types(SHARED_TYPES)
        self._unifier = Unifier(self._types)
        self._scope: dict[str, list[Variable]] = {}
        self._variables: list[Variable] = []
        self._aggregates: list[ListNode | MapNode] = []
        self._exempt = 0
        """How many calls of format() surround the node: mixed lists are allowed in their arguments."""
        self._resolved: dict[tuple[str, bool, tuple[Type, ...]], tuple[tuple[Overload, ...], Type]] = {}
        """Memoized overloads for argument types without variables; long expressions repeat the same calls."""
        self.visited: list[SyntaxNode] = []
        """Every node, parents before their children."""
        self._judged: list[SyntaxNode] = []
        """Nodes to validate, each as often as it occurs in the expanded macros."""
        self.issues: list[Issue] = []

    def settle(self) -> None:
        """Replace type variables everywhere by the types they are bound to."""
        for node in self.visited:
            node.type = self._unifier.resolve(node.type, close=True)
        for variable in self._variables:
            variable.type = self._unifier.resolve(variable.type, close=True)

    def validate(self, patterns: Patterns) -> None:
        """Report what shows only once all types are known: literal arguments (L-2.5), mixed aggregates (L-2.3)."""
        calls = [node for node in self._judged if isinstance(node, Call)]
        for call in calls:
            self._check_literals(call, patterns)
        for aggregate in self._aggregates:
            if isinstance(aggregate, ListNode):
                self._check_one_type(aggregate.elements, most=1)
            else:
                self._check_one_type([(key, False) for key, _, _ in aggregate.entries])
                self._check_one_type([(value, optional) for _, value, optional in aggregate.entries])
        # of issues at one place, the innermost comes first
        self.issues += filter(None, map(format_issue, reversed(calls)))

    def _check_one_type(self, parts: list[tuple[SyntaxNode, bool]], most: int = MAX_ISSUES) -> None:
        """Report elements whose type differs from the first one's, at most ``most``: one of a list, all of a map."""
        first: Type | None = None
        for node, optional in parts:
            given = node.type.params[0] if optional and node.type.params else node.type
            if first is None:
                first = given
            elif given is not first:
                self._mismatch(node, first, given)
                most -= 1
                if not most:
                    return

    def _issue(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def _mismatch(self, node: SyntaxNode, wanted: Type, given: Type) -> None:
        self._issue(node.offset, f"expected type '{self._shown(wanted)}' but found '{self._shown(given)}'")

    def _shown(self, shown: Type) -> str:
        return format_in_issue(self._unifier.resolve(shown, close=True))

    def _undeclared(self, offset: int, name: str) -> None:
        self._issue(offset, f"undeclared reference to '{name}' (in container '')")

    # --- scopes ---

    def _enter(self, variable: Variable, bound: Type, source: SyntaxNode) -> None:
        """Bring a variable into scope; ``source``: the node that its value comes from."""
        variable.type = bound
        variable.unsure = source.unsure or self._unifier.resolve(bound).open
        variable.slot = len(self._variables)
        self._variables.append(variable)
        self._scope.setdefault(variable.name, []).append(variable)

    def _leave(self, variable: Variable) -> None:
        self._scope[variable.name].pop()

    def _local(self, name: str) -> Variable | None:
        variables = self._scope.get(name)
        return variables[-1] if variables else None

    # --- visits ---

    def _leaf(self, node: Literal) -> Type:
        """Visit a literal, which has no parts."""
        self.visited.append(node)
        self._judged.append(node)
        return node.type

    def visit(self, node: SyntaxNode) -> Step[Type]:
        """Check one node and what is below it; the result is also stored in ``node.type``."""
        self.visited.append(node)
        self._judged.append(node)
        match node:
            case Literal():
                return node.type
            case Ident():
                node.type = self._ident(node)
            case Select():
                node.type = yield self._select(node)
            case Call():
                node.type = yield self._call(node)
            case Logic():
                node.type = yield self._logic(node)
            case ListNode():
                node.type = yield self._list(node)
            case MapNode():
                node.type = yield self._map(node)
            case Comprehension():
                node.type = yield self._comprehension(node)
            case Bind():
                node.type = yield self._bind(node)
            case OptionalMap():
                node.type = yield self._optional_map(node)
            case Message():
                node.type = yield self._message(node)
        node.unsure = self._unifier.resolve(node.type).open or _inherits_doubt(node)
        return node.type

    def _ident(self, node: Ident) -> Type:
        variable = self._local(node.name)
        if variable is not None:
            node.variable = variable
            return variable.type
        name = node.name.removeprefix(".")
        declared = self._environment.variables.get(name)
        if declared is not None:
            node.name = name
            return declared
        named = self._environment.type_names.get(name)
        if named is not None:
            node.name = name
            return self._types.type_of(named)
        self._undeclared(node.offset, node.name)
        return ERROR

    def _qualified(self, node: SyntaxNode) -> str | None:
        """``a.b.c`` for a chain of plain selections from a name that is not a local variable."""
        names: list[str] = []
        while isinstance(node, Select):
            if node.test or node.optional or len(names) == _LONGEST_NAME:
                return None
            names.append(node.name)
            node = node.operand
        if not isinstance(node, Ident) or self._local(node.name) is not None:
            return None
        names.append(node.name.removeprefix("."))
        return ".".join(reversed(names))

    def _select(self, node: Select) -> Step[Type]:
        qualified = self._qualified(node)
        named = self._environment.type_names.get(qualified) if qualified is not None else None
        if named is not None:
            node.constant = qualified
            return self._types.type_of(named)
        operand: Type = yield self.visit(node.operand)
        operand = self._unifier.resolve(operand)
        inside = operand.params[0] if operand.name == "optional_type" and operand.params else operand
        result = ERROR
        if inside.kind is TypeKind.MAP:
            result = inside.params[1]
        elif inside.kind is TypeKind.OBJECT:
            fields = self._environment.objects.get(inside.name)
            field = fields.get(node.name) if fields is not None else None
            if fields is None:
                self._issue(node.offset, f"unexpected failed resolution of '{inside.name}'")
            elif field is None:
                self._issue(node.offset, f"undefined field '{node.name}'")
            else:
                result = field
        elif inside.kind is TypeKind.PARAM:
            self._unifier.assignable(DYN, inside)
            result = DYN
        else:
            if not is_dyn(inside):
                self._issue(node.offset, f"type '{self._shown(inside)}' does not support field selection")
            result = DYN
        if inside is not operand or node.optional:
            result = self._types.optional_of(result)
        return BOOL if node.test else self._unifier.resolve(result)

    def _call(self, node: Call) -> Step[Type]:
        functions = self._environment.functions.functions
        exempting = node.function == "format"
        self._exempt += exempting
        arguments: list[Type] = []
        for argument in node.args:
            given: Type = self._leaf(argument) if isinstance(argument, Literal) else (yield self.visit(argument))
            arguments.append(given)
        if node.target is not None:
            prefix = self._qualified(node.target)
            if prefix is not None and f"{prefix}.{node.function}" in functions:
                node.function = f"{prefix}.{node.function}"
                node.target = None
            else:
                receiver: Type = yield self.visit(node.target)
                arguments.insert(0, receiver)
        self._exempt -= exempting
        declared = functions.get(node.function) or functions.get(node.function.removeprefix("."))
        if declared is None:
            self._undeclared(node.offset, node.function)
            return ERROR
        node.function = declared[0].function
        node.overloads, result = self._overloaded(node.offset, node.function, node.target is not None, arguments)
        return result

    def _overloaded(
        self, offset: int, function: str, member: bool, arguments: list[Type]
    ) -> tuple[tuple[Overload, ...], Type]:
        """The overloads that take the arguments, and the result's type; none, ERROR and an issue if there are none."""
        given = tuple(arguments)
        resolved = self._resolved.get((function, member, given))
        if resolved is not None:
            return resolved
        matching: list[Overload] = []
        result: Type | None = None
        for overload in self._environment.functions.functions[function]:
            if overload.member is not member:
                continue
            renamed = {param: self._unifier.fresh() for param in overload.variables} if overload.variables else None
            params = overload.params
            if renamed:
                params = tuple(self._unifier.resolve(param, local=renamed) for param in params)
            if not self._unifier.all_assignable(given, params):
                continue
            matching.append(overload)
            candidate = self._unifier.resolve(overload.result, local=renamed)
            if result is None:
                result = candidate
            elif not is_dyn(result) and candidate is not result:
                result = DYN
        if result is None:
            shown = [self._shown(argument) for argument in arguments]
            applied = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
            self._issue(offset, f"found no matching overload for '{function}' applied to '{applied}'")
            return (), ERROR
        resolved = tuple(matching), result
        if not result.open and not any(argument.open for argument in given):
            self._resolved[function, member, given] = resolved
        return resolved

    def _check_literals(self, node: Call, patterns: Patterns) -> None:
        for place, argument in enumerate(node.args):
            if isinstance(argument, Literal):
                complaint = invalid_literal(node.function, node.target is not None, place, argument.value, patterns)
                if complaint is not None:
                    self._issue(argument.offset, complaint)

    def _logic(self, node: Logic) -> Step[Type]:
        result = BOOL
        for term in node.terms:
            given: Type = self._leaf(term) if isinstance(term, Literal) else (yield self.visit(term))
            if not self._unifier.assignable(given, BOOL):
                self._mismatch(term, BOOL, given)
                result = ERROR
        return result

    def _join(self, previous: Type | None, given: Type) -> Type:
        if previous is None:
            return given
        return most_general(previous, given) if self._unifier.assignable(previous, given) else DYN

    def _unwrapped(self, node: SyntaxNode, given: Type) -> Type:
        """The type inside an optional element's type."""
        given = self._unifier.resolve(given)
        if given.name == "optional_type" and given.params:
            return given.params[0]
        if given.kind is not TypeKind.DYN:
            self._mismatch(node, self._types.optional_of(given), given)
        return given

    def _list(self, node: ListNode) -> Step[Type]:
        element: Type | None = None
        for item, optional in node.elements:
            given: Type = self._leaf(item) if isinstance(item, Literal) else (yield self.visit(item))
            if optional:
                given = self._unwrapped(item, given)
            element = self._join(element, given)
        if not self._exempt:
            self._aggregates.append(node)
        return self._types.list_of(element if element is not None else self._unifier.fresh())

    def _map(self, node: MapNode) -> Step[Type]:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            key_type: Type = yield self.visit(key)
            keys = self._join(keys, key_type)
            value_type: Type = yield self.visit(value)
            if optional:
                value_type = self._unwrapped(value, value_type)
            values = self._join(values, value_type)
        if keys is None or values is None:
            keys, values = self._unifier.fresh(), self._unifier.fresh()
        if not self._exempt:
            self._aggregates.append(node)
        return self._types.map_of(keys, values)

    def _message(self, node: Message) -> Step[Type]:
        """Refuse a message literal: none can be created here. One that cel-go refuses, too, is refused in its words."""
        name = node.name.removeprefix(".")
        declared = name in self._environment.objects or name.removeprefix("google.protobuf.") in _MESSAGES
        if not declared and name not in self._environment.type_names:
            self._undeclared(node.offset, node.name)
            return ERROR
        for _, value, _, _ in node.fields:
            yield self.visit(value)
        if declared:
            self._issue(node.offset, f"message literals ({name}{{…}}) are not supported")
        else:
            self._issue(node.offset, f"'{name}' is not a message type")
        return ERROR

    # --- macros ---

    def _ranges(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """Types of the first and the second variable (the first alone: a list's element, a map's key)."""
        over = self._unifier.resolve(over)
        if over.kind is TypeKind.LIST:
            return (INT, over.params[0]) if node.second is not None else (over.params[0], DYN)
        if over.kind is TypeKind.MAP:
            return over.params[0], over.params[1]
        if (
            over in (DYN, ERROR) or over.kind is TypeKind.PARAM
        ):  # not ANY: without list attributes no macro iterates over an attribute
            self._unifier.assignable(DYN, over)
            return DYN, DYN
        self._issue(
            node.offset if node.macro == "sortBy" else node.range.offset,  # sortBy binds its range to a variable first
            f"expression of type '{self._shown(over)}' cannot be range of a "
            "comprehension (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def _comprehension(self, node: Comprehension) -> Step[Type]:
        over: Type = yield self.visit(node.range)
        first, second = self._ranges(node, over)
        self._enter(node.variable, first, node.range)
        if node.second is not None:
            self._enter(node.second, second, node.range)
        condition: Type | None = None
        if node.condition is not None:
            condition = yield self.visit(node.condition)
        body: Type = yield self.visit(node.body)
        inserted: Type | None = None
        if node.macro == "transformMapEntry":
            inserted, body = self._inserted(node, body)
        if condition is not None:
            self._require_choice(
                node, condition, inserted or self._kept(node, first, body), body if inserted is not None else None
            )
        if node.second is not None:
            self._leave(node.second)
        self._leave(node.variable)
        return self._unifier.resolve(self._macro_result(node, over, first, body))

    def _require_choice(self, node: Comprehension, condition: Type, kept: Type, unchanged: Type | None = None) -> None:
        """Report a condition that is not a bool, with the message for the conditional that the macro expands to."""
        if not self._unifier.assignable(BOOL, condition):
            applied = f"({self._shown(condition)}, {self._shown(kept)}, {self._shown(unchanged or kept)})"
            self._issue(node.offset, f"found no matching overload for '_?_:_' applied to '{applied}'")

    def _inserted(self, node: Comprehension, body: Type) -> tuple[Type, Type]:
        """The type of the map after a step (ERROR if its entries can't be added), and of the resulting map."""
        made = self._types.map_of(self._unifier.fresh(), self._unifier.fresh())
        if self._unifier.assignable(made, body):
            return made, made
        self._issue(
            node.offset,
            f"found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), {self._shown(body)})'",
        )
        return ERROR, made

    def _kept(self, node: Comprehension, first: Type, body: Type) -> Type:
        return self._types.list_of(body) if node.macro in ("map", "transformList") else self._types.map_of(first, body)

    def _macro_result(self, node: Comprehension, over: Type, first: Type, body: Type) -> Type:
        if node.macro in ("all", "exists"):
            if not self._unifier.assignable(BOOL, body):
                self._mismatch(node.body, BOOL, body)
            return BOOL
        if node.macro == "exists_one":
            self._require_choice(node, body, INT)
            return BOOL
        if node.macro == "filter":
            self._require_choice(node, body, self._types.list_of(first))
            return self._types.list_of(first)
        if node.macro in ("map", "transformList"):
            return self._types.list_of(body)
        if node.macro == "transformMap":
            return self._types.map_of(self._unifier.resolve(first), body)
        if node.macro == "transformMapEntry":
            return body
        node.overloads, result = self._overloaded(node.offset, SORT_BY, True, [over, self._types.list_of(body)])
        return result

    def _bind(self, node: Bind) -> Step[Type]:
        value: Type = yield self.visit(node.value)
        self._enter(node.variable, value, node.value)
        body: Type = yield self.visit(node.body)
        self._leave(node.variable)
        return body

    def _optional_map(self, node: OptionalMap) -> Step[Type]:
        issues, judged, aggregates = len(self.issues), len(self._judged), len(self._aggregates)
        target: Type = yield self.visit(node.target)
        if max(len(self.issues), len(self._judged)) <= _MOST_REPEATED:
            # the macro expands to an expression in which the target occurs twice
            self.issues += self.issues[issues:]
            self._judged += self._judged[judged:]
            self._aggregates += self._aggregates[aggregates:]
        inside, present = self._unifier.fresh(), BOOL
        if not self._unifier.assignable(self._types.optional_of(inside), target):
            for step in ("hasValue", "value"):
                self._issue(
                    node.offset, f"found no matching overload for '{step}' applied to '{self._shown(target)}.()'"
                )
            inside = present = ERROR
        self._enter(node.variable, self._unifier.resolve(inside), node.target)
        body: Type = yield self.visit(node.body)
        self._leave(node.variable)
        if not node.flat:
            return self._types.optional_of(body)
        flat = self._types.optional_of(self._unifier.fresh())
        if not self._unifier.assignable(flat, body):
            applied = f"({present}, {self._shown(body)}, optional_type(dyn))"
            self._issue(node.offset, f"found no matching overload for '_?_:_' applied to '{applied}'")
            return ERROR
        body = self._unifier.resolve(body)
        return body if body.kind in (TypeKind.NULL, TypeKind.ERROR) else most_general(body, self._unifier.resolve(flat))
