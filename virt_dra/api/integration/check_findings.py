"""What examinations of a cluster or a node find: one line each, with what to do about it. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

Level = Literal["ok", "info", "warning", "error"]
OK: Final = "ok"
INFO: Final = "info"
WARNING: Final = "warning"
ERROR: Final = "error"


class CheckFindingJson(TypedDict):
    """What a check says."""

    id: str
    """Of the check."""
    level: Level
    where: str
    """The object or component."""
    message: str
    advice: NotRequired[str]
    """The remedy."""


@dataclass(frozen=True)
class CheckFinding:
    """A finding of a check. ``id``: of the check. ``where``: the object or component. ``advice``: if any."""

    id: str
    level: Level
    where: str
    message: str
    advice: str = ""

    def to_wire(self) -> CheckFindingJson:
        wire: CheckFindingJson = {"id": self.id, "level": self.level, "where": self.where, "message": self.message}
        if self.advice:
            wire["advice"] = self.advice
        return wire


@dataclass(frozen=True)
class CheckSubject:
    """The object or component that a check reports on; makes the check's findings about it."""

    check: str
    where: str

    def ok(self, message: str) -> CheckFinding:
        return CheckFinding(self.check, OK, self.where, message)

    def info(self, message: str, advice: str) -> CheckFinding:
        return CheckFinding(self.check, INFO, self.where, message, advice)

    def warning(self, message: str, advice: str) -> CheckFinding:
        return CheckFinding(self.check, WARNING, self.where, message, advice)

    def error(self, message: str, advice: str) -> CheckFinding:
        return CheckFinding(self.check, ERROR, self.where, message, advice)


def exit_code(findings: Sequence[CheckFinding]) -> int:
    """0: neither warnings nor errors, 1: warnings, 2: errors."""
    levels = {finding.level for finding in findings}
    return 2 if ERROR in levels else 1 if WARNING in levels else 0
