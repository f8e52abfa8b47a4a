"""A sample of the cluster, taken without yielding."""

from __future__ import annotations

from typing import Any

from virt_dra.controllers.operator.pending import Sample, sampling


def sample_of(*arguments: Any, **options: Any) -> Sample:
    """As :func:`sampling`, without yielding."""
    steps = sampling(*arguments, **options)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            sample: Sample = end.value
            return sample
