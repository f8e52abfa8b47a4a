"""The limit on what an evaluation costs, its interruption, and the worst case from the text (L-4.*).

What single expressions cost is data: the cases of test_cases.py carry ``cost`` and ``cost_estimate`` as Kubernetes
gives them.
"""

from __future__ import annotations

import sys

import pytest

from virt_dra.api.resource_v1 import Device
from virt_dra.cel import (
    COST_LIMIT,
    CostExceeded,
    EvaluationError,
    Examined,
    Interrupted,
    compile_derived_attribute,
    compile_expression,
    compile_selector,
    device_input,
)

DEVICE = device_input(
    "d", Device.from_wire({"name": "x", "attributes": {"l": {"strings": ["a"] * 40}, "m": {"string": "x" * 64}}})
)
EXCEEDED = "operation cancelled: actual cost limit exceeded"
UNBOUNDED = 2**64 - 1


class Deadline:
    """Passes when it is asked for the ``last`` time."""

    def __init__(self, last: int) -> None:
        self.asked = 0
        self._last = last

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked >= self._last


# --- the limit ---


@pytest.mark.parametrize(("size", "cost"), [(999987, COST_LIMIT), (999988, COST_LIMIT + 1)])
def test_an_evaluation_may_cost_the_limit_and_no_more(size: int, cost: int) -> None:
    selector = compile_selector(f"lists.range({size}).size() > 0")
    examined = selector.examine(DEVICE)
    assert examined.cost == cost
    if cost <= COST_LIMIT:
        assert examined.value is True
        assert selector.matches(DEVICE) is True
    else:
        assert (examined.value, examined.error) == (None, EXCEEDED)
        with pytest.raises(EvaluationError) as failure:
            selector.matches(DEVICE)
        assert str(failure.value) == EXCEEDED


@pytest.mark.parametrize(
    "guard", ["true || {}", "{} || true", "[1].exists(x, {} || true)", "true ? {} : true", "cel.bind(b, {}, b || true)"]
)
def test_nothing_makes_good_what_costs_too_much(guard: str) -> None:
    bomb = "lists.range(1000).all(x, lists.range(1000).all(y, y >= 0))"
    program = compile_expression(guard.replace("{}", bomb))
    value, cost = program.evaluate_with_cost({})
    if guard.startswith("true ||"):
        assert (value, cost) == (True, 0)
    else:
        assert isinstance(value, CostExceeded)
        assert COST_LIMIT < cost <= COST_LIMIT + 1100


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("lists.range(3000).distinct().size() > 0", 3011 + 18_000_011),
        ("lists.range(900).sort().size() > 0", 911 + 1_620_011),
    ],
)
def test_a_call_that_must_exceed_the_limit_is_not_made(expression: str, cost: int) -> None:
    assert compile_selector(expression).examine(DEVICE).cost == cost


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("lists.range(1000).all(x, lists.range(10000).all(y, y >= 0))", COST_LIMIT + 1),
        ("lists.range(99999).map(x, [x, x]).size() > 0", COST_LIMIT + 9),
        ("lists.range(99999).filter(x, x > 5 && true).size() > 0", COST_LIMIT + 6),
        ('lists.range(99999).map(x, x > 3, {"a": x}).size() > 0', COST_LIMIT + 7),
        ("lists.range(99999).map(x, optional.of(x).optMap(y, y + y)).size() > 0", COST_LIMIT + 7),
    ],
)
def test_an_evaluation_ends_at_the_step_that_costs_too_much(expression: str, cost: int) -> None:
    assert compile_selector(expression).examine(DEVICE) == Examined(error=EXCEEDED, cost=cost)


def test_a_failing_evaluation_costs_what_it_came_to() -> None:
    examined = compile_selector('device.attributes["d"].nosuch == "a" && device.driver == "d"').examine(DEVICE)
    assert (examined.value, examined.cost) == (None, 8)
    assert examined.error is not None
    assert examined.error.startswith("no such key: nosuch. consider using CEL optional chaining")


