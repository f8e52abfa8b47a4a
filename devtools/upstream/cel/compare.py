"""Ours against the reference over random questions: ``python -m devtools.upstream.cel.compare N [--seed S] [--processes
P]``.

A seed's questions are the same whatever the number of processes. Differences are shrunk before they are printed; any
makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from devtools.cel.answers import Answer, Question, answer
from devtools.upstream.cel.differences import VARIES, control, reason
from devtools.upstream.cel.questions import CHUNK, chunk_of
from devtools.upstream.cel.reference import Reference, temporary
from devtools.upstream.cel.shrink import shrunk

_AGAIN = (60, 3000)
"""How often a question is asked again to see whether the reference's answer varies from run to run (spec L-6.1), and
how often if that showed nothing: Go begins a small map's entries with the second in one of eight runs only, and maps
nest."""
_RARELY = 20
"""How many questions of one part are asked that often."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An unexplained one."""

    question: Question
    theirs: Answer
    ours: Answer

    def __str__(self) -> str:
        return json.dumps({**self.question, "reference": self.theirs, "ours": self.ours}, ensure_ascii=False)


@dataclass(slots=True)
class Comparison:
    """What came of some questions: how often which outcome and which documented difference occurred, and the
    unexplained ones."""

    outcomes: Counter[str] = field(default_factory=Counter)
    unexplained: list[Difference] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        self.outcomes += other.outcomes
        self.unexplained += other.unexplained

    def __str__(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self.outcomes.most_common())


def compare(reference: Reference, asked: Sequence[Question]) -> Comparison:
    """Ask both; the reference answers while this process does."""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(reference.ask, asked)
        ours = [answer(question) for question in asked]
        theirs = waiting.result()
    made = Comparison()
    unclear: list[Difference] = []
    controls: list[Question] = []
    for question, their_answer, other in zip(asked, theirs, ours, strict=True):
        made.outcomes.update(_traits(question, their_answer))
        if their_answer != other:
            why = reason(question, their_answer, other)
            if why is None:
                unclear.append(Difference(question, their_answer, other))
                continue
            made.outcomes[why] += 1
            without = control(why, question)
            if without is not None:
                controls.append(without)
    for question, their_answer in zip(controls, reference.ask(controls), strict=True):
        other = answer(question)
        if their_answer != other and reason(question, their_answer, other) is None:
            unclear.append(Difference(question, their_answer, other))
    made.unexplained = [
        difference for difference, steady in zip(unclear, steadily(reference, unclear), strict=True) if steady
    ]
    if len(made.unexplained) < len(unclear):
        made.outcomes[VARIES] += len(unclear) - len(made.unexplained)
    return made


