"""Everyone who says whether a pod fits gives the answer of the scheduler's filters: over random clusters, of which
``make conformance`` tries many more."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from devtools.fit.answers import DEVICES, DOES_NOT_FIT, FITS, FitAnswer
from devtools.fit.askers import fit_case
from devtools.fit.comparing import compared, contradictions
from devtools.fit.reference import by_filters
from devtools.fit.surfaces import FitSurface
from virt_dra.cli.main import cli

CASES = int(os.environ.get("FIT_CASES", "200"))
_TOGETHER = 10


@pytest.mark.parametrize("first", range(0, CASES, _TOGETHER))
def test_everyone_gives_one_answer(first: int) -> None:
    reports = [report for seed in range(first, first + _TOGETHER) if (report := contradictions(seed))]
    assert reports == [], "\n".join(reports)


def test_the_cases_have_every_answer() -> None:
    answers = [by_filters(fit_case(seed)) for seed in range(120)]
    assert {answer.verdict for answer in answers} == {FITS, DOES_NOT_FIT}
    assert sum(answer.verdict == FITS for answer in answers) > 20
    reasons = Counter(reason for answer in answers for reason in (answer.reasons or {}).values())
    assert reasons.keys() == {
        "NodeUnschedulable",
        "NodeTainted",
        "NodeAffinityMismatch",
        "HostPortTaken",
        "InsufficientResources",
        "TopologySpreadMismatch",
        "PodAffinityMismatch",
        DEVICES,
    }


@pytest.mark.parametrize("seed", [70229, 70312])
def test_ways_out_are_tried_past_a_filter_that_fails(seed: int) -> None:
    """Two questions where a node has a refusal that goes away, and then a request for which its devices can't be
    judged."""
    assert contradictions(seed) == ""


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(70364, id="the scheduler takes an unused claim's devices away, and chooses others later"),
        pytest.param(70399, id="a node's pools are invalid"),
        pytest.param(80153, id="what isn't known matters to another VM alone"),
        pytest.param(80193, id="another claim of the pod has devices elsewhere"),
        pytest.param(80260, id="an alternative's selector fails, and another alternative has devices"),
        pytest.param(80563, id="a node is chosen, and a claim can't be reserved"),
        pytest.param(81038, id="a VM whose pod has ended is over"),
        pytest.param(90433, id="a node ends the attempt after another fitted"),
        pytest.param(90437, id="a node's devices would end the attempt, but pods keep the asker from it"),
    ],
)
def test_everyone_gives_one_answer_where(seed: int) -> None:
    assert contradictions(seed) == ""


def test_whoever_may_say_what_is_not_known_does() -> None:
    said = Counter[str]()
    for seed in (*range(0, 80, 10), 7):  # of the asker of 7 a what-if can say it: it is admitted
        for comparison in compared(fit_case(seed), seed):
            said.update(name for name, answer in comparison.answers.items() if answer.unknown)
    assert said.keys() >= {
        "run", "pytest plugin", "lint", "explain", "diff", "simulate --what-if", "operator's Allocatable",
    }  # fmt: skip


REFERENCE = FitAnswer(DOES_NOT_FIT, frozenset(), reasons={"n1": "NodeTainted"}, line="0/1 nodes are available: …")


@pytest.mark.parametrize(
    ("answer", "differing"),
    [
        (REFERENCE, ()),
        (FitAnswer(DOES_NOT_FIT), ()),
        (FitAnswer(FITS, frozenset({"n1"})), ("verdict", "nodes")),
        (FitAnswer(FITS, chosen="n1"), ("verdict", "chosen")),
        (replace(REFERENCE, unknown=frozenset({"Pods aren't given or readable: …"})), ("unknown",)),
        (replace(REFERENCE, unknown=frozenset()), ()),
        (replace(REFERENCE, reasons={"n1": DEVICES}), ("reasons",)),
        (replace(REFERENCE, line="0/1 nodes can allocate: …"), ("line",)),
        (replace(REFERENCE, line="running \"DynamicResources\" filter plugin: …", undecided=True), ()),
    ],
)  # fmt: skip
def test_a_contradiction_is_seen(answer: FitAnswer, differing: tuple[str, ...]) -> None:
    assert answer.differences(REFERENCE) == differing


def test_a_contradiction_is_reported_with_what_repeats_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    liar = FitSurface("liar", lambda case: FitAnswer(FITS, chosen="nowhere"))
    monkeypatch.setattr("devtools.fit.comparing.SURFACES", (liar,))
    command, filters, contradiction = contradictions(0).splitlines()
    assert command.startswith("seed 0: virt-dra explain ")
    assert filters.split()[:2] == ["scheduler's", "filters"]
    assert contradiction.split() == ["liar", "fits;", "on", "nowhere", "<-", "verdict,chosen"]
    words = command.partition("virt-dra ")[2].split()
    assert CliRunner().invoke(cli, words).exit_code == 1
