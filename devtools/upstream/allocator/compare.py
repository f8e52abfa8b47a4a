"""Ours against the reference over random problems: ``python -m devtools.upstream.allocator.compare N [--seed S]
[--processes P]``."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from devtools.allocator.plain import TooLong
from devtools.upstream.allocator.case import as_case
from devtools.upstream.allocator.decided import decided
from devtools.upstream.allocator.defects import blamed
from devtools.upstream.allocator.ours import ours
from devtools.upstream.allocator.problems import Json, problem
from devtools.upstream.allocator.reference import Reference, built
from devtools.upstream.allocator.shrink import kind, shrink
from virt_dra.allocator import DEFAULT_EFFORT, Effort
from virt_dra.api.quantity import Quantity

BATCH = 500
"""Problems with one source of randomness: batch b of seed s is the same in every run."""
ABORTED = "filter operation aborted: "
REFERENCE_LIMIT = "the reference's time limit"
OUR_LIMIT = "our step limit"
TWO_MINDS = "the reference is of two minds"
_TRIES = 12
"""How often it is asked again."""
_SAMPLE = 200
"""Problems that are asked again without each feature, which shows what the comparison is worth."""
TOO_LONG = "too long for the plain allocator"
"""A difference on a problem that leaves the plain allocator no time to explain it."""
_UNREADABLE = re.compile("^(gather pool information: failed to perform node selection for ).*", re.DOTALL)
"""Of several unreadable selectors the reference names the first slice given, we the first by name; and it prints
devices with pointers."""


def comparable(answer: Json) -> Json:
    """Without empty members, which the two sides write differently, and without what isn't part of the answer."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: strip(member) for key, member in value.items()}
            return {key: member for key, member in kept.items() if member not in ({}, [], "", None)}
        return [strip(item) for item in value] if isinstance(value, list) else value

    results = None if answer["results"] is None else [strip(result) for result in answer["results"]]
    return {
        "results": results,
        "error": _UNREADABLE.sub(r"\1", answer["error"] or "") or None,
        "node_error": answer["node_error"],
    }


def canonical(given: Json, theirs: Json) -> tuple[Json, bool]:
    """AC-22: the reference repeats how some amounts were spelled (``1e0``). The answer with canonical texts, and
    whether that is new."""
    text = json.dumps(given)
    respelled = False
    for device in (device for result in theirs["results"] or () for device in result["devices"].get("results") or ()):
        for name, amount in device.get("consumedCapacity", {}).items():
            right = str(Quantity(amount))
            if right != amount and f'"{amount}"' in text:
                device["consumedCapacity"][name] = right
                respelled = True
    return theirs, respelled


def verdict(answer: Json) -> str:
    if answer["error"] is not None:
        return "node error" if answer["node_error"] else "error"
    return "none" if answer["results"] is None else "allocated"


def answer(given: Json, *, eager: bool = False) -> Json:
    """Ours; a crash is an answer too, and a difference. ``eager``: pruning begins at once, not only in a long
    search."""
    try:
        return ours(given, Effort(patience=0) if eager else DEFAULT_EFFORT)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must be shown with the problem that causes it
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"crash: {type(error).__name__} in {Path(where.filename).name}, {where.name}: {error}"
        return {"results": None, "error": text, "node_error": False}


def explanation(asked: Reference, given: Json, theirs: Json, mine: Json) -> str | None:
    """Why the answers may differ; None if they may not."""
    if (theirs["error"] or "").startswith(ABORTED):
        return REFERENCE_LIMIT
    if (mine["error"] or "").startswith(ABORTED):
        return OUR_LIMIT
    if (mine["error"] or "").startswith("crash: "):
        return None
    try:
        defects = blamed(given, partial(_equal, mine), partial(_equal, theirs))
        if defects is None and _has_a_choice(given, theirs, mine):
            for again in (asked.ask(given) for _ in range(_TRIES)):
                if _equal(again, mine) or blamed(given, partial(_equal, mine), partial(_equal, again)) is not None:
                    return TWO_MINDS
    except TooLong:
        return TOO_LONG
    return None if defects is None else " ".join(defects)


def _has_a_choice(given: Json, theirs: Json, mine: Json) -> bool:
    """Whether the order of a map may decide the reference's answer (A-19.1): of several errors about capacities, or
    which form of a name CEL sees (AC-17)."""
    if any(
        "capacity" in (answer["error"] or "") or (answer["error"] or "").startswith("panic: ")
        for answer in (theirs, mine)
    ):
        return True
    devices = (
        (slice_["spec"]["driver"], device) for slice_ in given["slices"] for device in slice_["spec"].get("devices", ())
    )
    return any(f"{driver}/{name}" in names for driver, device in devices for names in _names(device) for name in names)


def _names(device: Json) -> tuple[Json, Json]:
    return device.get("attributes", {}), device.get("capacity", {})


