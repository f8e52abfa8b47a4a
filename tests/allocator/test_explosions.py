"""Searches that explode naively are decided and explained within few steps, at every size (explosions.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from devtools.allocator import build
from tests.allocator.explosions import FAMILIES, Json, Problem
from virt_dra.allocator import DEFAULT, Allocated, Effort, NodeError, Unsatisfiable, allocate

NODE = build.node("n1")
STEPS = 10_000
"""Far below what trying takes; most need some hundreds."""


@pytest.mark.slow(seconds=0.2)
@pytest.mark.parametrize("n", [16, 64, 128])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_decided_and_explained_within_few_steps(family: Callable[[int], Problem], n: int) -> None:
    problem = family(n)
    features = replace(DEFAULT, **dict.fromkeys(problem.features, True))
    claims = [build.claim(claim) for claim in problem.claims]
    outcome = allocate(build.snapshot(problem.given), claims, NODE, features, step_limit=STEPS)
    if problem.first is None:
        assert isinstance(outcome, Unsatisfiable)
        assert outcome.explanation is not None
        assert outcome.explanation.blocking is not None
    else:
        assert isinstance(outcome, Allocated)
        assert [result.device for result in outcome.results[0].devices.results] == problem.first


def test_a_refusal_to_be_reported_is_met_and_reported_soon() -> None:
    """All of a later claim breaks its constraint whatever the first claim takes, and its other requests could pass the
    limit."""
    devices = [{"name": f"d{i}", "attributes": {"role": i // 16, "value": 1}} for i in range(32)]
    everything: Json = {"name": "all", "all": True, "when": ['device.attributes["gpu.example.com"].role == 1']}
    later = {
        "name": "later",
        "requests": [everything, {"name": "more", "first": [{"count": 20}, {"count": 1}]}],
        "constraints": [{"distinct": "gpu.example.com/value", "requests": ["all"]}],
    }
    first = {"name": "first", "requests": [{"count": 8, "when": ['device.attributes["gpu.example.com"].role == 0']}]}
    claims = [build.claim(first), build.claim(later)]
    message = (
        r"^claim ns/later, request all: cannot add device gpu.example.com/pool/d17 "
        r"because a claim constraint would not be satisfied$"
    )
    with pytest.raises(NodeError, match=message):
        allocate(build.snapshot({"slices": [{"node": "n1", "devices": devices}]}), claims, NODE, step_limit=500)


def test_an_alternative_for_all_devices_of_which_one_is_in_use_is_counted() -> None:
    given: Json = {"slices": [{"node": "n1", "devices": ["d0", "d1", "d2"]}], "used": ["gpu.example.com/pool/d1"]}
    first = {"name": "r0", "first": [{"when": ["false"]}, {"all": True}, {"count": 1}]}
    claims = [build.claim({"requests": [first, {"name": "r1"}]})]
    outcome = allocate(build.snapshot(given), claims, NODE, effort=Effort(patience=0, look_ahead=0))
    assert isinstance(outcome, Allocated)
    assert [result.device for result in outcome.results[0].devices.results] == ["d0", "d2"]
