"""The gate: what it asks and remembers, whom it limits, and that it lets nobody in without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.cluster.kinds import ApiResource, resource_of
from virt_dra.cluster.port import Unavailable
from virt_dra.report_server.attempts import AttemptLimits, Attempts
from virt_dra.report_server.gate import Gate, GateLimits, NotReviewed, TooManyAttempts
from virt_dra.report_server.viewers import Viewer

PODS, NODES = resource_of(Pod), resource_of(Node)
ANN = Viewer("ann")


class _Reviews:
    """An API server that knows tokens named after users, and what they may not list."""

    def __init__(self) -> None:
        self.users = {"ann": ANN, "poor": Viewer("poor")}
        self.missing = {"poor": {NODES}}
        self.asked: list[str] = []
        self.away = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def authenticated(self, token: str) -> Viewer | None:
        self.asked.append(token)
        await self.goes_on.wait()
        if self.away:
            raise Unavailable("nobody answers")
        return self.users.get(token)

    async def may_list(self, viewer: Viewer, resource: ApiResource) -> bool:
        return resource not in self.missing.get(viewer.name, ())


class _Observed:
    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def judged(self, outcome: str) -> None:
        self.outcomes.append(outcome)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


Made = tuple[Gate, _Reviews, _Clock, _Observed]


@pytest.fixture
def make() -> Callable[..., Made]:
    def made(limits: GateLimits | None = None, **attempts: float) -> Made:
        reviews, clock, observed = _Reviews(), _Clock(), _Observed()
        given = Attempts(AttemptLimits(**attempts))  # type: ignore[arg-type] # whole numbers
        return (
            Gate(reviews, (NODES, PODS), clock, attempts=given, limits=limits, observer=observed),
            reviews,
            clock,
            observed,
        )

    return made


async def test_who_may_list_everything_is_allowed_and_asked_about_once_a_minute(make: Callable[..., Made]) -> None:
    gate, reviews, clock, observed = make()
    for clock.now in (0.0, 30.0, 59.9, 60.0, 119.0):
        judgement = await gate.judged("ann", "1.2.3.4")
        assert (judgement.outcome, judgement.viewer, judgement.missing) == ("allowed", ANN, ())
    assert reviews.asked == ["ann", "ann"]
    assert judgement.until == 120.0
    assert observed.outcomes == ["allowed", "allowed"]


async def test_a_right_that_is_missing_is_named_and_looked_for_again_soon(make: Callable[..., Made]) -> None:
    gate, reviews, clock, _ = make()
    judgement = await gate.judged("poor", "1.2.3.4")
    assert (judgement.outcome, judgement.viewer, judgement.missing) == ("forbidden", Viewer("poor"), (NODES,))
    reviews.missing.clear()
    clock.now = 9.0
    assert (await gate.judged("poor", "1.2.3.4")).outcome == "forbidden"
    clock.now = 10.0
    assert (await gate.judged("poor", "1.2.3.4")).outcome == "allowed"


async def test_a_right_that_is_withdrawn_is_missed_within_a_minute(make: Callable[..., Made]) -> None:
    gate, reviews, clock, _ = make()
    assert (await gate.judged("ann", "a")).outcome == "allowed"
    reviews.missing["ann"] = {PODS}
    clock.now = 60.0
    assert (await gate.judged("ann", "a")).missing == (PODS,)


async def test_without_an_answer_nobody_is_let_in_not_even_who_was_before(make: Callable[..., Made]) -> None:
    gate, reviews, clock, observed = make(per_address=1)
    await gate.judged("ann", "a")
    reviews.away, clock.now = True, 60.0
    for token in ("ann", "eve", "eve", "eve"):
        with pytest.raises(NotReviewed, match="nobody answers"):
            await gate.judged(token, "a")
    assert observed.outcomes == ["allowed", *["unanswered"] * 4]
    reviews.away = False
    assert (await gate.judged("ann", "a")).outcome == "allowed"


async def test_guesses_are_limited_by_address_and_good_tokens_are_not(make: Callable[..., Made]) -> None:
    gate, reviews, clock, _ = make(per_address=3, address_seconds=5.0)
    for number in range(3):
        assert (await gate.judged(f"guess-{number}", "a")).outcome == "unknown"
    for token in ("guess-3", "not a token"):
        with pytest.raises(TooManyAttempts) as limited:
            await gate.judged(token, "a")
        assert limited.value.seconds == 5.0
    assert (await gate.judged("ann", "b")).outcome == "allowed"
    assert (await gate.judged("ann", "a")).outcome == "allowed"  # remembered
    clock.now = 60.0
    for number in range(20):
        reviews.users[f"ann-{number}"] = ANN
        assert (await gate.judged(f"ann-{number}", "b")).outcome == "allowed", number
    assert "guess-3" not in reviews.asked


async def test_the_same_wrong_token_again_costs_no_review_while_it_is_remembered(make: Callable[..., Made]) -> None:
    gate, reviews, _, _ = make()
    for _ in range(20):
        assert (await gate.judged("eve", "a")).outcome == "unknown"
    assert reviews.asked == ["eve"]


async def test_what_cannot_be_a_token_is_not_reviewed_and_counts_as_an_attempt(make: Callable[..., Made]) -> None:
    gate, reviews, _, observed = make(per_address=1)
    assert (await gate.judged("", "a")).outcome == "unknown"
    with pytest.raises(TooManyAttempts):
        await gate.judged("\n", "a")
    assert reviews.asked == []
    assert observed.outcomes == ["unknown", "limited"]


async def test_many_who_ask_at_once_with_one_token_share_a_review(make: Callable[..., Made]) -> None:
    gate, reviews, _, _ = make()
    reviews.goes_on.clear()
    tasks = [asyncio.create_task(gate.judged("ann", "a")) for _ in range(50)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    reviews.goes_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert {answer.outcome for answer in answers if not isinstance(answer, BaseException)} == {"allowed"}
    assert reviews.asked == ["ann"]


async def test_only_so_many_strangers_wait_and_who_is_known_does_not_wait_for_them(make: Callable[..., Made]) -> None:
    gate, reviews, clock, _ = make(GateLimits(at_once=1, waiting=1), per_address=100, overall=100)
    await gate.judged("ann", "a")
    clock.now = 60.0
    reviews.goes_on.clear()
    waiting = [asyncio.create_task(gate.judged(f"guess-{number}", "a")) for number in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooManyAttempts):
        await gate.judged("guess-2", "a")
    admitted = asyncio.create_task(gate.judged("ann", "a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reviews.asked == ["ann", "guess-0", "ann"]
    reviews.goes_on.set()
    assert [(await task).outcome for task in (*waiting, admitted)] == ["unknown", "unknown", "allowed"]


async def test_what_is_remembered_is_bounded(make: Callable[..., Made]) -> None:
    gate, _, _, _ = make(GateLimits(remembered=5), per_address=100, overall=100)
    for number in range(50):
        await gate.judged(f"guess-{number}", "a")
    assert len(gate._remembered) == 5
