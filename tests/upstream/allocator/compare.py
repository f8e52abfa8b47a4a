"""Ours against the reference over random problems: ``python -m tests.upstream.allocator.compare N [--seed S] [--jobs J]``."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.upstream.allocator.defects import blamed
from tests.upstream.allocator.ours import ours
from tests.upstream.allocator.problems import Json, problem
from tests.upstream.allocator.reference import Reference

_BATCH = 1000
ABORTED = "filter operation aborted: "
_UNREADABLE = re.compile("^(gather pool information: failed to perform node selection for ).*", re.DOTALL)
"""Of several unreadable selectors the reference names the first slice given, we the first by name; and it prints devices with pointers."""


def comparable(answer: Json) -> Json:
    """Without empty members, which the two sides write differently, and without what isn't part of the answer."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: strip(each) for key, each in value.items()}
            return {key: each for key, each in kept.items() if each not in ({}, [], "", None)}
        return [strip(each) for each in value] if isinstance(value, list) else value

    results = None if answer["results"] is None else [strip(each) for each in answer["results"]]
    return {"results": results, "error": _UNREADABLE.sub(r"\1", answer["error"] or "") or None, "node_error": answer["node_error"]}


def verdict(answer: Json) -> str:
    if answer["error"] is not None:
        return "node error" if answer["node_error"] else "error"
    return "none" if answer["results"] is None else "allocated"


def explanation(given: Json, theirs: Json, mine: Json) -> str | None:
    """Why the answers may differ; None if they may not."""
    if (theirs["error"] or "").startswith(ABORTED):
        return "the reference's time limit"
    if (mine["error"] or "").startswith(ABORTED):
        return "our step limit"
    defects = blamed(given, lambda answer: comparable(answer) == comparable(theirs))
    return None if defects is None else " ".join(defects)


@dataclass
class Outcome:
    """Of one run: how often which verdict and which excuse occurred, and the differences without one."""

    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[Json] = field(default_factory=list)

    def add(self, given: Json, theirs: Json, mine: Json) -> None:
        if "unsupported" in mine:
            self.counts[f"not built: {mine['unsupported']}"] += 1
            return
        self.counts[verdict(theirs)] += 1
        if comparable(theirs) == comparable(mine):
            return
        why = explanation(given, theirs, mine)
        if why is None:
            self.unexplained.append({"given": given, "theirs": comparable(theirs), "ours": comparable(mine)})
        self.counts[why or "unexplained"] += 1


def compare(asked: Reference, seed: int, count: int) -> Iterator[Outcome]:
    """Compares ``count`` problems of the seed; yields what was found so far after each thousand and at the end."""
    source = random.Random(seed)
    outcome = Outcome()
    for start in range(0, count, _BATCH):
        problems = [problem(source) for _ in range(min(_BATCH, count - start))]
        for given, theirs in zip(problems, asked.ask_all(problems), strict=True):
            outcome.add(given, theirs, ours(given))
        yield outcome
