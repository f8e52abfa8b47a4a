"""On the real kube-scheduler: where it puts a pod, the pod fits by our filters, and what it says of nodes, they and the
scheduler of the embedded cluster say in its words."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.programs import SCHEDULER, require
from devtools.fit.answers import FITS
from devtools.fit.askers import judged_case
from devtools.fit.kube_scheduler import ARGUMENTS, GATES, KubeSchedulerRounds
from devtools.fit.surfaces import by_scheduler
from tests.fit.test_cases import CASES, read_case

pytestmark = [pytest.mark.control_plane, pytest.mark.slow(seconds=90)]

RANDOM_CASES = int(os.environ.get("FIT_ON_KUBE_SCHEDULER", "300"))


@pytest.fixture(scope="module")
def rounds() -> Iterator[KubeSchedulerRounds]:
    require(SCHEDULER)
    with ControlPlane(gates=GATES, arguments=ARGUMENTS) as plane:
        yield KubeSchedulerRounds(plane)


def test_the_judge_agrees(rounds: KubeSchedulerRounds) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(RANDOM_CASES):
        judged = rounds.judged(judged_case(seed))
        if judged is None:
            verdicts["no pod"] += 1
            continue
        judgement = judged.judgement
        if judgement.undecided:
            verdicts["undecided"] += 1
            continue
        verdicts[judgement.verdict] += 1
        embedded = by_scheduler(judged.dump)
        assert embedded is not None
        about = f"seed {seed}:\n{judgement.as_text}\n{judged.ours.as_text}"
        assert judged.contradictions == (), about
        assert embedded.verdict == judgement.verdict, about
        if judgement.verdict != FITS:
            assert (embedded.line, embedded.preemption) == (judgement.line, judgement.preemption), about
    assert verdicts["undecided"] + verdicts["no pod"] < RANDOM_CASES / 5, verdicts
    assert min(verdicts[FITS], verdicts["does not fit"]) > RANDOM_CASES / 10, verdicts


@pytest.mark.parametrize(
    "path",
    [path for path in CASES if "volume" in path.stem and "not-known" not in path.stem],
    ids=lambda path: path.stem,
)
def test_the_judge_agrees_on_volumes(rounds: KubeSchedulerRounds, path: Path) -> None:
    _, case = read_case(path)
    judged = rounds.judged(case)
    assert judged is not None
    embedded = by_scheduler(judged.dump)
    assert embedded is not None
    about = f"{judged.judgement.as_text}\n{judged.ours.as_text}"
    assert (judged.contradictions, embedded.verdict) == ((), judged.judgement.verdict), about
    if judged.judgement.verdict != FITS:
        assert (embedded.line, embedded.preemption) == (judged.judgement.line, judged.judgement.preemption)
