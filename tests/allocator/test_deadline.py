"""An interrupt ends what selectors and derived attributes compute, in the middle of one evaluation, and nothing half
done is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from devtools.allocator import build
from virt_dra.allocator import (
    Allocated,
    Allocator,
    BatchAllocator,
    DeadlineExceeded,
    FatalError,
    Features,
    Snapshot,
    allocate,
    explain,
)
from virt_dra.api.resource_v1 import ResourceClaim

LONG = "lists.range(200).all(x, lists.range(100).all(y, x + y >= 0))"
"""20,000 steps: it asks some 200 times."""
GOOD_ALL_THE_SAME = f"({LONG} && false) || true"
"""An interruption inside would be made good by ``||``, if it were an error of the expression."""
ISSUE = r"[{0}].exists(i, [{0}].exists(j, 'a'.matches(r'\pL{{9'+'10}}'))) || true".format(
    ",".join(map(str, range(10, 100)))
)
RUN_TIME_PATTERNS = (
    "lists.range(60).exists(i, lists.range(60).exists(j, 'a'.matches(r'\\pL{' "
    "+ string(100 + i) + '}' + string(j)))) || true"
)
DERIVED = "lists.range(200).all(x, lists.range(100).all(y, x + y >= 0)) ? 'a' : 'b'"
NODE = build.node("n0")
EVERYTHING = Features.all()


class Asked:
    """An interrupt that says yes from the ``last`` question on."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.times = 0

    def __call__(self) -> bool:
        self.times += 1
        return self.times >= self.last


def _until(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _snapshot(*, class_selector: str | None = None) -> Snapshot:
    wanted = "gpu" if class_selector is None else {"name": "gpu", "when": [class_selector]}
    return build.snapshot({"slices": [{"node": "n0", "devices": ["d0", "d1", "d2"]}], "classes": [wanted]})


def _claim(*selectors: str) -> ResourceClaim:
    return build.claim({"name": "c", "requests": [{"name": "r0"}, {"name": "r1", "when": list(selectors)}]})


def _deriving(expression: str) -> ResourceClaim:
    derived = [{"name": "derived.example.com/a", "expression": expression}]
    requests = [{"name": f"r{i}", "derivedAttributes": derived} for i in range(2)]
    return build.claim({"name": "c", "requests": requests, "constraints": [{"match": "derived.example.com/a"}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("snapshot", "claim", "subject"),
    [
        (_snapshot(), _claim(LONG), "claim ns/c, request r1, selector #0"),
        (_snapshot(), _claim("true", LONG), "claim ns/c, request r1, selector #1"),
        (_snapshot(), _claim(GOOD_ALL_THE_SAME), "claim ns/c, request r1, selector #0"),
        (_snapshot(class_selector=LONG), _claim("true"), "class gpu, selector #0"),
        (_snapshot(), _deriving(DERIVED), "claim ns/c, request r1, derived attribute derived.example.com/a"),
    ],
)
def test_an_interrupt_ends_one_evaluation_and_the_next_attempt_answers_as_a_first(
    snapshot: Snapshot, claim: ResourceClaim, subject: str
) -> None:
    compiled = Snapshot.build(snapshot.slices, snapshot.classes.values())
    allocate(compiled, [claim], NODE, EVERYTHING)  # compiling, which is done once, asks as well
    whole = Asked(10**9)
    expected = allocate(snapshot, [claim], NODE, EVERYTHING, interrupt=whole)
    assert isinstance(expected, Allocated)
    assert whole.times > 190, "each evaluation asks again and again"
    for last in (3, 20, 100, whole.times // 2, whole.times - 1):
        fresh = Snapshot.build(snapshot.slices, snapshot.classes.values())
        interrupt = Asked(last)
        with pytest.raises(DeadlineExceeded) as ended:
            allocate(fresh, [claim], NODE, EVERYTHING, interrupt=interrupt)
        assert interrupt.times == last, "nothing goes on after it"
        if last > 3 and not ended.value.subject.endswith("all selectors together"):  # between two of them
            assert subject.startswith(ended.value.subject.split(", request")[0])
        assert allocate(fresh, [claim], NODE, EVERYTHING) == expected
    fresh = Snapshot.build(snapshot.slices, snapshot.classes.values())
    with pytest.raises(DeadlineExceeded) as ended:
        allocate(fresh, [claim], NODE, EVERYTHING, interrupt=Asked(100))
    assert ended.value.subject == subject


def test_without_a_deadline_nothing_is_asked_and_the_answer_is_the_same() -> None:
    claim = _claim(GOOD_ALL_THE_SAME)
    assert allocate(_snapshot(), [claim], NODE) == allocate(_snapshot(), [claim], NODE, interrupt=lambda: False)


def test_explaining_is_interrupted_too() -> None:
    with pytest.raises(DeadlineExceeded):
        explain(_snapshot(), [_claim(LONG + " && false")], NODE, interrupt=Asked(50))


@pytest.mark.parametrize(
    ("last", "subject"), [(6, "all selectors together"), (8, "selector #1"), (11, "all selectors together")]
)
def test_compiling_many_selectors_is_interrupted_and_tried_again_in_full(last: int, subject: str) -> None:
    claim = _claim(*(f"true || {number} > {'1 + ' * 40}{last}" for number in range(32)))
    snapshot = _snapshot()
    with pytest.raises(DeadlineExceeded) as ended:
        Allocator(snapshot, [claim], interrupt=Asked(last)).allocate(NODE)
    assert ended.value.subject == f"claim ns/c, request r1, {subject}"
    assert isinstance(Allocator(snapshot, [claim]).allocate(NODE), Allocated)


def test_a_walk_over_nodes_ends_and_goes_on_with_the_next_pod() -> None:
    answers = [False] * 100 + [True]
    walk = BatchAllocator(_snapshot(), [NODE], interrupt=lambda: answers.pop(0) if answers else False)
    with pytest.raises(DeadlineExceeded):
        walk.place([_claim(LONG)])
    assert walk.place([_claim(LONG)]) is not None


@pytest.mark.parametrize(
    "selector", [ISSUE, RUN_TIME_PATTERNS, "||".join(["'a'.matches(r'\\pL{9'+'10}')"] * 60) + "||true"]
)
def test_a_deadline_of_the_clock_ends_hostile_patterns(selector: str) -> None:
    """Each of these took seconds to minutes."""
    began = time.monotonic()
    with suppress(FatalError):
        allocate(_snapshot(), [_claim(selector)], NODE, interrupt=_until(0.2))
    assert time.monotonic() - began < 5
