"""The counted form of an expression: Python closures that evaluate it as cel-go does and add up Kubernetes' run-time
cost (L-4.1, L-4.3).

Failures are values here (:class:`FailedValue`), because cel-go continues after many of them: a call evaluates its other
operands, a macro its other elements, and ``&&`` and ``||`` look for a term that decides. Each node becomes one closure;
closures nest like the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from virt_dra.cel.cost import macros
from virt_dra.cel.cost.actual import LIST_BASE, MAP_BASE, CallCost, call_cost
from virt_dra.cel.cost.actual import walk as walk_cost
from virt_dra.cel.cost.attributes import Qualifier, Run, chain, local, presence, read, variable
from virt_dra.cel.cost.constants import constants, is_lookup
from virt_dra.cel.cost.meter import COST_LIMIT, CostExceeded, FailedValue, Meter
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import EvaluationAborted, EvaluationError
from virt_dra.cel.functions.registry import UNGUARDED, Overload
from virt_dra.cel.runtime import NO_SUCH_OVERLOAD, UNFIT, add_element, add_entry, in_constants
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
    bound_variables,
    walk,
)
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.types import UINT, Type, TypeKind, is_dyn
from virt_dra.cel.values import TypeValue, UInt, Value, constant_keys
from virt_dra.cel.work_estimate import COUNTED, WorkEstimate, estimate_work

_UNFIT = FailedValue(EvaluationError(NO_SUCH_OVERLOAD))
_SINGLETONS = frozenset(
    ("_+_", "_-_", "_*_", "_/_", "_%_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in", "matches")
)
"""Functions that evaluate both operands; others with several overloads or three operands stop at the first failure."""


def count(root: SyntaxNode, environment: Environment, work: WorkEstimate) -> tuple[Run, int]:
    """The counted form of a checked tree, and the number of slots it needs for variables."""
    builder = _Builder(root, environment, work)
    built: Run = run(builder.build(root))
    return built, builder.slots


class _Builder:
    def __init__(self, root: SyntaxNode, environment: Environment, work: WorkEstimate) -> None:
        nodes = walk(root)
        self._work = work
        self._environment = environment
        self._constants = constants(nodes)
        self._bound: dict[int, Run] = {}
        """Closures that compute the variables of cel.bind and optMap on first use, by slot."""
        self.slots = 1 + max((variable.slot for node in nodes for variable in bound_variables(node)), default=-1)

    def build(self, node: SyntaxNode, observed: bool = True) -> Step[Run]:
        """The closure for a node; ``observed``: if the node is a chain, upstream counts it."""
        built: Run
        match node:
            case Literal():
                return _constant(literal_value(node))
            case Ident() | Select():
                built = yield self._chain(node, observed)
            case Call():
                built = yield self._chain(node, observed) if node.function in _CHAINED else self._call(node)
            case Logic():
                built = yield self._logic(node)
            case ListNode():
                built = yield self._list(node)
                built = self._once(node, built)
            case MapNode():
                built = yield self._map(node)
                built = self._once(node, built)
            case Comprehension():
                built = yield self._comprehension(node)
            case Bind():
                built = yield self._bind(node)
            case OptionalMap():
                built = yield self._chain(node, observed)
            case _:
                raise TypeError(f"{type(node).__name__} can't be counted")
        return built

    def _once(self, node: SyntaxNode, built: Run) -> Run:
        """A constant of Kubernetes is computed once: its identity matters where it becomes a map's key."""
        if id(node) not in self._constants:
            return built
        try:
            value = built(Meter({}, 0))
        except EvaluationError:
            return built
        return built if isinstance(value, FailedValue) else _constant(value)

    def _many(self, nodes: Sequence[SyntaxNode]) -> Step[list[Run]]:
        built: list[Run] = []
        for node in nodes:
            run: Run = yield self.build(node)
            built.append(run)
        return built

    # --- chains ---

    def _chain(self, node: SyntaxNode, observed: bool) -> Step[Run]:
        test: Select | None = node if isinstance(node, Select) and node.test and node.constant is None else None
        current = test.operand if test is not None else node
        links: list[tuple[SyntaxNode | None, str, bool]] = []
        while True:
            if isinstance(current, Select) and current.constant is None and not current.test:
                links.append((None, current.name, current.optional))
                current = current.operand
            elif isinstance(current, Call) and current.function in ("_[_]", "_[?_]"):
                links.append((current.args[1], "", current.function == "_[?_]"))
                current = current.args[0]
            else:
                break
        own = 0 if not observed or _is_condition(current) or (node is current and id(current) in self._constants) else 1
        if own and isinstance(node, Ident) and node.variable is not None and node.variable.slot not in self._bound:
            return read(node.variable.slot)
        qualifiers: list[Qualifier] = []
        root: Run = yield self._root(current)
        for key, name, optional in reversed(links):
            qualifier: Qualifier = yield self._qualifier(key, name, optional)
            qualifiers.append(qualifier)
        if test is not None:
            return presence(root, qualifiers, test.name, own - 1 if observed else 0)
        return chain(root, qualifiers, own)

    def _root(self, node: SyntaxNode) -> Step[Run]:
        built: Run
        match node:
            case Ident() if node.variable is not None:
                slot = node.variable.slot
                return self._bound.get(slot) or local(slot)
            case Ident() if node.name in self._environment.variables:
                return variable(node.name)
            case Ident():
                return _constant(TypeValue(self._environment.type_names[node.name].name))
            case Select() if node.constant is not None:
                return _constant(TypeValue(self._environment.type_names[node.constant].name))
            case Call() if node.function == "_?_:_":
                built = yield self._conditional(node)
            case OptionalMap():
                built = yield self._optional_map(node)
            case _:
                built = yield self.build(node)
        return built

    def _qualifier(self, key: SyntaxNode | None, name: str, optional: bool) -> Step[Qualifier]:
        if key is None:
            return Qualifier(name, None, optional)
        if isinstance(key, Literal):
            return Qualifier(literal_value(key), None, optional)
        computed: Run = yield self.build(key, observed=False)
        return Qualifier(None, computed, optional)

    def _conditional(self, node: Call) -> Step[Run]:
        condition: Run = yield self.build(node.args[0])
        chosen: Run = yield self.build(node.args[1], observed=False)
        other: Run = yield self.build(node.args[2], observed=False)
        return macros.conditional(condition, chosen, other)

    def _optional_map(self, node: OptionalMap) -> Step[Run]:
        """``target.hasValue() ? optional.of(body) : optional.none()``; the body's variable is ``target.value()``."""
        outer = len(self._bound)
        target: Run = yield self.build(node.target)
        within = frozenset(list(self._bound)[outer:])
        slot = node.variable.slot
        # two slots: the value, and the cost of computing the target again, due when the variable is first used
        spare = self.slots
        self.slots += 1
        self._bound[slot] = macros.repeated(slot, spare, target, COUNTED * estimate_work(node.target).whole)
        body: Run = yield self.build(node.body)
        return macros.optional_map(target, body, slot, spare, within, flat=node.flat)

    # --- calls ---

    def _call(self, node: Call) -> Step[Run]:
        if id(node) in self._constants and node.function == "@in":
            return _constant(False)
        operands = ([node.target] if node.target is not None else []) + node.args
        if node.function == "@in" and is_lookup(node, self._constants):
            needle: Run = yield self.build(operands[0])
            members: Run = yield self.build(operands[1])
            return _lookup(needle, members(Meter({}, 0)))
        runs: list[Run] = yield self._many(operands)
        if node.function in ("or", "orValue") and node.target is not None and len(node.args) == 1:
            return macros.either(runs[0], runs[1], whole=node.function == "or")
        cost = call_cost(node.function, node.overloads)
        base = 0 if id(node) in self._constants else 1
        # upstream compiles a constant pattern in advance and calls the search differently, and format always
        compiled = node.function == "format" or (node.function in _SEARCHES and id(operands[1]) in self._constants)
        pair = node.function in _SINGLETONS or (len(runs) == 2 and len(node.overloads) == 1)
        if len(runs) < 2 or (pair and not compiled):
            return self._once(node, self._strict(node, runs, operands, cost, base))
        return self._stopping(node, runs, operands, cost)

    def _target(self, node: Call, operands: list[SyntaxNode]) -> Overload | None:
        """The overload that certainly fits; None if the values' types must choose."""
        if len(node.overloads) != 1 or node.overloads[0].implementation is None or node.function == "!_":
            return None  # a negated value's type may have been inferred from the negation
        fits = all(
            settled(param, operand.known_type)
            for param, operand in zip(node.overloads[0].params, operands, strict=True)
        )
        return node.overloads[0] if fits else None

    def _invocation(self, node: Call, operands: list[SyntaxNode]) -> _Invoke:
        if node.function in _SEARCHES and id(operands[1]) in self._constants:
            return self._search(node)
        overload = self._target(node, operands)
        dispatch, name, member = self._environment.functions.dispatch, node.function, node.target is not None

        def dispatched(meter: Meter, arguments: list[Value]) -> Value:
            return dispatch(meter, name, member, tuple(arguments))

        if overload is None or overload.implementation is None:
            only = node.overloads[0] if len(node.overloads) == 1 and node.function not in UNGUARDED else None
            return dispatched if only is None else only.guarded
        implementation: Callable[..., Value] = overload.charged if overload.is_charged else overload.implementation

        # a variable's static type can be narrower than its values' (flatten); then there is no overload, which dispatch
        # says by name

        def direct(meter: Meter, arguments: list[Value]) -> Value:
            try:
                return implementation(*arguments)
            except UNFIT:
                return dispatched(meter, arguments)

        def budgeted(meter: Meter, arguments: list[Value]) -> Value:
            try:
                return implementation(meter, *arguments)
            except UNFIT:
                return dispatched(meter, arguments)

        return budgeted if overload.budget or overload.is_charged else direct

    def _search(self, node: Call) -> _Invoke:
        """A search for a constant pattern checks its arguments' types itself; a type value counts as its name."""
        dispatch, name, member = self._environment.functions.dispatch, node.function, node.target is not None

        def searched(meter: Meter, arguments: list[Value]) -> Value:
            text, pattern, *limits = arguments
            if isinstance(pattern, str):
                if isinstance(text, TypeValue):
                    text = text.name
                if not isinstance(text, str) or any(type(limit) is not int for limit in limits):
                    raise EvaluationError(NO_SUCH_OVERLOAD)
            return dispatch(meter, name, member, (text, pattern, *limits))

        return searched

    def _strict(self, node: Call, runs: list[Run], operands: list[SyntaxNode], cost: CallCost | None, base: int) -> Run:
        """A call that evaluates all its operands and costs the same whether one failed or not."""
        invoke = self._invocation(node, operands)

        first = node.function in _CHARGED_FIRST

        def run(meter: Meter) -> Value:
            arguments = [operand(meter) for operand in runs]
            result: Value = None
            for argument in arguments:
                if isinstance(argument, FailedValue):
                    result = argument
                    break
            else:
                if first and cost is not None and meter.cost + cost(arguments, None) > COST_LIMIT:
                    meter.charge(cost(arguments, None))
                try:
                    result = invoke(meter, arguments)
                except EvaluationAborted:
                    raise
                except EvaluationError as error:
                    meter.spend(_FAILURE)
                    result = FailedValue(error)
                except UNFIT:
                    meter.spend(_FAILURE)
                    result = _UNFIT
            if cost is None or not base:
                meter.cost += base
            else:
                meter.cost += (
                    cost(arguments, result) if cost is not walk_cost else walk_cost(arguments, result, meter.spend)
                )
            if meter.cost > COST_LIMIT:
                raise CostExceeded
            return result

        return run

    def _stopping(self, node: Call, runs: list[Run], operands: list[SyntaxNode], cost: CallCost | None) -> Run:
        """A call that stops at the first operand that fails; the call itself is free if operands were left."""
        invoke = self._invocation(node, operands)

        def run(meter: Meter) -> Value:
            arguments: list[Value] = []
            result: Value = None
            for operand in runs:
                result = operand(meter)
                arguments.append(result)
                if isinstance(result, FailedValue):
                    if len(arguments) < len(runs):
                        return result
                    break
            else:
                result = macros.caught(invoke, meter, arguments)
            if cost is None:
                meter.charge(1)
            else:
                meter.charge(
                    cost(arguments, result) if cost is not walk_cost else walk_cost(arguments, result, meter.spend)
                )
            return result

        return run

    def _logic(self, node: Logic) -> Step[Run]:
        terms: list[Run] = yield self._many(node.terms)
        decisive = node.function == "_||_"

        def run(meter: Meter) -> Value:
            failure: FailedValue | None = None
            for term in terms:
                value = term(meter)
                if value is decisive:
                    return value
                if value is not (not decisive):
                    failure = failure or (value if isinstance(value, FailedValue) else _UNFIT)
            return failure or not decisive

        return run

    # --- literals ---

    def _list(self, node: ListNode) -> Step[Run]:
        runs: list[Run] = yield self._many([item for item, _ in node.elements])
        parts = [(run, optional) for run, (_, optional) in zip(runs, node.elements, strict=True)]
        cost = 0 if id(node) in self._constants else LIST_BASE

        def run(meter: Meter) -> Value:
            made: list[Value] = []
            failure: Value = None
            for part, optional in parts:
                value = part(meter)
                if isinstance(value, FailedValue):
                    failure = value
                elif optional:
                    failure = macros.caught(add_element, made, value)
                else:
                    made.append(value)
                    continue
                if isinstance(failure, FailedValue):
                    break
            meter.charge(cost)
            return failure or made

        return run

    def _map(self, node: MapNode) -> Step[Run]:
        parts: list[tuple[Run, Run, bool]] = []
        for key, value, optional in node.entries:
            pair: list[Run] = yield self._many([key, value])
            parts.append((pair[0], pair[1], optional))
        cost = 0 if id(node) in self._constants else MAP_BASE

        def run(meter: Meter) -> Value:
            made: dict[Value, Value] = {}
            failure: FailedValue | None = None
            for key_run, value_run, optional in parts:
                key = key_run(meter)
                value = key if isinstance(key, FailedValue) else value_run(meter)
                added = (
                    value if isinstance(value, FailedValue) else macros.caught(add_entry, made, optional, key, value)
                )
                if isinstance(added, FailedValue):
                    failure = added
                    break
            meter.charge(cost)
            return failure or made

        return run

    # --- macros ---

    def _bind(self, node: Bind) -> Step[Run]:
        value: Run = yield self.build(node.value)
        slot = node.variable.slot
        self._bound[slot] = macros.lazy(slot, value)
        body: Run = yield self.build(node.body)
        return macros.bind(slot, body)

    def _comprehension(self, node: Comprehension) -> Step[Run]:
        over: Run = yield self.build(node.range)
        condition: Run | None = None
        if node.condition is not None:
            condition = yield self.build(node.condition)
        body: Run = yield self.build(node.body)
        element_cost = 0 if id(node.body) in self._constants else LIST_BASE
        weight = COUNTED * self._work.loops[id(node)]
        loop = macros.Loop(over, node.variable.slot, weight, node.second.slot if node.second is not None else None)
        match node.macro:
            case "all" | "exists":
                return macros.quantifier(loop, body, decisive=node.macro == "exists")
            case "exists_one":
                return macros.exists_one(loop, body)
            case "filter":
                return macros.collect(loop, body, read(node.variable.slot), LIST_BASE)
            case "map" | "transformList":
                return macros.collect(loop, condition, body, element_cost)
            case "transformMap":
                return macros.transform_map(loop, condition, body)
            case "transformMapEntry":
                return macros.transform_entries(loop, condition, body)
            case _:
                return macros.sort_by(loop, body, element_cost, typed=len(node.overloads) == 1)


