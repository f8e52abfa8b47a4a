"""The language against a second witness: cel-cpp, another implementation of the same language (cel-expr-python).

It knows the standard functions and macros only, no comparison across types of numbers, and words errors in its own way;
hence what both take is compared: the values, and that both fail. The exception is :data:`REFUSED_CONSTANT`; and for
:func:`unordered_is_false` ours is made to do as cel-cpp does.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from typing import Any

import pytest

from devtools.upstream.cel.grammar import Grammar
from virt_dra.cel import CompileError, EvaluationError, compile_expression
from virt_dra.cel.functions import operators
from virt_dra.cel.values import UInt, Value, key_value, type_name

pytestmark = pytest.mark.slow

cel = pytest.importorskip(
    "cel_expr_python.cel", reason="needs cel-expr-python (a development requirement) as a witness"
)

_KINDS = ("int", "uint", "double", "string", "bytes", "bool", "list", "map", "dyn")
_LEAVES = {
    "int": ["0", "1", "2", "-1", "7", "9223372036854775807", "-9223372036854775808", "0x1F"],
    "uint": ["0u", "1u", "3u", "18446744073709551615u"],
    "double": ["0.0", "1.0", "-1.5", "1e300", "0.1", "9007199254740993.0"],
    "string": ['"a"', '""', '"abc"', '"é"', '"1"', '"-7"', '"b,c"', r'r"\d+"', '"😀b"', '"true"', '"1.5"'],
    "bytes": ['b"a"', 'b""', r'b"\xff"', 'b"é"'],
    "bool": ["true", "false"],
    "list": ["[1, 2, 3]", "[3, 1, 1]"],
    "map": ['{"a": 1}', '{"a": 1, "b": 2}'],
    "dyn": ["dyn(1)", "dyn('a')", "dyn(2.0)", "dyn(true)", "dyn(null)", "dyn([1, 2])", "dyn({'a': 1})"],
}  # fmt: skip
_BRANCHES = {
    "bool": [
        "($bool && $bool)", "($bool || $bool)", "!($bool)", "($bool ? $bool : $bool)", "($int == $int)",
        "($string != $string)", "($int < $int)", "($uint >= $uint)", "($double < $double)", "($string <= $string)",
        "($bytes > $bytes)", "($int in $list)", "($string in $map)", "($dyn == $dyn)", "$string.contains($string)",
        "$string.startsWith($string)", "$string.endsWith($string)", "$string.matches('a|b+')", "$list.all(x, x > $int)",
        "$list.exists(x, x == $int)", "$list.exists_one(x, x < $int)", "has($map.a)", "has($map.c)", "($list == $list)",
        "($map == $map)", "bool($bool)", "$list.exists(x, 10 / x > "
"$int)", "$list.all(x, 10 % x < $int)",
    ],
    "int": [
        "($int + $int)", "($int - $int)", "($int * $int)", "($int / $int)", "($int % $int)", "-($int)", "size($string)",
        "$list.size()", "size($map)", "size($bytes)", "int($uint)", "int($double)", "int($string)", "$map.a",
        "$map['b']", "$list[$int]", "($bool ? $int : $int)",
    ],
    "uint": ["($uint + $uint)", "($uint - $uint)", "($uint * $uint)", "($uint / $uint)", "($uint % $uint)",
        "uint($int)", "uint($string)"],
    "double": ["($double + $double)", "($double - $double)", "($double * $double)", "($double / $double)", "-($double)",
        "double($int)",
               "double($uint)", "double($string)"],
    "string": ["($string + $string)", "string($int)", "string($uint)", "string($bool)", "string($bytes)",
        "($bool ? $string : $string)"],
    "bytes": ["($bytes + $bytes)", "bytes($string)"],
    "list": ["($list + $list)", "[$int, $int]", "$list.map(x, x + $int)", "$list.filter(x, x != $int)",
        "$list.map(x, x > $int, x * 2)"],
    "map": ["{$string: $int}", "{$string: $int, 'b': $int}"],
    "dyn": ["dyn($int)", "dyn($string)", "dyn($bool)", "dyn($list)", "dyn($map)", "($dyn + $dyn)"],
}  # fmt: skip
GRAMMAR = Grammar(_LEAVES, _BRANCHES, ())
_TYPES = {
    "bool": "BOOL",
    "int": "INT",
    "uint": "UINT",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BYTES",
    "null_type": "NULL",
}

REFUSED_CONSTANT = "program instantiation failed: "
"""A constant that can't be converted is refused in Kubernetes even where it isn't evaluated (spec L-2.5)."""


def unordered_is_false(left: Value, right: Value) -> float:
    """To order a double that isn't a number fails in cel-go, hence in Kubernetes (spec L-2.2a); in cel-cpp it is
    false."""
    order = operators.compare(left, right)
    return math.nan if order is None else order


def _literal(value: Value) -> str:
    """The value as an expression that both read."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{int(value)}u" if isinstance(value, UInt) else str(value)
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(character):08x}" for character in value) + '"'
    if isinstance(value, bytes):
        return 'b"' + "".join(f"\\x{byte:02x}" for byte in value) + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key_value(key))}: {_literal(held)}" for key, held in value.items()) + "}"
    return "null" if value is None else repr(value)


def _difference(environment: Any, text: str) -> str:
    """What the two say differently; empty if nothing, or if the witness doesn't take the expression."""
    try:
        theirs = environment.compile(text).eval(data={})
    except RuntimeError:
        return ""
    try:
        ours = compile_expression(text).evaluate({})
    except CompileError as error:
        return "" if error.message.startswith(REFUSED_CONSTANT) else f"refused: {error}"
    except EvaluationError as error:
        if theirs.type() == cel.Type.ERROR:
            return ""
        return f"{error}, not {theirs.value()!r}"
    if theirs.type() == cel.Type.ERROR:
        return f"{ours!r}, not the failure {theirs.value()!r}"
    if isinstance(ours, float):
        value = theirs.value()
        same = isinstance(value, float) and (value == ours or (math.isnan(value) and math.isnan(ours)))
        return "" if same else f"{ours!r}, not {value!r}"
    if isinstance(ours, (list, dict)):
        equal = environment.compile(f"dyn({text}) == dyn({_literal(ours)})").eval(data={}).value()
        return "" if equal is True else f"{ours!r}, not {theirs.value()!r}"
    if str(theirs.type()) != _TYPES[type_name(ours)]:
        return f"a {type_name(ours)}, not a {theirs.type()}"
    value = bytes(theirs.value()) if isinstance(ours, bytes) else theirs.value()
    return "" if value == ours else f"{ours!r}, not {value!r}"


def test_values_are_those_of_cel_cpp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_order", unordered_is_false)
    given = os.environ.get("CEL_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    source = random.Random(seed)
    environment = cel.NewEnv(variables={})
    differences: list[str] = []
    compared: Counter[str] = Counter()
    for _ in range(int(os.environ.get("CEL_CPP_CASES", "3000"))):
        kind = source.choice(_KINDS)
        text = GRAMMAR.draw(source, kind, source.randint(1, 3))
        compared[kind] += 1
        difference = _difference(environment, text)
        if difference:
            differences.append(f"{text}: {difference}")
    assert not differences, f"CEL_SEED={seed}, {len(differences)} differ:\n" + "\n".join(differences[:10])
    assert min(compared[kind] for kind in _KINDS) > 0
