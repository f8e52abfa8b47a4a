"""``python -m devtools.commit_message FILE``: checks a commit's message, as git's hook commit-msg
(.pre-commit-config.yaml).

area: imperative subject of at most 72 characters

The reason. A commit of more than a few lines says why it was made.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SUBJECT = 72
BODY = 72
TRIVIAL = 20
"""Changed lines up to which a subject alone says enough."""
_MADE_BY_GIT = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")
_AREAS = re.compile(r"[a-z][\w./-]*(, [a-z][\w./-]*)*: ")
_NO_VERB = re.compile(r"(?:an?|the|one|no|not|all|each|some|more|this|that|\w+ing|\w+ed|\w*[^us]s)", re.IGNORECASE)
_VERBS = frozenset({"bring", "embed", "exceed", "feed", "need", "proceed", "seed", "speed", "string"})


def faults(message: str, changed: int) -> Iterator[str]:
    """What is wrong with a message; ``changed``: the number of lines that the commit adds and removes."""
    subject, *rest = _lines(message) or [""]
    if _MADE_BY_GIT.match(subject):
        return
    if len(subject) > SUBJECT:
        yield f"the subject has {len(subject)} characters; at most {SUBJECT} are shown everywhere"
    area = _AREAS.match(subject)
    first = subject[area.end() :].partition(" ")[0] if area else ""
    if area is None:
        yield "the subject must begin with an area and a colon: allocator: skip interchangeable devices"
    elif not first or (_NO_VERB.fullmatch(first) and first not in _VERBS):
        yield f"the subject is an imperative (add, skip, name …) and doesn't begin with {first!r}"
    if subject.endswith("."):
        yield "the subject must not end with a period"
    if rest and rest[0]:
        yield "the line below the subject must be empty"
    body = [line for line in rest if line]
    if changed > TRIVIAL and not body:
        yield f"a body says why: this commit changes {changed} lines"
    if any(len(line) > BODY and " " in line.strip() for line in body):
        yield f"lines of the body have at most {BODY} characters"


def _lines(message: str) -> list[str]:
    """The lines that git keeps: without comments and what stands below the scissors."""
    kept = message.partition("# ------------------------ >8")[0].splitlines()
    return "\n".join(line.rstrip() for line in kept if not line.startswith("#")).strip().splitlines()


def _changed() -> int:
    command = ["git", "diff", "--cached", "--numstat"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sum(int(number) for row in rows for number in row.split("\t")[:2] if number != "-")


def main() -> None:
    problems = list(faults(Path(sys.argv[1]).read_text(encoding="utf-8"), _changed()))
    for problem in problems:
        sys.stderr.write(f"commit message: {problem}\n")
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    main()
