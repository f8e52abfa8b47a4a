"""Counters, gauges and histograms, and Prometheus' text format of them.

prometheus_client does that for every other process. It brings a web server and what reads mail: 2 MiB that the node
driver doesn't have (docs/decisions/0022-node-driver.md); tests hold both to the same output.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]


class Metric:
    """The values of one metric, by the values of its labels. One without labels is there from the start.

    ``buckets``: upper limits, rising; for a histogram alone. A counter's ``name`` has no ``_total``."""

    def __init__(
        self, kind: Literal["counter", "gauge", "histogram"], name: str, text: str, labels: Labels = (),
        buckets: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.kind, self.text, self.labels = kind, text, labels
        self.name = f"{name}_total" if kind == "counter" else name
        self._limits = (*buckets, math.inf)
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}
        """For a histogram: the sum of what was observed."""
        self._observed: dict[Labels, list[int]] = {}

    def add(self, *labels: str) -> None:
        """Counts one."""
        self._values[labels] = self._values.get(labels, 0.0) + 1.0

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = float(value)

    def observe(self, value: float, *labels: str) -> None:
        counts = self._observed.setdefault(labels, [0] * len(self._limits))
        counts[bisect_left(self._limits, value)] += 1
        self._values[labels] = self._values.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {_in_a_line(self.text)}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, value in self._values.items():
            labels = tuple(zip(self.labels, values, strict=True))
            if self.kind != "histogram":
                yield f"{self.name}{_shown(labels)} {value}"
                continue
            total = 0
            for limit, count in zip(self._limits, self._observed[values], strict=True):
                total += count
                shown = "+Inf" if limit == math.inf else str(float(limit))
                yield f"{self.name}_bucket{_shown((*labels, ('le', shown)))} {float(total)}"
            yield f"{self.name}_count{_shown(labels)} {float(total)}"
            yield f"{self.name}_sum{_shown(labels)} {value}"


def exposition(metrics: Sequence[Metric]) -> bytes:
    """What a scrape gets."""
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines()).encode()


def _shown(labels: Sequence[tuple[str, str]]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return _in_a_line(value).replace('"', r"\"")


def _in_a_line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
