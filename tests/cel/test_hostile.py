"""Expressions made to hurt: deep, long, exponential, or never ending."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import CompileError, EvaluationError, compile_expression, compile_selector, device_input
from virt_dra.cel.functions.patterns import InvalidPattern
from virt_dra.cel.functions.regex import PatternTooLarge, compile_pattern

DEVICE = device_input(
    "d", Device.from_wire({"name": "x", "attributes": {"l": {"strings": ["a"] * 40}, "m": {"string": "x" * 64}}})
)
TOO_MUCH_BUILT = "operation cancelled: the expression builds more than 40 MB on this device"
TOO_MANY_STEPS = "operation cancelled: the expression takes more than 5000000 steps on this device"
TOO_DEEP = "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250"
TOO_LONG_CHAIN = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"


@pytest.mark.parametrize(
    ("build", "deepest"),
    [
        (lambda n: "(" * n + "true" + ")" * n, 249),
        (lambda n: "size(" + "[" * n + "1" + "]" * n + ") == 1", 248),
        (lambda n: "!(" * n + "true" + ")" * n + " || true", 249),
        (lambda n: "dyn(" * n + "true" + ")" * n, 249),
        (lambda n: "true ? true : " * n + "true", 249),
        (lambda n: "true && (" * n + "true" + ")" * n, 249),
        (lambda n: "".join(f"[1].all(a{i}, " for i in range(n)) + "true" + ")" * n, 249),
        (lambda n: "".join(f"cel.bind(a{i}, 1, " for i in range(n)) + "true" + ")" * n, 249),
    ],
)
def test_nesting_works_up_to_the_limit_and_is_refused_beyond(build: Callable[[int], str], deepest: int) -> None:
    assert compile_selector(build(deepest)).matches(DEVICE) is True
    with pytest.raises(CompileError) as refusal:
        compile_selector(build(deepest + 1))
    assert str(refusal.value) == TOO_DEEP


@pytest.mark.parametrize(
    ("chain", "works"),
    [
        ("+".join(["1"] * 250) + " > 0", True),
        ("1 == 1" + " == true" * 249, True),
        ("'a'" + ".trim()" * 249 + " == 'a'", True),
    ],
)
def test_chains_of_operators_work_up_to_the_limit(chain: str, works: bool) -> None:
    assert compile_selector(chain).matches(DEVICE) is works


@pytest.mark.parametrize(
    "chain", ["+".join(["1"] * 300), "dyn(1)" + ".a" * 300, "dyn([])" + "[0]" * 300, "1" + " == 1" * 300]
)
def test_longer_chains_are_refused(chain: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector(chain)
    assert str(refusal.value) == TOO_LONG_CHAIN


def test_and_and_or_have_no_such_limit() -> None:
    assert compile_selector(" && ".join(["true"] * 1000)).matches(DEVICE) is True
    assert compile_selector(" || ".join(["false"] * 1000)).matches(DEVICE) is False


def test_text_is_limited_to_10_240_characters() -> None:
    assert compile_selector("true" + " " * 10236).matches(DEVICE) is True
    with pytest.raises(CompileError) as refusal:
        compile_selector("true" + " " * 10237)
    assert str(refusal.value) == (
        "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: size: 10241, limit 10240"
    )


def test_compiling_and_evaluating_need_little_of_pythons_stack() -> None:
    expression = "true && (false || (" * 100 + 'device.attributes["d"].nosuch == 1' + "))" * 100
    limit = sys.getrecursionlimit()
    depth = len(_frames())
    sys.setrecursionlimit(depth + 100 * 5)
    try:
        program = compile_expression(expression + " || true")
    finally:
        sys.setrecursionlimit(limit)
    assert program.evaluate({"device": DEVICE}) is True


def _frames() -> list[object]:
    frames: list[object] = []
    frame = sys._getframe()
    while frame is not None:
        frames.append(frame)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frames


def _doubling(start: str, step: str, end: str) -> str:
    return f"cel.bind(a, {start}, " + f"cel.bind(a, {step}, " * 90 + end + ")" * 91


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000).all(x, lists.range(10000).all(y, y >= 0))",
        "lists.range(999999).map(x, x + 1).size() > 0",
        'cel.bind(l, device.attributes["d"].l, l.all(a, l.all(b, l.all(c, l.all(e, l.all(f, true))))))',
        "lists.range(3000).distinct().size() > 0",
        "true || lists.range(1000000).size() > 0 || true ? lists.range(1000000).map(x, x).size() > 0 : true",
    ],
)
def test_endless_work_ends_in_an_error(expression: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        compile_selector(expression).matches(DEVICE)
    assert str(failure.value) == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("lists.range(100000000).size() > 0", "lists.range: size 100000000 exceeds maximum allowed (1000000)"),
        (_doubling("[1, 1]", "a + a", "size(a) > 0"), TOO_MUCH_BUILT),
    ],
)
def test_what_costs_little_there_and_takes_long_here_ends_too(expression: str, message: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        compile_selector(expression).matches(DEVICE)
    assert str(failure.value) == message


@pytest.mark.parametrize(
    "expression",
    [
        _doubling("'xxxxxxxxxxxxxxxx'", "a + a", "size(a) > 0"),
        _doubling("b'xxxxxxxxxxxxxxxx'", "a + a", "size(a) > 0"),
        _doubling("'xxxxxxxxxxxxxxxx'", "[a, a].join()", "size(a) > 0"),
        _doubling("'xxxxxxxxxxxxxxxx'", "a.replace('x', 'xx')", "size(a) > 0"),
        _doubling("'xxxxxxxxxxxxxxxx'", "'%s%s'.format([a, a])", "size(a) > 0"),
        _doubling('\'""""""""\'', "strings.quote(a)", "size(a) > 0"),
    ],
)
def test_texts_do_not_grow_without_end(expression: str) -> None:
    with pytest.raises(EvaluationError) as failure:
        compile_selector(expression).matches(DEVICE)
    assert str(failure.value) == "operation cancelled: the expression builds a text of more than 100000 characters"


def test_values_that_share_their_parts_are_not_compared_for_ever() -> None:
    grown = _doubling("[[1]]", "[dyn(a), dyn(a)]", "a")
    with pytest.raises(EvaluationError) as failure:
        compile_selector(f"{grown} == {grown}").matches(DEVICE)
    assert str(failure.value) == "operation cancelled: values are too large to compare"


@pytest.mark.parametrize("step", ["{a: a}", '[{"x": [[[[[[[[[[a]]]]]]]]]]}]'])
def test_types_that_grow_without_end_are_refused(step: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector(_doubling("[1]", step, "a == 1"))
    assert str(refusal.value) == (
        "compilation failed: ERROR: <input>:-1:0: the expression is too complex: a type with more than 1000 parts"
    )


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(x|x)*y", "(x*)*y", "((x{30}){30})y"])
def test_patterns_take_linear_time(pattern: str) -> None:
    assert compile_selector(f'device.attributes["d"].m.matches("{pattern}")').matches(DEVICE) is False


_CLASSES = "&&".join(f"'x'.matches(r'\\pL{{{count}}}')" for count in range(50, 99))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{_CLASSES}", "the expression is too complex: its patterns need more than 100000 instructions"),
        (_CLASSES.replace(".matches(", ".find(").replace(")", ") == ''"), "the expression is too complex"),
        (
            "'x'.matches(r'" + r"\pL" * 3000 + "')",
            "the expression is too complex: its patterns have more than 300 Unicode classes",
        ),
        ("'x'.matches('(x{1000}){1000}')", "invalid matches argument"),
        ("'x'.matches('" + "(" * 1000 + "x" + ")" * 1000 + "')", "invalid matches argument"),
    ],
)
def test_patterns_that_take_long_to_compile_are_refused(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector(expression)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    "pattern", ["(" * 999 + "x" + ")" * 999, "(?:" * 2000 + "x" + ")" * 2000, "[(]?" * 1100, r"\\(?" * 1100]
)
def test_patterns_with_many_groups_are_quick(pattern: str) -> None:
    assert compile_selector(f"device.attributes['d'].m.matches('{pattern}')").matches(DEVICE) is True


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "[(" * 50_000,
            "[(" * 50_000 + "\\",
            "\\p{" * 30_000,
            "[\\p{" * 30_000,
            "(?P<" * 25_000,
            "\\Q" * 50_000 + "(?<n>",
            "(?<a" * 30_000,
        ),
        *(
            "a" * 100_000 + "\\C",
            "\\p{" + "_" * 100_000 + "}",
            "".join(f"\\p{{x{i}}}" for i in range(290)),
            "[\\P{LC}\\p{Cn}]" * 149,
        ),
    ],
    ids=lambda pattern: pattern[:8],
)
def test_patterns_are_read_in_linear_time(pattern: str) -> None:
    began = time.process_time()
    with suppress(InvalidPattern, PatternTooLarge):
        compile_pattern(pattern)
    assert time.process_time() - began < 2


def test_patterns_made_while_evaluating_use_up_the_budget() -> None:
    with pytest.raises(EvaluationError) as failure:
        compile_selector("lists.range(60).exists(i, 'x'.matches(r'\\pL{' + string(i + 30) + '}y'))").matches(DEVICE)
    assert (
        str(failure.value) == "operation cancelled: the patterns of the expression need more than 100000 instructions"
    )


@pytest.mark.parametrize("text", ["9" * 10000, "0x" + "F" * 10000, "9" * 5000 + "u"])
def test_numbers_of_any_length_are_read(text: str) -> None:
    with pytest.raises(CompileError) as refusal:
        compile_selector(text)
    assert "invalid " in str(refusal.value)


def test_leading_zeros_do_not_count() -> None:
    assert compile_selector("0" * 6000 + "7 == 7 && int('" + "0" * 3000 + "7') == 7").matches(DEVICE) is True
