"""Who is explained next and when: bounded, fair between namespaces, within a share of a core, seldom where it takes too
long (K-12.4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.controllers.hostile_selectors import HOSTILE
from tests.controllers.operator.sampled import sample_of
from tests.controllers.operator.test_pending import CLAIM, CLASS, POD, in_use, node, slice_of
from tests.controllers.published_world import BASE
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.meta import Condition, ObjectMeta
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.resource_v1 import DeviceClass, DeviceConstraint, ResourceClaim, ResourceSlice
from virt_dra.cluster.watching.informer import InformerStore
from virt_dra.controllers.devices.options import DEFAULTS
from virt_dra.controllers.operator import pending
from virt_dra.controllers.operator.explain_queue import Allowance, ExplainQueue, ExplainShares
from virt_dra.controllers.operator.explainer import Explainer, Stores
from virt_dra.controllers.operator.explanation_worker import (
    ExplanationFailed,
    ExplanationRequest,
    ExplanationResult,
    explained_within,
)
from virt_dra.controllers.operator.pending import LIMITS, ExplainLimits, Sample
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult

START = datetime(2026, 11, 21, 9, tzinfo=UTC)


# --- turns ---


def _served(turns: ExplainQueue, now: float = 0.0) -> list[str]:
    reasons: list[str] = []
    while isinstance(key := turns.take(now), str):
        reasons.append(key)
    return reasons


def test_namespaces_take_turns_and_keys_of_one_wait_in_line() -> None:
    turns = ExplainQueue(0.0)
    for key in ("a/1", "a/2", "a/3", "b/1", "c/1", "a/1"):
        assert turns.add(key) is None
    assert len(turns) == 5
    assert _served(turns) == ["a/1", "b/1", "c/1", "a/2", "a/3"]
    assert turns.take(0.0) is None


def test_one_namespace_has_no_more_room_than_its_own() -> None:
    turns = ExplainQueue(0.0, ExplainShares(queued=10, queued_per_namespace=3))
    assert [turns.add(f"a/{n}") for n in range(5)] == [None, None, None, "a/3", "a/4"]
    assert turns.add("b/1") is None


def test_where_there_is_no_room_whoever_has_most_gives_way() -> None:
    turns = ExplainQueue(0.0, ExplainShares(queued=6, queued_per_namespace=4))
    for key in ("a/1", "a/2", "a/3", "a/4", "b/1", "b/2"):
        assert turns.add(key) is None
    assert turns.add("c/1") == "a/4", "the last of the longest line"
    assert turns.add("c/2") == "a/3"
    assert turns.add("c/3") == "c/3", "all have the same by now"
    assert len(turns) == 6


def test_an_allowance_is_spent_and_comes_back_at_its_share() -> None:
    allowance = Allowance(share=0.1, burst=2.0, now=0.0)
    allowance.spend(1.5, 0.0)
    assert allowance.wait(0.0) == 0
    allowance.spend(1.5, 0.0)
    assert round(allowance.wait(0.0), 6) == 10
    assert round(allowance.wait(4.0), 6) == 6
    assert allowance.wait(10.0) == 0
    assert not allowance.full(20.0)
    assert allowance.full(31.0)


def test_who_has_spent_his_share_waits_and_others_do_not() -> None:
    turns = ExplainQueue(0.0)
    for key in ("a/1", "a/2", "b/1"):
        turns.add(key)
    assert turns.take(0.0) == "a/1"
    turns.spend("a/1", 1.5, 1.5)
    turns.add("a/3")
    assert turns.take(1.5) == "b/1"
    wait = turns.take(1.5)
    assert isinstance(wait, float)
    assert 5 < wait < 15
    assert turns.take(1.5 + wait + 0.01) == "a/2"


def test_what_is_done_for_all_is_nobodys_share() -> None:
    turns = ExplainQueue(0.0)
    turns.add("a/1")
    turns.spend(None, 10.0, 0.0)
    wait = turns.take(0.0)
    assert isinstance(wait, float)
    assert wait > 10
    assert turns.take(wait + 0.01) == "a/1"


# --- the explainer, with a clock of its own ---


class Clock:
    """Seconds that pass only when somebody works or waits."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)


