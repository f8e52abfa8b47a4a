"""Simulates the runs of a sweep in processes beside this one."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any, Final

from virt_dra.simulator.experiment.engine import ArrivalProgress
from virt_dra.simulator.experiment.sweep import Run, RunResult, Sweep
from virt_dra.simulator.sweeping.running import simulate

_REPORTED_EVERY: Final = 0.2
"""Seconds between two reports of progress."""


def run_in_processes(sweep: Sweep, runs: Sequence[Run], jobs: int, progress: ArrivalProgress) -> list[RunResult]:
    """The results in the order of the runs; of an interrupted sweep, those that exist so far. Raises BadExperiment."""
    context = multiprocessing.get_context("spawn")  # forking a process with threads is unsafe
    counted = context.Array("q", 2 * len(runs), lock=False)
    stopped = context.Event()
    with ProcessPoolExecutor(jobs, context, _begin, (sweep, counted, stopped)) as pool:
        futures = [pool.submit(_simulate, number, run) for number, run in enumerate(runs)]
        try:
            _watch(futures, counted, progress)
        except KeyboardInterrupt:
            stopped.set()
            for future in futures:
                future.cancel()
            wait(futures)
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
        results = [future.result() for future in futures if not future.cancelled()]
    return [result for result in results if result is not None]


def _watch(futures: Sequence[Future[RunResult | None]], counted: Any, progress: ArrivalProgress) -> None:
    """Waits until all runs are done, or one has failed."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=_REPORTED_EVERY)
        for future in done:
            future.result()
        totals = [total for total in counted[1::2] if total]
        if totals:
            progress(sum(counted[::2]), sum(totals) + totals[0] * (len(futures) - len(totals)))


# --- inside the other processes ---------------------------------------------------------------------------------------

_given: tuple[Sweep, Any, Any] | None = None
"""What all runs of this process share: the sweep, arrivals and their total by run, whether to stop."""


def _begin(sweep: Sweep, counted: Any, stopped: Any) -> None:
    global _given  # noqa: PLW0603 - a pool's initializer has no other way to hand something to its tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the first process says when to stop
    _given = sweep, counted, stopped


def _simulate(number: int, run: Run) -> RunResult | None:
    """The result of a run; None if it was stopped before it began."""
    assert _given is not None
    sweep, counted, stopped = _given
    if stopped.is_set():
        return None

    def report(arrived: int, total: int) -> None:
        counted[2 * number : 2 * number + 2] = [arrived, max(total, 1)]
        if stopped.is_set():
            raise KeyboardInterrupt

    return simulate(sweep, run, report)
