"""Random problems of every feature against the plain allocator, with every saving of work and without; and one
allocator for many nodes and pods against a fresh one for each. The Go reference stands behind both
(devtools/upstream/allocator); here nothing else is needed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from unittest.mock import patch

import pytest

from devtools.allocator.plain import TooLong, plain_answer
from devtools.upstream.allocator.compare import comparable
from devtools.upstream.allocator.ours import features, ours, snapshot, wire_answer
from devtools.upstream.allocator.problems import Json, problem
from tests.sampling import sample
from virt_dra.allocator import Allocated, Allocator, Effort
from virt_dra.allocator.features.selectors import SelectorFilter
from virt_dra.allocator.model import Choice, PoolDevice, Request, Upcoming
from virt_dra.allocator.pools import Reachable
from virt_dra.allocator.pruning.lower_bounds import LowerBounds
from virt_dra.allocator.pruning.nogoods import Nogoods
from virt_dra.allocator.pruning.pruner import SearchPruner
from virt_dra.allocator.reuse.pod_classes import PodClass
from virt_dra.allocator.search import Search
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import ResourceClaim

SEED = 4711


def _problems(count: int, seed: int = SEED) -> Iterator[Json]:
    source = random.Random(seed)
    return (problem(source) for _ in range(sample(count)))


def _nothing(owner: object, *about: object) -> None:
    return None


def _no(owner: object, *about: object) -> bool:
    return False


def _all_devices(filter_: SelectorFilter, request: Request, reachable: Reachable) -> Sequence[PoolDevice]:
    return reachable.devices


def _keep_nothing(pod_class: PodClass, key: object, solution: object) -> None: ...


SAVINGS: Mapping[str, tuple[type, str, Callable[..., object]]] = {
    "nogoods": (Nogoods, "recorded", _nothing),
    "lower bounds": (LowerBounds, "refutes", _no),
    "bounds of features": (SearchPruner, "violates_bound", _no),
    "backjumping": (SearchPruner, "prunes_siblings", _no),
    "symmetry breaking": (SearchPruner, "symmetry", _nothing),
    "all pruning": (SearchPruner, "failed", _nothing),
    "candidates that selectors refuse": (SelectorFilter, "candidates", _all_devices),
    "outcomes kept by classes of pods and nodes": (PodClass, "remember", _keep_nothing),
}
"""Work that is saved, and how to do it after all."""
EAGER = Effort(patience=0, look_ahead=0)


@contextmanager
def _without(*savings: str) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, instead in (SAVINGS[saving] for saving in savings):
            stack.enter_context(patch.object(owner, name, instead))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0, 64])
def test_the_rules_taken_plainly_give_the_same_answers(patience: int) -> None:
    compared = 0
    for given in _problems(250, seed=SEED + patience):
        try:
            want = comparable(plain_answer(given, step_limit=20_000))
        except TooLong:
            continue
        assert comparable(ours(given, Effort(patience=patience, look_ahead=patience))) == want, json.dumps(given)
        compared += 1
    assert compared > 230


@pytest.mark.parametrize(
    "savings", [(saving,) for saving in SAVINGS] + [tuple(SAVINGS)], ids=lambda names: " + ".join(names)[:40]
)
def test_no_saving_changes_an_answer(savings: tuple[str, ...]) -> None:
    for given in _problems(100, seed=hash_of(savings)):
        with _without(*savings):
            want = ours(given, EAGER)
        if (want["error"] or "").startswith("filter operation aborted: "):
            continue  # what the saving is for
        assert ours(given, EAGER) == want, json.dumps(given)


def hash_of(names: tuple[str, ...]) -> int:
    """The same in every run."""
    return sum(map(ord, "".join(names)))


class Traceless(Search):
    """After a failure everything is as before; a solution can be taken back exactly."""

    def run(self) -> bool:
        before = self._states()
        solved = super().run()
        if not solved:
            assert not any(self.chosen)
            assert self.selected == {}
            assert self._states() == before
            return solved
        choices: list[Choice] = [choice for level in self.chosen for choice in level]
        for choice in reversed(choices):
            self.unplace(choice.request, choice.device)
        assert self._states() == before
        for choice in choices:
            assert self.place(choice.request, choice.device) is None
        return solved

    def _states(self) -> list[Hashable]:
        requests = tuple(slots.request for _, plan, _ in self.problem.entries for slots in plan.alternatives)
        upcoming = Upcoming(requests, _itself)
        return [check.state(upcoming) for checks in self.problem.checks for check in checks]


def _itself(device: PoolDevice) -> PoolDevice:
    return device


def test_failures_leave_no_trace_and_solutions_can_be_taken_back() -> None:
    with patch("virt_dra.allocator.attempt.Search", Traceless):
        for given in _problems(300, seed=SEED + 1):
            ours(given, EAGER)


NODES = ("n1", "n2", "n3", "n4")


def _cluster(given: Json) -> Json:
    """What n1 has, on every node: the devices of local slices in pools of their own, some of them with a difference."""
    given = deepcopy(given)
    local = [slice_ for slice_ in given["slices"] if slice_["spec"].get("nodeName") == "n1"]
    for number, node in enumerate(NODES[1:]):
        for slice_ in deepcopy(local):
            slice_["metadata"]["name"] += f"-{node}"
            slice_["spec"]["nodeName"] = node
            slice_["spec"]["pool"]["name"] += f"-{node}"
            devices = slice_["spec"].get("devices", [])
            if number == 2 and devices:
                devices.pop()
            given["slices"].append(slice_)
    return given


def _node(given: Json, name: str) -> Json:
    return {**given["node"], "metadata": {**given["node"]["metadata"], "name": name}}


def _pod(given: Json, number: int) -> Json:
    """The same claims under other names."""
    claims = [
        claim | {"metadata": claim["metadata"] | {"name": f"pod{number}-{claim['metadata']['name']}"}}
        for claim in given["claims"]
    ]
    return given | {"claims": claims}


@pytest.mark.slow
def test_what_is_remembered_for_many_nodes_and_pods_is_what_a_fresh_allocator_finds() -> None:
    placed = 0
    for given in map(_cluster, _problems(60, seed=SEED + 2)):
        shared = snapshot(given)
        for number in range(3):
            pod = _pod(given, number)
            allocator = Allocator(shared, [ResourceClaim.from_wire(claim) for claim in pod["claims"]], features(pod))
            for name in NODES:
                asked = pod | {"node": _node(pod, name)}
                node = Node.from_wire(asked["node"])
                got = wire_answer(partial(allocator.allocate, node, explain=False))
                assert got == ours(asked), json.dumps(asked)
                if got["results"]:
                    outcome = allocator.allocate(node, explain=False)
                    assert isinstance(outcome, Allocated)
                    shared = shared.with_allocation(*outcome.results)
                    status = [{"allocation": result.to_wire()} for result in outcome.results]
                    given["allocated"] += [
                        {**claim, "status": state} for claim, state in zip(pod["claims"], status, strict=True)
                    ]
                    placed += 1
                    break
    assert placed > 30
