"""The compiler: a checked tree becomes Python source, and the source a function.

Source consists of fixed pieces, numbered variables and constants, and literals rendered by :func:`ascii`; no text of
the expression reaches ``compile()``. One tree has two forms (docs/decisions/0004-cel.md has the reasons and figures):

* *plain*, the source made here: ``a and b``, short-circuiting left to right. As long as nothing fails, that is what CEL
  says.
* *counted* (:mod:`virt_dra.cel.cost.counted`), made only when it is needed: when the plain one has failed, since
  ``failure && false`` is false; when the cost is asked for; and when the worst case may exceed the limit, or a deadline
  may pass.

Deeply nested source would meet limits of Python's own parser; beyond MAX_NESTING a sub-expression becomes a function of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from virt_dra.cel import runtime
from virt_dra.cel.cost.attributes import Run
from virt_dra.cel.cost.ceiling import ceiling
from virt_dra.cel.cost.constants import keys_by_identity
from virt_dra.cel.cost.counted import count, literal_value, literals, settled
from virt_dra.cel.cost.declared import VARIABLES, Declared
from virt_dra.cel.cost.estimate import estimate_cost
from virt_dra.cel.cost.meter import COST_LIMIT, UNSET, FailedValue, Meter
from virt_dra.cel.environment import Environment
from virt_dra.cel.errors import BudgetExceeded, CompileError, EvaluationError, Interrupted, Stopped
from virt_dra.cel.functions.registry import UNGUARDED, Overload
from virt_dra.cel.limits.budget import Budget, InterruptCheck, Work
from virt_dra.cel.limits.sized_cache import SizedCache
from virt_dra.cel.reads import Reads, Wanted, reads, wanted
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
from virt_dra.cel.syntax.steps import Step, run
from virt_dra.cel.types import BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP, UINT, Type, TypeKind, is_dyn
from virt_dra.cel.values import TypeValue, Value, constant_keys
from virt_dra.cel.work_estimate import COUNTED, WorkEstimate, estimate_work

MAX_NESTING = 30
KEPT_NODES: Final = 100
"""The largest expression, in nodes, that keeps its counted form."""

PlainForm = Callable[[Mapping[str, Value], Budget], Value]
"""A compiled function of the variables' values and the evaluation's budget."""

_FAILURES = (EvaluationError, KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What generated code and library functions may raise; but for EvaluationError it means an unfit type of a value."""

_UNUSED = Budget()
"""The budget of programs that charge nothing: any charge is a defect, and fails at once."""
_UNUSED.left = 0.0

_NATIVE = frozenset((BOOL, INT, UINT, DOUBLE, STRING, BYTES))
_ORDERED = (_NATIVE | {TIMESTAMP, DURATION}) - {
    DOUBLE
}  # NaN has no order in CEL, while Python's operators return False
_COMPARISONS = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}


class Code(NamedTuple):
    """A piece of source that may stand as an operand, and how deeply it nests."""

    text: str
    depth: int = 0


