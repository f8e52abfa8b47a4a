"""A kernel that panicked in the emulated machine: its words on the console; and, as hooks of pytest, a new machine for
the test that it ended, which is repeated once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import pytest

_PANIC: Final = "Kernel panic - not syncing"
_LINES_BEFORE, _LINES = 12, 60
"""Whatever made it panic is said before, its registers and calls after."""
_SECTION: Final = "panic of the emulated machine"
_ITS_MACHINE_PANICKED: Final = pytest.StashKey[bool]()


class MachinePanicked(Exception):
    """The emulated machine's kernel panicked; the text is what it said. The driver can't do that: the emulator did."""


def panic(console: str) -> str:
    """What a console says of its kernel's panic, "" without one. Pure."""
    lines = console.splitlines()
    for number, line in enumerate(lines):
        if _PANIC in line:
            begin = max(0, number - _LINES_BEFORE)
            return "\n".join(lines[begin : begin + _LINES])
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, MachinePanicked):
        item.session.stash[_ITS_MACHINE_PANICKED] = True
        report.sections.append((_SECTION, str(call.excinfo.value)))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """For a panic while a test was torn down."""
    _end_fixtures_of_a_panicked_machine(item.session)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Before the plugin that repeats tests puts the fixtures of their packages aside, to keep them."""
    _end_fixtures_of_a_panicked_machine(item.session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which tests were repeated for a panic, and what the kernel said."""
    reports = terminalreporter.getreports("rerun")  # also of a test's fixtures, which end on the same machine
    said = [(report.nodeid, text) for report in reports for title, text in report.sections if title == _SECTION]
    terminalreporter.ensure_newline()
    for test, text in dict(reversed(said)).items():
        terminalreporter.section(f"repeated on a new machine, since the emulated one panicked: {test}")
        terminalreporter.write_line(text)


def _end_fixtures_of_a_panicked_machine(session: pytest.Session) -> None:
    """Ends every fixture, whatever it is shared by, so that the next test begins with new ones. pytest has no public
    way to do so."""
    if session.stash.get(_ITS_MACHINE_PANICKED, False):
        session.stash[_ITS_MACHINE_PANICKED] = False
        session._setupstate.teardown_exact(None)
