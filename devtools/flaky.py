"""Runs the tests several times and lists those that failed in some runs: ``make flaky RUNS=3 BUSY=1``. A flaky test is
a defect.

With ``--busy`` a loop keeps each processor occupied during the last run, as a loaded machine does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lxml import etree


@contextmanager
def busy_processors() -> Iterator[None]:
    """One endless loop for each processor."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def failures(report: Path) -> set[str]:
    """The tests that failed, of a report in JUnit's format."""
    cases = etree.parse(str(report)).getroot().iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if {"failure", "error"} & {child.tag for child in case}
    }


def run(number: int, runs: int, busy: bool, arguments: Sequence[str]) -> set[str]:
    """What failed in one run of all tests. A run without a report counts as a failure of its own."""
    with ExitStack() as stack:
        report = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "report.xml"
        if busy:
            stack.enter_context(busy_processors())
        begun = time.monotonic()
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:rerunfailures", f"--junitxml={report}", *arguments],
            check=False,
        )
        failed = failures(report) if report.exists() else {f"pytest ended with {ended.returncode} and without a report"}
        load = " beside busy processors" if busy else ""
        print(f"run {number} of {runs}{load}: {len(failed)} failed, {time.monotonic() - begun:.0f} s", flush=True)  # noqa: T201 - a command's output
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int)
    parser.add_argument("--busy", action="store_true", help="keep the processors busy during the last run")
    options, arguments = parser.parse_known_args()
    failed: dict[str, list[int]] = {}
    for number in range(1, options.runs + 1):
        for name in run(number, options.runs, options.busy and number == options.runs, arguments):
            failed.setdefault(name, []).append(number)
    for name, numbers in sorted(failed.items()):
        print(f"{name}: failed in {len(numbers)} of {options.runs} runs ({', '.join(map(str, numbers))})")  # noqa: T201 - a command's output
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