@dataclass(slots=True, eq=False)
class Program:
    """A compiled expression. Create it with :func:`compile_tree`."""

    expression: str
    type: Type
    work_estimate: WorkEstimate
    _root: SyntaxNode
    _environment: Environment
    _plain: PlainForm
    _budgeted: bool
    _counted: tuple[Run, int] | None = None
    _bounded: bool | None = None
    _reads: tuple[Reads | None] | None = None
    _wanted: tuple[Wanted, ...] | None = None

    @property
    def reads(self) -> Reads | None:
        """See :func:`virt_dra.cel.reads.reads`."""
        if self._reads is None:
            self._reads = (reads(self._root),)
        return self._reads[0]

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """See :func:`virt_dra.cel.reads.wanted`."""
        if self._wanted is None:
            self._wanted = wanted(self._root)
        return self._wanted

    def evaluate(self, variables: Mapping[str, Value], watcher: Work | InterruptCheck | None = None) -> Value:
        """The value for these variables; a missing one fails where it is used.

        ``watcher``: an interrupt, polled every 100 steps of comprehensions (L-4.4) and after every 500 µs of work; or
        the caller's budget, from which the work is deducted. Raises EvaluationError: CostExceeded beyond the limit
        (L-4.1), Interrupted.
        """
        if watcher is not None:
            return self._watched(variables, watcher)
        if self._bounded or self._is_bounded():
            try:
                if not self._budgeted:
                    return self._plain(variables, _UNUSED)
                budget = Budget()
                budget.patterns = self.work_estimate.patterns
                return self._plain(variables, budget)
            except BudgetExceeded:
                raise
            except _FAILURES:
                pass
            except RecursionError:
                raise EvaluationError(_TOO_DEEP) from None
        value, _ = self.evaluate_with_cost(variables)
        if isinstance(value, EvaluationError):
            raise value
        return value

    def _watched(self, variables: Mapping[str, Value], watcher: Work | InterruptCheck) -> Value:
        budget = Budget()
        budget.patterns = self.work_estimate.patterns
        budget.watch(watcher)
        interrupted = False
        try:
            budget.spend(self.work_estimate.whole)
            if self._bounded is None:
                budget.spend(_ESTIMATE * self.work_estimate.nodes)
            if self._bounded or self._is_bounded():
                return self._plain(variables, budget)
        except (BudgetExceeded, Stopped):
            raise
        except Interrupted:
            interrupted = True
        except _FAILURES:
            pass
        except RecursionError:
            raise EvaluationError(_TOO_DEEP) from None
        finally:
            budget.report()
        value, _ = self.evaluate_with_cost(variables, watcher, interrupted=interrupted)
        if isinstance(value, EvaluationError):
            raise value
        return value

    def evaluate_with_cost(
        self, variables: Mapping[str, Value], watcher: Work | InterruptCheck | None = None, *, interrupted: bool = False
    ) -> tuple[Value | EvaluationError, int]:
        """The value or the failure, and its cost (L-4.1, L-4.3); for an aborted evaluation the cost so far.

        ``interrupted``: an earlier evaluation was; this one only finds out cheaply whether that matters (``true ||
        …``).
        """
        built = self._counted or _COUNTED.get(self)
        meter = Meter(variables, built[1] if built is not None else 0, watcher)
        meter.patterns = self.work_estimate.patterns
        if interrupted:
            meter.interrupted_before()
        try:
            if built is None:
                meter.spend(_COUNT * self.work_estimate.nodes)
                built = self._count()
                meter.slots = [UNSET] * built[1]
            meter.spend(COUNTED * self.work_estimate.whole)
            value = built[0](meter)
        except EvaluationError as error:
            return error, meter.cost
        except RecursionError:
            return EvaluationError(_TOO_DEEP), meter.cost
        finally:
            meter.report()
        return (value.error if isinstance(value, FailedValue) else value), meter.cost

    def _count(self) -> tuple[Run, int]:
        """The counted form, of which few large ones are kept: they take four times the memory of everything else."""
        built = count(self._root, self._environment, self.work_estimate)
        if self.work_estimate.nodes <= KEPT_NODES:
            self._counted = built
        else:
            _COUNTED.put(self, built, self.work_estimate.nodes * COUNTED_NODE)
        return built

    def estimate_cost(self, declared: Mapping[str, Declared] = VARIABLES) -> int:
        """The most that an evaluation may cost, from the text and the ``declared`` sizes of the variables (L-4.2); at
        most 2**64 - 1."""
        return estimate_cost(self._root, declared)

    def _is_bounded(self) -> bool:
        """True if no evaluation can exceed the limit, so that the cost need not be counted.

        Upstream's estimate is too low for selections from values of unknown type and a few functions. So selections are
        counted in full here, and the bound has to stay below a tenth of the limit.
        """
        if self._bounded is None and keys_by_identity(self._root):
            self._bounded = False
        if self._bounded is None:
            most = ceiling(self._root)
            if most is None or most > COST_LIMIT // 10:
                most = estimate_cost(self._root, VARIABLES, every_selection=True)
            self._bounded = most <= COST_LIMIT // 10
        return self._bounded


_ESTIMATE: Final = 10.0
_COUNT: Final = 6.0
"""Microseconds for each node: of estimating the worst case, and of building the counted form, once each."""
COUNTED_NODE: Final = 1_400
_COUNTED: Final[SizedCache[Program, tuple[Run, int]]] = SizedCache(12 << 20)
"""Counted forms of large expressions, and the bytes that a node of one takes."""
_TOO_DEEP = "the expression nests too deeply to be evaluated here"


def compile_tree(expression: str, root: SyntaxNode, environment: Environment) -> Program:
    """Compile a tree that was checked without issues."""
    work = estimate_work(root)
    emitter = _Emitter(environment, work)
    plain = emitter.function(root)
    return Program(expression, root.type, work, root, environment, plain, emitter.budgeted)


