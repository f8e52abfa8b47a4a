"""Tests that share a cluster stay in one process, and the longest units come first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.distribution import UNITS, longest_first, unit

TESTS = Path(__file__).parent


def test_every_file_that_uses_a_shared_cluster_is_in_its_unit() -> None:
    folders = {
        "tests/e2e": "world", "tests/hardware": "driver: LabNode", "tests/manifests": "cluster: Cluster",
        "tests/node_driver/real_kubelet": ": Node",
    }  # fmt: skip
    assert folders.keys() == UNITS.keys()
    for package, argument in folders.items():
        files = (TESTS.parent / package).glob("test_*.py")
        assert sorted(file.stem for file in files if argument in file.read_text(encoding="utf-8")) == sorted(
            UNITS[package]
        )


def test_a_file_outside_of_a_unit_stands_for_itself() -> None:
    assert unit("tests/e2e/test_dump.py::test_x[a::b]") == "tests/e2e"
    assert unit("tests/cel/test_cost.py::TestX::test_y") == "tests/cel/test_cost.py"


def _test(file: str, name: str, *marks: pytest.MarkDecorator) -> Any:
    by_name = {mark.name: mark.mark for mark in marks}
    return SimpleNamespace(nodeid=f"tests/{file}.py::{name}", get_closest_marker=by_name.get)


def test_the_longest_unit_comes_first_and_its_tests_keep_their_order() -> None:
    minute, slow, plane = pytest.mark.slow(seconds=60), pytest.mark.slow, pytest.mark.control_plane
    long, short = pytest.mark.go(seconds=30), pytest.mark.slow(seconds=0.1)
    items = [
        _test("a", "quick"),
        _test("e2e/test_dump", "2", plane),
        _test("b", "slow", plane, slow),
        _test("e2e/test_admission", "1", plane),
        _test("c", "minute", plane, minute),
        _test("b", "quick"),
        _test("short", "slow", short),
        _test("upstream", "go", long),
    ]
    assert [item.nodeid.removeprefix("tests/") for item in longest_first(items)] == [
        "c.py::minute",
        "upstream.py::go",
        "e2e/test_dump.py::2",
        "e2e/test_admission.py::1",
        "b.py::slow",
        "b.py::quick",
        "short.py::slow",
        "a.py::quick",
    ]
