"""A machine of the hardware lab that panics: what is quoted of its console, and that its test gets a new one, once. The
machine that panics is real in tests/hardware/test_panic.py."""

from __future__ import annotations

import pytest

from devtools.hardware_lab.machine import ROOT
from devtools.hardware_lab.panics import panic

pytest_plugins = ("pytester",)

CONFTEST = """
import itertools
import pytest
from devtools.hardware_lab.panics import (
    MachinePanicked, pytest_runtest_makereport, pytest_runtest_setup, pytest_runtest_teardown, pytest_terminal_summary,
)

class Machine:
    numbers = itertools.count(1)
    panics_in = set()

    def __init__(self):
        self.number = next(self.numbers)
        print(f"machine {self.number} is on")

    def use(self, name):
        if (self.number, name) in {PANICS}:
            self.has_panicked = True
        if hasattr(self, "has_panicked"):
            raise MachinePanicked(f"Kernel panic - not syncing: {name} on {self.number}")

@pytest.fixture(scope="session")
def machine():
    running = Machine()
    yield running
    with open("ended", "a") as file:
        file.write(f"{running.number}\\n")

@pytest.fixture(scope="module")
def pod(machine):
    machine.use("pod")
    return machine.number
"""
TESTS = """
import pytest
pytestmark = pytest.mark.flaky(reruns=1)

@pytest.fixture
def bound(machine):
    yield
    machine.use("unbinding")

def test_first(machine):
    machine.use("first")

def test_second(machine, pod, bound):
    assert machine.number == pod
    machine.use("second")

def test_third(machine, pod):
    assert machine.number == pod
    machine.use("third")
"""
CALM = "".join(f"[    1.{number:06}] line {number}\n" for number in range(100))
PANIC = "[    3.000000] Kernel panic - not syncing: corrupted stack end detected inside scheduler\n"


def test_what_the_kernel_says_before_and_after_its_panic_is_quoted() -> None:
    after = "".join(f"[    4.{number:06}] call {number}\n" for number in range(100))
    said = panic(CALM + PANIC + after).splitlines()
    assert said == [*CALM.splitlines()[-12:], PANIC.strip(), *after.splitlines()[:47]]
    assert panic(PANIC) == PANIC.strip()
    assert panic(CALM) == ""


@pytest.mark.parametrize(
    ("panics", "outcomes", "said"),
    [
        pytest.param([], {"passed": 3}, [], id="none"),
        pytest.param([(1, "second")], {"passed": 3, "rerun": 2}, ["second on 1"], id="in a test"),
        pytest.param([(1, "pod")], {"passed": 3, "rerun": 1}, ["pod on 1"], id="in a fixture of several tests"),
        pytest.param([(1, "unbinding")], {"passed": 4, "rerun": 1}, ["unbinding on 1"], id="after a test"),
        pytest.param(
            [(1, "first"), (2, "third")], {"passed": 3, "rerun": 2}, ["first on 1", "third on 2"], id="in two tests"
        ),
        pytest.param(
            [(1, "second"), (2, "second")], {"passed": 2, "failed": 1, "errors": 1, "rerun": 2}, ["second on 1"],
            id="twice in a test",
        ),
    ],
)  # fmt: skip
def test_a_test_is_repeated_on_a_new_machine_once(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, panics: list[tuple[int, str]],
    outcomes: dict[str, int], said: list[str],
) -> None:  # fmt: skip
    """Its fixtures that end on the machine which has panicked are reported, too."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST.replace("{PANICS}", repr({*panics})))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.parseoutcomes() == outcomes
    assert (pytester.path / "ended").read_text().split() == [str(number + 1) for number in range(len(panics) + 1)]
    lines = iter(result.outlines)
    quoted = [next(lines) for line in lines if "repeated on a new machine" in line]
    assert sorted(quoted) == [f"Kernel panic - not syncing: {text}" for text in said]