class _Emitter:
    def __init__(self, environment: Environment, work: WorkEstimate) -> None:
        self._environment = environment
        self._work = work
        self._constants: dict[str, Value] = {name: getattr(runtime, name) for name in runtime.__all__}
        self._implementations: dict[int, str] = {}
        self._functions: list[str] = []
        self._scope: list[Variable] = []
        self.budgeted = False
        """True if the generated function uses its budget."""

    def function(self, root: SyntaxNode) -> PlainForm:
        code: Code = run(self._emit(root))
        source = "\n".join((*self._functions, f"def program(e, b): return {code.text}"))
        namespace: dict[str, Value] = {
            "__builtins__": {},
            "dispatch": self._environment.functions.dispatch,
            **self._constants,
        }
        try:
            # the one place where source becomes code; see the module's docstring for why it is ours alone
            exec(compile(source, "<cel>", "exec"), namespace)  # noqa: S102
        except (RecursionError, MemoryError):
            raise CompileError("compilation failed: the expression is too complex") from None
        program = namespace["program"]
        if not callable(program):
            raise TypeError("generated source defines no function")
        return program

    # --- pieces ---

    def _constant(self, value: Value) -> str:
        name = f"k{len(self._constants)}"
        self._constants[name] = value
        return name

    def _implementation(self, overload: Overload) -> str:
        name = self._implementations.get(id(overload))
        if name is None:
            name = self._implementations[id(overload)] = self._constant(
                overload.charged if overload.is_charged else overload.implementation
            )
        return name

    def _literal(self, node: Literal) -> Code:
        if node.type is UINT and isinstance(node.value, int):
            return Code(self._constant(literal_value(node)))
        text = ascii(node.value)
        return Code(f"({text})" if text.startswith("-") or isinstance(node.value, (int, float)) else text)

    def _emit(self, node: SyntaxNode) -> Step[Code]:
        """Source for a node; a deep one is moved into a function that takes the macro variables in scope."""
        code: Code
        match node:
            case Literal():
                return self._literal(node)
            case Ident():
                return self._ident(node)
            case Select():
                code = yield self._select(node)
            case Call():
                code = yield self._call(node)
            case Logic():
                code = yield self._logic(node)
            case ListNode():
                code = yield self._list(node)
            case MapNode():
                code = yield self._map(node)
            case Comprehension():
                code = yield self._comprehension(node)
            case Bind():
                code = yield self._bind(node)
            case OptionalMap():
                code = yield self._optional_map(node)
            case _:
                raise TypeError(f"{type(node).__name__} has no translation")
        if code.depth > MAX_NESTING:
            name = f"h{len(self._functions)}"
            parameters = ", ".join(("e", "b", *(f"v{variable.slot}" for variable in self._scope)))
            self._functions.append(f"def {name}({parameters}): return {code.text}")
            return Code(f"{name}({parameters})")
        return code

    def _many(self, nodes: list[SyntaxNode]) -> Step[list[Code]]:
        codes: list[Code] = []
        for node in nodes:
            code: Code = self._literal(node) if isinstance(node, Literal) else (yield self._emit(node))
            codes.append(code)
        return codes

    def _boolean(self, node: SyntaxNode) -> Step[Code]:
        code: Code = yield self._emit(node)
        return code if _surely_bool(node) else Code(f"boolean({code.text})", code.depth + 1)

    def _ident(self, node: Ident) -> Code:
        if node.variable is not None:
            return Code(f"v{node.variable.slot}")
        if node.name in self._environment.variables:
            return Code(f"e[{node.name!a}]")
        return Code(self._type_constant(node.name))

    def _type_constant(self, name: str) -> str:
        return self._constant(TypeValue(self._environment.type_names[name].name))

    def _select(self, node: Select) -> Step[Code]:
        if node.constant is not None:
            return Code(self._type_constant(node.constant))
        operand: Code = yield self._emit(node.operand)
        kind, name = node.operand.known_type, ascii(node.name)
        depth = operand.depth + 1
        if node.test:
            test = "has_key" if kind.kind is TypeKind.MAP else "has"
            return Code(f"{test}({operand.text}, {name})", depth)
        if kind.kind is TypeKind.OBJECT and not node.optional:
            return Code(f"{operand.text}[{name}]", depth)
        if node.optional:
            return Code(f"optional_select({operand.text}, {name})", depth)
        if kind.kind is TypeKind.MAP:
            return Code(f"{operand.text}[{name}]", depth)
        return Code(f"select({operand.text}, {name})", depth)

    def _logic(self, node: Logic) -> Step[Code]:
        terms: list[Code] = []
        for term in node.terms:
            code: Code = yield self._boolean(term)
            terms.append(code)
        depth = max(term.depth for term in terms) + 1
        joined = (" and " if node.function == "_&&_" else " or ").join(term.text for term in terms)
        return Code(f"({joined})", depth)

    def _call(self, node: Call) -> Step[Code]:
        if node.function == "_?_:_":
            condition: Code = yield self._boolean(node.args[0])
            chosen: list[Code] = yield self._many(node.args[1:])
            depth = max(condition.depth, *(code.depth for code in chosen)) + 1
            return Code(f"({chosen[0].text} if {condition.text} else {chosen[1].text})", depth)
        if node.function in ("or", "orValue") and node.target is not None and len(node.args) == 1:
            target: Code = yield self._emit(node.target)
            other: Code = yield self._emit(node.args[0])
            name = "optional_or" if node.function == "or" else "optional_or_value"
            return Code(f"{name}({target.text}, lambda: {other.text})", max(target.depth, other.depth) + 1)
        operands = ([node.target] if node.target is not None else []) + node.args
        codes: list[Code] = yield self._many(operands)
        depth = max((code.depth for code in codes), default=0) + 1
        types = [operand.known_type for operand in operands]
        short = self._operator(node.function, operands, codes) or self._lookup(node, codes)
        if short is not None:
            return Code(short, depth)
        arguments = ", ".join(code.text for code in codes)
        overloads = [overload for overload in node.overloads if overload.implementation is not None]
        if len(node.overloads) == 1 and overloads and all(map(settled, node.overloads[0].params, types)):
            folded = _folded(node, overloads[0])
            if folded is not None:
                return Code(self._constant(folded))
            takes_budget = overloads[0].budget or overloads[0].is_charged
            self.budgeted |= takes_budget
            budget = "b, " if takes_budget else ""
            return Code(f"{self._implementation(overloads[0])}({budget}{arguments})", depth)
        member = node.target is not None
        self.budgeted = True
        if len(node.overloads) == 1 and overloads and node.function not in UNGUARDED:
            return Code(
                f"{self._constant(overloads[0].guarded)}(b, ({arguments}{',' if len(codes) == 1 else ''}))", depth
            )
        return Code(f"dispatch(b, {node.function!a}, {member}, ({arguments}{',' if len(codes) == 1 else ''}))", depth)

    def _operator(self, function: str, operands: list[SyntaxNode], codes: list[Code]) -> str | None:
        """Source for an operator that has a Python equivalent for the operands' static types, else None."""
        types = [operand.known_type for operand in operands]
        if function in _COMPARISONS:
            left, right = types
            sign = _COMPARISONS[function]
            if left is right and left in (_NATIVE if sign in ("==", "!=") else _ORDERED):
                return f"({codes[0].text} {sign} {codes[1].text})"
            if sign == "==" and right in _NATIVE:
                return f"equals_native({codes[0].text}, {codes[1].text})"
            if (sign == "==" and left in (STRING, BYTES)) or (sign == "!=" and (STRING in types or BYTES in types)):
                return f"({codes[0].text} {sign} {codes[1].text})"
            if sign == "!=" and (left in _NATIVE or right in _NATIVE):
                return f"differs_native({codes[0].text}, {codes[1].text})"
            return None
        if function == "!_" and types[0] is BOOL:
            return f"(not {codes[0].text if _surely_bool(operands[0]) else f'boolean({codes[0].text})'})"
        if function == "_[_]":
            container, key = types
            if container.kind is TypeKind.MAP and key is STRING:
                return f"{codes[0].text}[{codes[1].text}]"
            if is_dyn(container) or is_dyn(key) or container.kind is TypeKind.NULL:
                return f"index({codes[0].text}, {codes[1].text})"
        if function == "_[?_]":
            return f"optional_index({codes[0].text}, {codes[1].text})"
        if function == "@in" and types[1].kind in (TypeKind.MAP, TypeKind.LIST) and types[0] is STRING:
            return f"({codes[0].text} in {codes[1].text})"
        return None

    def _lookup(self, node: Call, codes: list[Code]) -> str | None:
        """Source for ``x in [literals]``."""
        within = node.args[-1] if node.function == "@in" else None
        if not isinstance(within, ListNode):
            return None
        if not within.elements:
            return "False"
        values = literals(within)
        if not values or any(value is None or isinstance(value, bytes) for value in values):
            return None
        return f"in_constants({codes[0].text}, {self._constant(constant_keys(values))})"

    def _list(self, node: ListNode) -> Step[Code]:
        codes: list[Code] = yield self._many([element for element, _ in node.elements])
        depth = max((code.depth for code in codes), default=0) + 1
        if not any(optional for _, optional in node.elements):
            return Code(f"[{', '.join(code.text for code in codes)}]", depth)
        parts = (f"({int(optional)}, {code.text})" for code, (_, optional) in zip(codes, node.elements, strict=True))
        return Code(f"make_list([{', '.join(parts)}])", depth + 1)

    def _map(self, node: MapNode) -> Step[Code]:
        parts: list[str] = []
        depth = 0
        for key, value, optional in node.entries:
            codes: list[Code] = yield self._many([key, value])
            depth = max(depth, codes[0].depth, codes[1].depth)
            parts.append(f"({int(optional)}, {codes[0].text}, {codes[1].text})")
        return Code(f"make_map([{', '.join(parts)}])", depth + 2)

    # --- macros ---

    def _in_scope(self, variables: list[Variable], body: SyntaxNode, *, boolean: bool = False) -> Step[Code]:
        self._scope.extend(variables)
        code: Code = yield self._boolean(body) if boolean else self._emit(body)
        del self._scope[-len(variables) :]
        return Code(f"lambda {', '.join(f'v{variable.slot}' for variable in variables)}: {code.text}", code.depth + 1)

    def _comprehension(self, node: Comprehension) -> Step[Code]:
        self.budgeted = True
        over: Code = yield self._emit(node.range)
        variables = [node.variable] if node.second is None else [node.variable, node.second]
        predicate = node.macro in ("all", "exists", "exists_one", "filter")
        body: Code = yield self._in_scope(variables, node.body, boolean=predicate)
        condition = Code("None")
        if node.condition is not None:
            condition = yield self._in_scope(variables, node.condition, boolean=True)
        name = node.macro + ("_pairs" if node.second is not None else "")
        tail = (
            f", {condition.text}" if node.macro in ("map", "transformList", "transformMap", "transformMapEntry") else ""
        )
        depth = max(over.depth, body.depth, condition.depth) + 1
        return Code(f"macro_{name}(b, {self._work.loops[id(node)]:.3g}, {over.text}, {body.text}{tail})", depth)

    def _bind(self, node: Bind) -> Step[Code]:
        value: Code = yield self._emit(node.value)
        body: Code = yield self._in_scope([node.variable], node.body)
        depth = max(value.depth, body.depth) + 1
        return Code(f"({body.text})({value.text})", depth + 1)

    def _optional_map(self, node: OptionalMap) -> Step[Code]:
        target: Code = yield self._emit(node.target)
        body: Code = yield self._in_scope([node.variable], node.body)
        name = "optional_flat_map" if node.flat else "optional_map"
        return Code(f"{name}({target.text}, {body.text})", max(target.depth, body.depth) + 1)


def _surely_bool(node: SyntaxNode) -> bool:
    """True if the value is certainly a bool, whatever the static types of variables are.

    They may be too narrow: ``[dyn(1), dyn("a")].flatten()`` leaves the element's type open, and ``filter(z, z)`` then
    settles on bool.
    """
    if isinstance(node, Logic | Literal):
        return node.type is BOOL
    return (
        isinstance(node, Call) and bool(node.overloads) and all(overload.result is BOOL for overload in node.overloads)
    )


_FOLDABLE = frozenset(("quantity", "semver", "duration", "timestamp", "ip", "cidr"))


def _folded(node: Call, overload: Overload) -> Value:
    """The value of a constructor applied to literals; None for others, and for one that fails when evaluated."""
    if node.function not in _FOLDABLE or overload.implementation is None or overload.budget:
        return None
    values = [argument.value for argument in node.args if isinstance(argument, Literal)]
    if node.target is not None or len(values) != len(node.args):
        return None
    try:
        return overload.implementation(*values)
    except EvaluationError:
        return None