def steadily(reference: Reference, unclear: Sequence[Difference]) -> list[bool]:
    """Whether each difference stays however often the reference is asked."""
    often, very_often = _AGAIN
    steady = [
        not varies(difference, again)
        for difference, again in zip(unclear, _asked_again(reference, unclear, often), strict=True)
    ]
    for number in [number for number, stays in enumerate(steady) if stays][:_RARELY]:
        orders = [replace(unclear[number], question=reordered) for reordered in shuffled(unclear[number].question, 12)]
        again = [answer for answers in _asked_again(reference, orders, very_often // len(orders)) for answer in answers]
        steady[number] = not varies(unclear[number], again)
    return steady


def shuffled(question: Question, times: int) -> Iterator[Question]:
    """The question with its attributes in other orders, as which they may come too: Go goes round a small map in the
    order in which it was filled, beginning anywhere."""
    random_order = random.Random(times)
    device = question.get("device", {})
    for _ in range(times):
        attributes = list(device.get("attributes", {}).items())
        random_order.shuffle(attributes)
        yield {**question, "device": {**device, "attributes": dict(attributes)}} if attributes else question


def _asked_again(reference: Reference, differences: Sequence[Difference], times: int) -> list[list[Answer]]:
    answers = reference.ask([difference.question for difference in differences for _ in range(times)])
    return [answers[start : start + times] for start in range(0, len(answers), times)]


def varies(difference: Difference, again: Sequence[Answer]) -> bool:
    """Whether the reference itself answers now this, now that, and ours is such an answer.

    A cost may also lie between those that were seen: they depend on where in a map a loop ends.
    """
    if all(repeated == difference.theirs for repeated in again):
        return False
    if any(
        repeated == difference.ours or reason(difference.question, repeated, difference.ours) is not None
        for repeated in again
    ):
        return True
    alike = [
        repeated["cost"]
        for repeated in again
        if "cost" in repeated and _without_cost(repeated) == _without_cost(difference.ours)
    ]
    return bool(alike) and min(alike) <= difference.ours.get("cost", -1) <= max(alike)


def _without_cost(answer: Answer) -> Answer:
    return {key: value for key, value in answer.items() if key != "cost"}


def _traits(question: Question, theirs: Answer) -> Iterator[str]:
    """What the question is about and which way it went, to see what was covered."""
    yield "questions"
    kind = "language" if question.get("mode") == "language" else "derived" if question.get("derived") else "selector"
    outcome = next((key for key in ("compile_error", "error") if key in theirs), "result")
    yield f"{kind}: {outcome}"
    if question.get("new"):
        features = question.get("features", {"consumable": True, "list": True})
        yield "new: " + ("+".join(name for name, on in features.items() if on) or "no gate")


def minimal(reference: Reference, difference: Difference) -> Difference:
    """The same difference with as little as possible around it."""

    def differing(candidates: Sequence[Question]) -> Iterator[Difference]:
        for candidate, theirs in zip(candidates, reference.ask(candidates), strict=True):
            ours = answer(candidate)
            if ours != theirs and _kind(theirs, ours) == kind and reason(candidate, theirs, ours) is None:
                yield Difference(candidate, theirs, ours)

    kind = _kind(difference.theirs, difference.ours)
    smallest = shrunk(
        difference.question, lambda candidates: next((smaller.question for smaller in differing(candidates)), None)
    )
    return next(differing([smallest]), difference)


_Kind = tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]


def _kind(theirs: Answer, ours: Answer) -> _Kind:
    """Which members each has, which of them differ, and what only one of them says of the text, whatever the names."""
    differing = frozenset(key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key))
    return frozenset(theirs), frozenset(ours), differing, _said(theirs) ^ _said(ours)


def _said(answer: Answer) -> frozenset[str]:
    lines = [line for line in answer.get("compile_error", "").splitlines() if not line.startswith(" | ")]
    return frozenset(
        re.sub(r"<input>:-?\d+:\d+|'[^']*'", "…", line.removeprefix("compilation failed: ")) for line in lines
    )


def _chunk(seed: int, binary: str, part: tuple[int, int]) -> Comparison:
    number, count = part
    return compare(Reference(binary), list(chunk_of(seed, number, count)))


def run(
    reference: Reference, seed: int, count: int, processes: int, reported: Callable[[Comparison], None] = lambda _: None
) -> Comparison:
    """Compare ``count`` questions of a seed. ``reported`` is called with each part's outcome."""
    parts = [(number, min(CHUNK, count - number * CHUNK)) for number in range(-(-count // CHUNK))]
    total = Comparison()
    done: Iterable[Comparison]
    with ProcessPoolExecutor(processes) as pool:
        done = pool.map(partial(_chunk, seed, reference.binary), parts)
        for part in done:
            total.add(part)
            reported(part)
    return total


def report(reference: Reference, differences: Sequence[Difference], show: int) -> Iterator[str]:
    """The first differences as minimal questions."""
    for difference in differences[:show]:
        yield f"{minimal(reference, difference)}\n    found as {json.dumps(difference.question, ensure_ascii=False)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=20, help="how many differences to print")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)  # noqa: T201 - a command's output
    reference, _folder = temporary()
    shown = 0

    def reported(part: Comparison) -> None:
        nonlocal shown
        for line in report(reference, part.unexplained, options.show - shown):
            shown += 1
            print(line, flush=True)  # noqa: T201

    total = run(reference, options.seed, options.count, options.processes, reported)
    print(f"{total}\n{len(total.unexplained)} unexplained of {options.count}, seed {options.seed}")  # noqa: T201
    raise SystemExit(1 if total.unexplained else 0)


if __name__ == "__main__":
    main()
