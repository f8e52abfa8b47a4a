"""Errors of the CEL engine: refused expressions and failed evaluations, in the words that cel-go uses."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ISSUES = 100

NO_SUCH_KEY_ADVICE = (
    "consider using CEL optional chaining (.? followed by orValue()) or "
    "guarding the check with has() for optional fields"
)
"""What Kubernetes adds to `no such key` (L-3.5)."""


class CelError(Exception):
    """Base of all errors of compiling and evaluating expressions."""


@dataclass(frozen=True)
class Issue:
    """A fault in an expression's text; ``offset``: in characters from its start, None if there is no place for it."""

    offset: int | None
    message: str


class CompileError(CelError):
    """The expression is refused. ``issues`` holds every fault found, in the order of the text."""

    def __init__(self, message: str, issues: tuple[Issue, ...] = ()) -> None:
        self.message = message
        self.issues = issues
        super().__init__(message)


class EvaluationError(CelError):
    """The expression failed on one input. Evaluating it again on the same input fails in the same way."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class EvaluationAborted(EvaluationError):
    """The evaluation was stopped; unlike other failures, ``||`` and ``&&`` don't absorb this one."""


class BudgetExceeded(EvaluationAborted):
    """The evaluation exceeded a limit on its work or memory."""


class Interrupted(EvaluationError):
    """The caller's interrupt ended it (L-4.4)."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


class Stopped(Interrupted, EvaluationAborted):
    """The caller's budget is used up, or an interrupted evaluation still takes long. ``||`` does not absorb it."""


class InternalFault(EvaluationAborted):
    """An operation that is an internal error of upstream's evaluator; a selector that needs it selects nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(f"internal error: {message}")


def compile_error(text: str, issues: list[Issue]) -> CompileError:
    """All issues as one error: location, line and caret for each (L-3.7)."""
    ordered = tuple(sorted(issues[:MAX_ISSUES], key=lambda issue: -1 if issue.offset is None else issue.offset))
    described = [_describe(text, issue) for issue in ordered]
    if len(issues) > MAX_ISSUES:
        more = len(issues) - MAX_ISSUES
        described.append(f"{more} more error{'s were' if more > 1 else ' was'} truncated")
    return CompileError("compilation failed: " + "\n".join(described), ordered)


def _describe(text: str, issue: Issue) -> str:
    if issue.offset is None:
        return f"ERROR: <input>:-1:0: {issue.message}"
    if not text:
        return f"ERROR: <input>:1:0: {issue.message}"
    before = text[: issue.offset]
    number = before.count("\n") + 1
    start = before.rfind("\n") + 1
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)].replace("\t", " ")
    column = issue.offset - start
    dots = "".join("." if ord(character) < 128 else "．" for character in line[:column])
    caret = "^" if column >= len(line) or ord(line[column]) < 128 else "＾"
    return f"ERROR: <input>:{number}:{column + 1}: {issue.message}\n | {line}\n | {dots}{caret}"


def enhanced(message: str) -> str:
    """The message as users see it: `no such key` gets Kubernetes' advice (L-3.5)."""
    return f"{message}. {NO_SUCH_KEY_ADVICE}" if "no such key:" in message else message
