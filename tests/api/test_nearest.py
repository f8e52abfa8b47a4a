"""Names that were meant."""

from __future__ import annotations

import doctest
import time

import pytest

from virt_dra.api import nearest as module
from virt_dra.api.nearest import COMPARED, instead, nearest


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
    ("name", "known", "text"),
    [
        ("gpuclaim", ["gpu-claim"], 'did you mean "gpu-claim"?'),
        ("zzz", ["a", "b"], 'it has "a", "b"'),
        ("zzz", list("abcdef"), 'it has "a", "b", "c", "d", "e", …'),
        ("zzz", [], ""),
    ],
)
def test_what_to_write_instead(name: str, known: list[str], text: str) -> None:
    assert instead(name, known) == text


def test_many_long_names_cost_little() -> None:
    known = [f"{n:0100}" for n in range(10 * COMPARED)]
    began = time.process_time()
    nearest("9" * 100, known)
    assert time.process_time() - began < 2, "seconds of the processor"