_FAILURE = 20.0
"""Extra microseconds of a call that fails."""
_CHAINED = frozenset(("_[_]", "_[?_]", "_?_:_"))
_CHARGED_FIRST = frozenset(("distinct", "sort", "sets.contains", "sets.equivalent", "sets.intersects"))
"""Functions charged before they run, since they may take long and their cost does not depend on the result."""
_SEARCHES = frozenset(("matches", "find", "findAll"))
_Invoke = Callable[[Meter, list[Value]], Value]


def _lookup(needle: Run, members: Value) -> Run:
    """A closure for ``x in [constants]``: a look-up in a set."""
    keys = constant_keys(members if isinstance(members, list) else ())

    def run(meter: Meter) -> Value:
        value = needle(meter)
        return value if isinstance(value, FailedValue) else in_constants(value, keys)

    return run


def settled(param: Type, given: Type) -> bool:
    """True if every value of the given static type fits the parameter."""
    if param.kind in (TypeKind.PARAM, TypeKind.DYN):
        return True
    if is_dyn(given) or given.kind is not param.kind or given.name != param.name:
        return False
    return param.kind is not TypeKind.LIST or settled(param.params[0], given.params[0])


def _constant(value: Value) -> Run:
    return lambda meter: value


def literal_value(node: Literal) -> Value:
    """The value of a literal."""
    return UInt(node.value) if node.type is UINT and isinstance(node.value, int) else node.value


def literals(node: SyntaxNode) -> list[Value]:
    """The values of a list of literals, or of literals within ``dyn(…)``; empty if others are among them."""
    elements = (
        [undyn(element) for element, optional in node.elements if not optional] if isinstance(node, ListNode) else []
    )
    values = [literal_value(element) for element in elements if isinstance(element, Literal)]
    return values if isinstance(node, ListNode) and len(values) == len(node.elements) else []


def undyn(node: SyntaxNode) -> SyntaxNode:
    """The node inside any number of ``dyn(…)``."""
    while isinstance(node, Call) and node.function == "dyn" and len(node.args) == 1:
        node = node.args[0]
    return node


def _is_condition(node: SyntaxNode) -> bool:
    return isinstance(node, OptionalMap) or (isinstance(node, Call) and node.function == "_?_:_")