def _equal(left: Json, other: Json) -> bool:
    return comparable(left) == comparable(other)


@dataclass
class Outcome:
    """How often which verdict and which excuse occurred, and the differences without one."""

    counts: Counter[str] = field(default_factory=Counter)
    unexplained: list[Json] = field(default_factory=list)

    def explain(self, asked: Reference, differing: list[tuple[Json, Json, Json]], *, eager: bool) -> None:
        for given, theirs, mine in differing:
            why = explanation(asked, given, theirs, mine)
            if why is None:
                self.unexplained.append(
                    {"given": given, "theirs": comparable(theirs), "ours": comparable(mine), "eager": eager}
                )
            self.counts[why or "UNEXPLAINED"] += 1

    def merge(self, other: Outcome) -> None:
        self.counts += other.counts
        self.unexplained += other.unexplained

    @property
    def total(self) -> int:
        return sum(self.counts[outcome] for outcome in ("allocated", "none", "error", "node error"))

    @property
    def undecided(self) -> int:
        """Problems that were too hard for one of the allocators."""
        return sum(self.counts[outcome] for outcome in (REFERENCE_LIMIT, OUR_LIMIT, TOO_LONG))


def batch(seed: int, number: int, size: int = BATCH) -> list[Json]:
    source = random.Random(f"{seed}/{number}")
    return [problem(source) for _ in range(size)]


def batches(seed: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Arguments of `batch`."""
    return ((seed, number, min(BATCH, count - number * BATCH)) for number in range(-(-count // BATCH)))


def compare(asked: Reference, problems: list[Json], *, eager: bool = False) -> Outcome:
    outcome = Outcome()
    differing: list[tuple[Json, Json, Json]] = []
    for given, answered in zip(problems, asked.ask_all(problems), strict=True):
        outcome.counts[verdict(answered)] += 1
        theirs, respelled = canonical(given, answered)
        if respelled:
            outcome.counts["AC-22"] += 1
        mine = answer(given, eager=eager)
        if not _equal(theirs, mine):
            differing.append((given, theirs, mine))
    outcome.explain(asked, differing, eager=eager)
    return outcome


def shrunk(asked: Reference, difference: Json) -> Json:
    """The difference as small as it gets, of the same kind and still without excuse."""
    wanted = kind(difference["theirs"], difference["ours"])

    def same(given: Json) -> bool:
        theirs, mine = canonical(given, asked.ask(given))[0], answer(given, eager=difference["eager"])
        if comparable(theirs) == comparable(mine):
            return False
        return kind(comparable(theirs), comparable(mine)) == wanted and explanation(asked, given, theirs, mine) is None

    given = shrink(difference["given"], same)
    mine = comparable(answer(given, eager=difference["eager"]))
    return {"given": given, "theirs": comparable(asked.ask(given)), "ours": mine, "eager": difference["eager"]}


def described(difference: Json) -> str:
    """For people: a case in the reference's favour, and what we answer."""
    mine = f"# ours{' with all pruning at once' if difference['eager'] else ''}: {json.dumps(difference['ours'])}"
    return f"{as_case(difference['given'], difference['theirs'])}{mine}\n"


def _share(binary: Path, seed: int, number: int, size: int) -> Outcome:
    """In a process of its own."""
    with Reference(binary) as asked:
        return compare(asked, batch(seed, number, size), eager=number % 2 == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=5, help="how many kinds of differences to shrink and print")
    options = parser.parse_args()
    print(f"allocator: seed {options.seed}, {options.count} cases", flush=True)  # noqa: T201 - a command's output
    outcome, start, reported = Outcome(), monotonic(), 0
    with built() as binary:
        with ProcessPoolExecutor(options.processes) as pool:
            for done in as_completed(
                [pool.submit(_share, binary, *batch) for batch in batches(options.seed, options.count)]
            ):
                outcome.merge(done.result())
                if outcome.total >= reported + 10_000:
                    reported = outcome.total
                    left = len(outcome.unexplained)
                    print(f"allocator: {reported} cases, {monotonic() - start:.0f} s, {left} unexplained", flush=True)  # noqa: T201
        with Reference(binary) as asked:
            shown: dict[tuple[str, ...], Json] = {}
            for difference in outcome.unexplained:
                shown.setdefault(kind(difference["theirs"], difference["ours"]), difference)
            for difference in list(shown.values())[: options.show]:
                print(described(shrunk(asked, difference)))  # noqa: T201
            print(decided(asked, batch(options.seed, 0, _SAMPLE)).table(), flush=True)  # noqa: T201
    print(f"allocator: seed {options.seed}: {dict(sorted(outcome.counts.items()))}")  # noqa: T201
    print(f"allocator: {len(outcome.unexplained)} unexplained of {outcome.total} in {monotonic() - start:.0f} s")  # noqa: T201
    raise SystemExit(1 if outcome.unexplained else 0)


if __name__ == "__main__":
    main()
