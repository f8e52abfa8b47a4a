"""Names that were meant."""

from __future__ import annotations

import doctest
import random
import time
from difflib import SequenceMatcher, get_close_matches

import pytest

from tests.sampling import sample
from virt_dra.api import nearest as module
from virt_dra.api.nearest import COMPARED, listed, nearest, nearest_first


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("alocationMode", ["allocationMode", "count"], "allocationMode"),
        ("memroy", ["memory", "cpu"], "memory"),
        ("GPU", ["gpu", "gpus"], "gpu"),
        ("gpu_claim", ["net-claim", "gpu-claim"], "gpu-claim"),
        ("gpu", [], None),
        ("", ["gpu"], None),
        ("gpu", ["storage"], None),
        ("x" * 200, ["x" * 199], None),
    ],
)
def test_the_nearest_name(name: str, known: list[str], meant: str | None) -> None:
    assert nearest(name, known) == meant


@pytest.mark.parametrize(
    ("name", "names", "text"),
    [
        ("gpuclaim", ["net", "gpu-claim"], '"gpu-claim", "net"'),
        ("zzz", ["a", "b"], '"a", "b"'),
        ("zzz", list("abcdef"), '"a", "b", "c", "d", "e", …'),
        ("zzz", [], ""),
    ],
)
def test_what_there_is_the_nearest_first(name: str, names: list[str], text: str) -> None:
    assert listed(nearest_first(name, names)) == text


def test_many_long_names_cost_little() -> None:
    names = [f"{n:0100}" for n in range(10 * COMPARED)]
    began = time.process_time()
    nearest("9" * 100, names)
    assert time.process_time() - began < 2, "seconds of the processor"


class CountingMatcher(SequenceMatcher[str]):
    ratios = 0

    def ratio(self) -> float:
        CountingMatcher.ratios += 1
        return super().ratio()


def test_names_of_the_same_letters_are_not_all_compared_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing 16 names of two letters with a thousand of such took 11 s."""
    monkeypatch.setattr("virt_dra.api.nearest.SequenceMatcher", CountingMatcher)
    source = random.Random(1)
    names = ["".join(source.choice("ab") for _ in range(95)) for _ in range(1001)]
    CountingMatcher.ratios = 0
    assert nearest(names[0], names[1:]) in names
    assert CountingMatcher.ratios == 16


@pytest.mark.parametrize("seed", range(sample(20)))
def test_of_few_names_the_nearest_is_difflibs(seed: int) -> None:
    source = random.Random(seed)
    names = ["".join(source.choice("abc-") for _ in range(source.randint(1, 12))) for _ in range(16)]
    for _ in range(50):
        name = "".join(source.choice("abc-") for _ in range(source.randint(1, 12)))
        assert nearest(name, names) == next(iter(get_close_matches(name, names, n=1, cutoff=0.7)), None)
