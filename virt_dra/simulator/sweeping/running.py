"""Simulates a run of a sweep, or one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from virt_dra.allocator import FatalError
from virt_dra.simulator import collector
from virt_dra.simulator.experiment.engine import ArrivalProgress, Simulation
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.sweep import Run, RunResult, Sweep


def simulate(
    sweep: Sweep, run: Run, progress: ArrivalProgress | None = None, experiment: Experiment | None = None
) -> RunResult:
    """The result of a run. A KeyboardInterrupt, which ``progress`` may raise, ends it with incomplete measures.
    ``experiment``: the run's, if it is made already. Raises BadExperiment."""
    experiment = experiment or sweep.experiment(run.seed, run.size)
    try:
        simulation = Simulation(experiment, run.policy, seed=run.seed, progress=progress)
        with collector.rare_collections(), suppress(KeyboardInterrupt):  # what is measured up to then is the result
            simulation.run()
    except FatalError as error:
        raise BadExperiment(f"the cluster can't be simulated: {error}") from None
    return RunResult(run, simulation.measures(), simulation.stays)


def run_here(
    sweep: Sweep, runs: Sequence[Run], progress: Callable[[Run], AbstractContextManager[ArrivalProgress]]
) -> list[RunResult]:
    """The results of runs one after the other; of an interrupted sweep, those that exist so far. ``progress``: of each.
    Raises BadExperiment."""
    results: list[RunResult] = []
    made_for: tuple[int, int | None] | None = None
    experiment: Experiment | None = None
    for run in runs:
        if made_for != (run.seed, run.size):
            made_for, experiment = (run.seed, run.size), sweep.experiment(run.seed, run.size)
        with progress(run) as report:
            results.append(simulate(sweep, run, report, experiment))
        if not results[-1].measures.complete:
            break
    return results
