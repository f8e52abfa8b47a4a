"""Names that were meant."""

from __future__ import annotations

import doctest
import time

import pytest

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
