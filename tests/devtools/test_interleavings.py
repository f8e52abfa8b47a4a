"""Histories of the control loops under turbulence end as undisturbed ones (C-21; ``make conformance`` plays 20,000)."""

from __future__ import annotations

import pytest

from devtools.interleavings.histories import Finding, compared, quietly
from devtools.interleavings.story import story
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.controllers.loops.claims.knowledge import CreatedClaims
from virt_dra.simulator.control_plane import LOOPS

HISTORIES = 300
AT_ONCE = 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, HISTORIES, AT_ONCE))
def test_histories_end_as_undisturbed_ones(first: int) -> None:
    """C-21, C-10.14, C-20.18: nothing held twice, nothing leaked, no finalizer stuck, and the same end."""
    failures = {seed: findings for seed in range(first, first + AT_ONCE) if (findings := _played(seed))}
    assert failures == {}, "python -m devtools.interleavings 1 --seed SEED plays one again"


def test_a_seed_plays_the_same_history_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _break_the_claim_controller(monkeypatch)
    seed, findings = _first_failing()
    assert _played(seed) == findings
    assert story(seed, groups=True) == story(seed, groups=True)


def test_a_loop_that_forgets_what_it_made_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-10.5.1: without the memory of created claims some are made twice, since watches lag."""
    _break_the_claim_controller(monkeypatch)
    _, findings = _first_failing()
    assert any("was made for Pod" in finding for finding in findings), findings


def test_a_missing_loop_is_found_out() -> None:
    loops = tuple(loop for loop in LOOPS if loop.name != "resource claims")
    assert any(quietly(lambda seed=seed: compared(seed, loops)) for seed in range(10))  # type: ignore[misc]  # bound at once


def _break_the_claim_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgotten(self: CreatedClaims, claim: ResourceClaim) -> None:
        """Nothing."""

    monkeypatch.setattr(CreatedClaims, "add", forgotten)


def _played(seed: int) -> tuple[Finding, ...]:
    return quietly(lambda: compared(seed))


def _first_failing() -> tuple[int, tuple[Finding, ...]]:
    for seed in range(50):
        if findings := _played(seed):
            return seed, findings
    raise AssertionError("none of 50 histories found the fault")
