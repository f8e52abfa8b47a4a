"""Simulates the runs of a sweep on a Dask cluster. The only importer of ``distributed``, an extra: virt-dra[dask]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from distributed import Client, as_completed

from virt_dra.simulator.experiment.sweep import Run, RunResult, Sweep
from virt_dra.simulator.sweeping.running import simulate

_CONNECTING: Final = 20
"""Seconds until a scheduler that doesn't answer is given up."""


def run_on_dask(
    sweep: Sweep, runs: Sequence[Run], address: str, progress: Callable[[int, int], None]
) -> list[RunResult]:
    """The results in the order of the runs; of an interrupted sweep, those that exist so far. ``progress`` gets the
    runs that are done, and all of them. Raises OSError for a scheduler that doesn't answer, BadExperiment."""
    with Client(address, timeout=_CONNECTING, set_as_default=False) as client:  # type: ignore[no-untyped-call]  # distributed has types in part
        shared = client.scatter(sweep, broadcast=True, hash=False)
        futures = [client.submit(simulate, shared, run, pure=False) for run in runs]
        numbers = {future.key: number for number, future in enumerate(futures)}
        by_number: dict[int, RunResult] = {}
        try:
            for done, future in enumerate(as_completed(futures, loop=client.loop), 1):  # type: ignore[no-untyped-call]  # the same
                by_number[numbers[future.key]] = future.result()
                progress(done, len(runs))
        except KeyboardInterrupt:
            client.cancel(futures)
    return [by_number[number] for number in sorted(by_number)]
