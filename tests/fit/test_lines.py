"""A VM that asks by a line is judged as the VM that ``virt-dra render-profile`` writes out for it."""

from __future__ import annotations

from collections import Counter

import pytest

from devtools.fit.answers import DOES_NOT_FIT, FITS, FitAnswer
from devtools.fit.case import FitCase
from devtools.fit.lines import lined_case, rendered_case
from devtools.fit.reference import by_filters
from devtools.fit.surfaces import SURFACES
from tests.sampling import sample

CASES = 30
_TOGETHER = 10
_OF_PODS = {"scenario", "operator's Allocatable", "extender's filter"}
"""Surfaces that are asked about a pod, whether it would be admitted or not."""


def answers(case: FitCase, seed: int) -> dict[str, FitAnswer | None]:
    return {surface.name: surface.ask(surface.sees(case)) for surface in SURFACES if seed % surface.every == 0}


@pytest.mark.parametrize("first", range(0, sample(CASES), _TOGETHER))
def test_everyone_judges_a_line_as_what_it_stands_for(first: int) -> None:
    for seed in range(first, first + _TOGETHER):
        lined = lined_case(seed)
        written = rendered_case(lined)
        if written is not None:
            assert answers(lined, seed) == answers(written, seed), f"seed {seed}"
            assert by_filters(lined) == by_filters(written), f"seed {seed}"
            continue
        said = {name for name, answer in answers(lined, seed).items() if answer is not None}
        assert said <= _OF_PODS, f"seed {seed}"  # who judges VMs denies this one for its line


def test_the_cases_have_every_answer() -> None:
    cases = [lined_case(seed) for seed in range(CASES)]
    verdicts = Counter("refused" if rendered_case(case) is None else by_filters(case).verdict for case in cases)
    assert min(verdicts[verdict] for verdict in (FITS, DOES_NOT_FIT, "refused")) > 2