def test_a_result_that_is_no_bool_has_a_cost() -> None:
    examined = compile_selector('device.attributes["d"].m').examine(DEVICE)
    assert (examined.value, examined.cost) == (None, 4)


def test_a_derived_attribute_has_a_cost() -> None:
    derived = compile_derived_attribute('device.attributes["d"].m + "y"')
    examined = derived.examine(DEVICE)
    assert (examined.value, examined.cost, derived.cost_estimate) == (derived.evaluate(DEVICE), 4 + 7, 4 + 7)


# --- interruption ---


def test_a_deadline_is_looked_at_every_hundred_steps() -> None:
    deadline = Deadline(last=1000)
    assert compile_selector("lists.range(399).all(x, x >= 0)").matches(DEVICE, deadline) is True
    assert deadline.asked == 3


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(300).all(x, x >= 0)",
        "lists.range(300).exists_one(x, x == 5)",
        "lists.range(300).map(x, x).size() == 300",
        "lists.range(300).filter(x, x > 5).size() == 294",
        "lists.range(300).transformList(i, x, x).size() == 300",
        "lists.range(300).transformMap(i, x, x).size() == 300",
        "lists.range(300).transformMapEntry(i, x, {x: i}).size() == 300",
        "lists.range(300).sortBy(x, -x).size() == 300",
        "lists.range(20).all(x, lists.range(20).all(y, y >= 0))",
        "lists.range(300).all(x, lists.range(2).exists(y, y > 5) || true)",
    ],
)
def test_every_loop_can_be_interrupted(expression: str) -> None:
    deadline = Deadline(last=2)
    with pytest.raises(Interrupted) as failure:
        compile_selector(expression).matches(DEVICE, deadline)
    assert str(failure.value) == "operation interrupted"
    assert deadline.asked == 2


def test_an_interruption_is_a_failure_that_or_makes_good() -> None:
    assert compile_selector("lists.range(300).all(x, x >= 0) || true").matches(DEVICE, Deadline(last=1)) is True


def test_without_loops_no_deadline_is_looked_at() -> None:
    deadline = Deadline(last=1)
    assert compile_selector('device.driver == "d" && cel.bind(a, 1, a == 1)').matches(DEVICE, deadline) is True
    assert deadline.asked == 0


# --- the worst case ---


@pytest.mark.parametrize(
    ("expression", "estimate"),
    [
        ("device.driver == 'a'", 3),
        ('device.attributes["d"].l.exists(x, x == "a")', 389),
        ('device.attributes["d"].all(k, k.size() < 5)', 196),
        ("device.attributes.all(d, device.attributes[d].all(k, device.attributes[d][k].exists(x, x == 'a')))", 403_715),
        ("device.attributes.all(d, m, m.all(k, v, v.all(x, v.all(y, x == y))))", UNBOUNDED),
        ("lists.range(1000).all(x, lists.range(10000).all(y, y >= 0))", 60_016_012),
        ('device.attributes["d"].m.replace("x", device.attributes["d"].m).matches("(x+x+)+y")', 841),
        ("lists.range(device.driver.size()).size() > 0", UNBOUNDED),
        ("optional.of([1])" + ".optMap(a, a)" * 8 + ".hasValue()", 6387),
    ],
)
def test_the_worst_case_follows_from_the_text_and_the_declared_sizes(expression: str, estimate: int) -> None:
    assert compile_selector(expression).cost_estimate == estimate


def test_repeated_targets_are_estimated_once() -> None:
    chain = "optional.of([1])" + ".optMap(a, a)" * 240 + ".hasValue()"
    assert compile_selector(chain).cost_estimate == UNBOUNDED
    assert compile_selector(chain).examine(DEVICE).error == EXCEEDED


def test_counting_and_estimating_need_little_of_pythons_stack() -> None:
    expression = "true && (false || (" * 100 + 'device.attributes["d"].nosuch == 1' + "))" * 100 + " || true"
    limit = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 500)
    try:
        program = compile_expression(expression)
        estimate = program.estimate_cost()
        counted = program.evaluate_with_cost({"device": DEVICE})
    finally:
        sys.setrecursionlimit(limit)
    assert (estimate, counted) == (5, (True, 5))