class Costly:
    """An examiner whose answers take as long as the pod's namespace says: ``costs-0.5``."""

    def __init__(self, clock: Clock, *, fails: bool = False) -> None:
        self.clock, self.fails = clock, fails
        self.order: list[str] = []
        self.busy = 0.0
        self.views = 0
        self.has_view = False
        self.closed = 0

    async def load_view(self, sample: Sample) -> None:
        self.views += 1
        self.has_view = True
        self._work(0.2)

    async def explain(self, question: ExplanationRequest) -> ExplanationResult:
        if self.fails:
            raise ExplanationFailed("out of order")
        cost = float(question.pod.namespace.partition("-")[2] or "0.01")
        self._work(min(cost, LIMITS.seconds))
        self.order.append(question.pod.namespace)
        says = Condition(
            type="Allocatable", status="Unknown", reason="NotDecided", message="long" if cost > 1 else "short"
        )
        return ExplanationResult(
            question.previous if question.previous is not None and question.previous.message == says.message else says,
            cost > 1,
        )

    async def align(self, request: AlignmentRequest) -> AlignmentResult:
        if self.fails:
            raise ExplanationFailed("out of order")
        self._work(0.01)
        return AlignmentResult((0,))

    async def close(self) -> None:
        self.has_view = False
        self.closed += 1

    def _work(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.busy += seconds


class Tenants:
    """Asks for pods as the loop does: at once, and again when it is told to."""

    def __init__(
        self, clock: Clock, examiner: Costly, limits: ExplainLimits = LIMITS, shares: ExplainShares | None = None
    ) -> None:
        self.clock = clock
        self.due: dict[str, float] = {}
        self.conditions: dict[str, Condition] = {}
        self.answered: dict[str, float] = {}
        stores: Any = Stores(InformerStore(), InformerStore(), InformerStore(), InformerStore(), InformerStore())
        more = {} if shares is None else {"shares": shares}
        self.explainer = Explainer(stores, clock.now, clock, self._again, examiner, limits, **more)

    def add(self, *keys: str) -> None:
        for key in keys:
            self.due[key] = self.clock.seconds

    def _again(self, key: str, seconds: float) -> None:
        self.due[key] = self.clock.seconds + seconds

    def _reconcile(self) -> None:
        for key in [key for key, at in self.due.items() if at <= self.clock.seconds]:
            del self.due[key]
            namespace, _, name = key.partition("/")
            condition = self.explainer.condition_for(
                _inputs(namespace, name, self.clock.now()), self.conditions.get(key)
            )
            if condition is not None:
                self.conditions[key] = condition
                self.answered.setdefault(key, self.clock.seconds)
                self.due[key] = self.clock.seconds

    async def run(self, seconds: float) -> None:
        """Until so much time has passed; waiting is done by moving the clock."""
        end = self.clock.seconds + seconds
        task = asyncio.create_task(self.explainer.run())
        while self.clock.seconds < end:
            self._reconcile()
            before = self.clock.seconds
            for _ in range(40):
                await asyncio.sleep(0)
            if self.clock.seconds == before:
                self.clock.seconds += 0.25
        task.cancel()
        await asyncio.wait({task})


def _inputs(namespace: str, name: str, now: datetime) -> Any:
    raw = {
        **POD,
        "metadata": {
            **POD["metadata"],
            "name": name,
            "namespace": namespace,
            "creationTimestamp": "2026-11-21T08:00:00Z",
        },
    }
    vmi = VirtualMachineInstance.from_wire(
        {**BASE["vmi"], "metadata": {**BASE["vmi"]["metadata"], "name": name, "namespace": namespace}}
    )

    class Given:
        pod = Pod.from_wire(raw)
        claims: dict[str, ResourceClaim] = {}
        options = DEFAULTS

    given = Given()
    given.vmi, given.now = vmi, now  # type: ignore[attr-defined]  # what the explainer reads of Inputs, and no more
    return given


@pytest.mark.slow
async def test_a_tenant_with_ten_thousand_pods_delays_others_by_a_few_questions(monkeypatch: Any) -> None:
    async def scenario() -> None:
        clock = Clock()
        examiner = Costly(clock)
        tenants = Tenants(clock, examiner)
        tenants.add(*(f"greedy-5/vm-{n}" for n in range(10_000)))
        await tenants.run(3.0)
        tenants.add("other/vm-0", "third/vm-0")
        asked = len(examiner.order)
        await tenants.run(30)
        assert {"other/vm-0", "third/vm-0"} <= tenants.answered.keys()
        order = examiner.order[asked:]
        assert order.index("other") < 4
        assert order.index("third") < 4
        assert len(tenants.explainer._queue) <= 256

    _with_short_waits(monkeypatch)
    await scenario()


@pytest.mark.slow
async def test_explaining_takes_a_tenth_of_a_core_and_one_tenant_half_of_that(monkeypatch: Any) -> None:
    async def scenario(tenants_of: tuple[str, ...], share: float) -> None:
        clock = Clock()
        examiner = Costly(clock)
        tenants = Tenants(clock, examiner, replace(LIMITS, age=timedelta(hours=9)))
        tenants.add(*(f"{namespace}/vm-{n}" for namespace in tenants_of for n in range(200)))
        await tenants.run(1200)
        assert examiner.busy < 1200 * share + 8
        assert examiner.busy > 1200 * share * 0.5

    _with_short_waits(monkeypatch)
    await scenario(("a-5",), 0.05)
    await scenario(tuple(f"t{n}-5" for n in range(8)), 0.1)


@pytest.mark.slow
async def test_a_pod_that_takes_too_long_is_tried_ever_more_seldom(monkeypatch: Any) -> None:
    async def scenario() -> None:
        clock = Clock()
        examiner = Costly(clock)
        tenants = Tenants(clock, examiner)
        tenants.add("slow-5/vm", "quick/vm")
        await tenants.run(3600)
        counted = Counter(examiner.order)
        assert counted["slow-5"] <= 7, "after 1, 2, 4, 8, 16 … minutes"
        assert counted["quick"] >= 30

    _with_short_waits(monkeypatch)
    await scenario()


async def test_views_are_shared_however_many_ask_and_ended_when_nobody_does(monkeypatch: Any) -> None:
    async def scenario() -> None:
        clock = Clock()
        examiner = Costly(clock)
        tenants = Tenants(clock, examiner)
        tenants.add(*(f"n{n % 20}/vm-{n}" for n in range(100)))
        await tenants.run(10)
        assert len(examiner.order) == 100
        assert examiner.views <= 2

    _with_short_waits(monkeypatch)
    await scenario()


async def test_an_examiner_that_fails_is_asked_again_later_and_ends_nothing(monkeypatch: Any) -> None:
    async def scenario() -> None:
        clock = Clock()
        examiner = Costly(clock, fails=True)
        tenants = Tenants(clock, examiner)
        tenants.add("a/vm")
        await tenants.run(30)
        assert not tenants.answered
        examiner.fails = False
        await tenants.run(120)
        assert "a/vm" in tenants.answered

    _with_short_waits(monkeypatch)
    await scenario()


def _with_short_waits(monkeypatch: Any) -> None:
    """Waiting for a turn lasts as long as the clock of the test doesn't move, which is no time."""

    class Passed:
        def __init__(self, seconds: float) -> None: ...

        async def __aenter__(self) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    monkeypatch.setattr(asyncio, "timeout", Passed)


# --- samples ---


def _sample(
    nodes: int, slices: list[ResourceSlice], limits: ExplainLimits = LIMITS, others: tuple[ResourceClaim, ...] = ()
) -> Sample:
    return sample_of(
        [node(f"n{n:05}") for n in range(nodes)],
        others,
        slices,
        [DeviceClass.from_wire(CLASS)],
        (),
        START,
        limits=limits,
    )


def _shared(name: str, devices: int) -> ResourceSlice:
    raw = slice_of(name, devices).to_wire()
    del raw["spec"]["nodeName"]
    return ResourceSlice.from_wire({**raw, "spec": {**raw["spec"], "allNodes": True}})


def test_a_sample_has_only_what_its_nodes_can_use() -> None:
    taken = (in_use("x", "n00001", "d0"), in_use("y", "n00700", "d0"))
    sample = _sample(
        800, [slice_of(f"n{n:05}", 2) for n in range(800)] + [_shared("fabric", 3)], replace(LIMITS, nodes=10), taken
    )
    assert [node.name for node in sample.nodes] == [f"n{n:05}" for n in range(10)]
    assert sample.total == 800
    assert {slice_.spec.pool.name for slice_ in sample.slices} == {"fabric", *(f"n{n:05}" for n in range(10))}
    allocations = [claim.status.allocation for claim in sample.claims]
    assert [held.devices.results[0].pool for held in allocations if held is not None] == ["n00001"]
    assert sample.left_out == 0


def test_pools_that_are_too_large_are_left_out_and_said_to_be() -> None:
    limits = replace(LIMITS, devices=20, nodes=3)
    sample = _sample(5, [_shared("small", 5), _shared("huge", 120), slice_of("n00000", 2)], limits)
    assert {slice_.spec.pool.name for slice_ in sample.slices} == {"small", "n00000"}
    assert sample.left_out == 120
    claim = ResourceClaim.from_wire(
        {**CLAIM, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": _exactly(30)}]}}}
    )
    view = pending.view_of(sample)
    explanation = explained_within(
        ExplanationRequest(Pod.from_wire(POD), {claim.key: claim}, None, START), view, LIMITS, lambda: False
    )
    assert (explanation.condition.status, explanation.condition.reason) == ("Unknown", "NotDecided")
    assert explanation.condition.message.startswith(
        "120 devices in pools that are too large were not considered; of the others: 0 of "
    )


def test_where_each_node_sees_many_devices_fewer_nodes_are_looked_at() -> None:
    assert len(_sample(100, [_shared("fabric", 5000)]).nodes) == 20
    assert len(_sample(100, [_shared("fabric", 10)]).nodes) == 64


def _exactly(count: int) -> dict[str, Any]:
    return {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": count}


# --- an answer has a limit ---


def test_whoever_takes_too_long_is_told_which_selector_it_was() -> None:
    exactly = {
        **_exactly(1),
        "selectors": [{"cel": {"expression": "true"}}, {"cel": {"expression": HOSTILE["loops in loops"]}}],
    }
    claim = ResourceClaim.from_wire({**CLAIM, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}})
    asked = [0]

    def interrupt() -> bool:
        asked[0] += 1
        return asked[0] > 100

    view = pending.view_of(_sample(1, [slice_of("n00000", 2)]))
    question = ExplanationRequest(Pod.from_wire(POD), {claim.key: claim}, None, START)
    explanation = explained_within(question, view, LIMITS, interrupt)
    assert explanation.too_slow
    assert (explanation.condition.status, explanation.condition.reason) == ("Unknown", "NotDecided")
    assert explanation.condition.message == (
        "claim lab/fedora-gpus-abcde, request gpu, selector #1: evaluating it "
        "took too long (limit: 1 s), so it is not known "
        "why the pod waits. Make the expression cheaper: nested loops, and patterns "
        "that are large or built at run time, cost most. "
        "Attempts are repeated less and less often"
    )
    asked[0] = 0
    again = explained_within(replace(question, previous=explanation.condition), view, LIMITS, interrupt)
    assert again.condition is explanation.condition


# --- alignments ---

PREFERENCE = PreferredAlignment("claim", ("gpu", "nic"), DeviceConstraint(match_attribute="example.com/root"))


def _aligning(uid: str) -> AlignmentRequest:
    return AlignmentRequest(Pod(metadata=ObjectMeta(name="pod", namespace="team", uid=uid)), (), (PREFERENCE,))


@pytest.mark.parametrize(("fails", "result"), [(False, AlignmentResult((0,))), (True, AlignmentResult())])
async def test_a_choice_of_alignments_holds_until_it_is_another_vmi_that_asks(
    fails: bool, result: AlignmentResult
) -> None:
    clock, requeued = Clock(), asyncio.Event()
    stores: Any = Stores(*(InformerStore() for _ in range(5)))
    explainer = Explainer(stores, clock.now, clock, lambda key, seconds: requeued.set(), Costly(clock, fails=fails))
    running = asyncio.create_task(explainer.run())
    for uid in ("first", "second"):
        requeued.clear()
        assert explainer.alignment_for("team/vm", _aligning(uid)) is None
        await asyncio.wait_for(requeued.wait(), 60)
        assert [explainer.alignment_for("team/vm", _aligning(uid)) for _ in range(2)] == [result, result]
    explainer.forget("team/vm")
    assert explainer.alignment_for("team/vm", _aligning("second")) is None
    running.cancel()
    await asyncio.wait([running])


async def test_a_vmi_for_which_the_queue_has_no_room_asks_for_no_alignment() -> None:
    clock, requeued = Clock(), list[str]()
    stores: Any = Stores(*(InformerStore() for _ in range(5)))
    shares = ExplainShares(queued_per_namespace=1)
    explainer = Explainer(
        stores, clock.now, clock, lambda key, seconds: requeued.append(key), Costly(clock), shares=shares
    )
    assert explainer.alignment_for("team/first", _aligning("first")) is None
    assert explainer.alignment_for("team/second", _aligning("second")) is None
    assert requeued == ["team/second"]
    assert explainer.alignment_for("team/second", _aligning("second")) == AlignmentResult()
