"""What is wrong with an experiment's input."""

from __future__ import annotations


class BadExperiment(Exception):
    """The input can't be simulated. ``problems``: each with file, line or field path, what is wrong, and what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
