"""Searches that explode naively are decided and explained within few steps, at every size (explosions.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.allocator import build
from tests.allocator.explosions import FAMILIES, Problem
from tests.allocator.toy_selectors import Toy
from virt_dra.allocator import DEFAULT, Allocated, Unsatisfiable, allocate

NODE = build.node("n1")
STEPS = 10_000
"""Far below what trying takes; most need some hundreds."""


@pytest.mark.parametrize("n", [16, 64, 128])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_decided_and_explained_within_few_steps(family: Callable[[int], Problem], n: int) -> None:
    problem = family(n)
    features = replace(DEFAULT, **dict.fromkeys(problem.features, True))
    claims = [build.claim(claim) for claim in problem.claims]
    found = allocate(build.snapshot(problem.given, Toy), claims, NODE, features, step_limit=STEPS)
    if problem.first is None:
        assert isinstance(found, Unsatisfiable)
        assert found.explanation is not None
        assert found.explanation.blocking is not None
    else:
        assert isinstance(found, Allocated)
        assert [result.device for result in found.results[0].devices.results] == problem.first
