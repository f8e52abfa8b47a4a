"""Who contradicts the scheduler about a random case, as a report with everything that repeats it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from devtools.fit.answers import FitAnswer
from devtools.fit.askers import fit_case
from devtools.fit.case import ASKER, NAMESPACE, FitCase
from devtools.fit.reference import by_filters
from devtools.fit.surfaces import SURFACES, FitSurface


@dataclass(frozen=True)
class Compared:
    """All answers to one question. ``reference``: the scheduler's; ``answers``: by surface, without those that say
    nothing of such a case."""

    case: FitCase
    reference: FitAnswer
    answers: Mapping[str, FitAnswer]

    @property
    def contradictions(self) -> dict[str, tuple[str, ...]]:
        """By surface, the parts of its answer that differ."""
        parts = {name: answer.differences(self.reference) for name, answer in self.answers.items()}
        return {name: differing for name, differing in parts.items() if differing}


def compared(case: FitCase, seed: int = 0) -> Iterator[Compared]:
    """The question, once for each part of the cluster that surfaces know."""
    for sees in dict.fromkeys(surface.sees for surface in SURFACES):
        asked = [surface for surface in SURFACES if surface.sees == sees and seed % surface.every == 0]
        if asked:
            yield _compared(sees(case), asked)


def _compared(case: FitCase, surfaces: list[FitSurface]) -> Compared:
    answers = {surface.name: surface.ask(case) for surface in surfaces}
    return Compared(case, by_filters(case), {name: answer for name, answer in answers.items() if answer is not None})


def contradictions(seed: int) -> str:
    """A report of the contradictions about the case of a seed; "" where all agree."""
    reports = [_report(seed, comparison) for comparison in compared(fit_case(seed), seed) if comparison.contradictions]
    return "\n".join(reports)


def _report(seed: int, compared: Compared) -> str:
    path = Path(tempfile.gettempdir()) / f"fit-{seed}.yaml"
    path.write_text(compared.case.as_yaml(), encoding="utf-8")
    kind = compared.case.asker.KIND.lower()
    rows = {"scheduler's filters": compared.reference, **compared.answers}
    width = max(map(len, rows))
    lines = [f"seed {seed}: virt-dra explain {kind} {ASKER} -n {NAMESPACE} -f {path}"]
    for name, answer in rows.items():
        wrong = compared.contradictions.get(name, ())
        lines.append(f"  {name:{width}}  {answer.as_text}{f'   <- {chr(44).join(wrong)}' if wrong else ''}")
    return "\n".join(lines)
