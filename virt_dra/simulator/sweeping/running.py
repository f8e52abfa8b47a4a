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

ExperimentOf = Callable[[int, int | None], Experiment]
"""Seed and size -> the experiment of a run. Raises BadExperiment."""


def simulate(sweep: Sweep, run: Run, progress: ArrivalProgress | None = None) -> RunResult:
    """The result of a run. A KeyboardInterrupt in ``progress`` leaves it incomplete. Raises BadExperiment."""
    return _simulated(sweep.experiment(run.seed, run.size), run, progress)


def run_here(
    experiment_of: ExperimentOf, runs: Sequence[Run], progress: Callable[[Run], AbstractContextManager[ArrivalProgress]]
) -> list[RunResult]:
    """The results of runs one after the other, as far as there are some if it is interrupted. Raises BadExperiment."""
    results: list[RunResult] = []
    for run in runs:
        experiment = experiment_of(run.seed, run.size)
        with progress(run) as report:
            results.append(_simulated(experiment, run, report))
        if not results[-1].measures.complete:
            break
    return results


def _simulated(experiment: Experiment, run: Run, progress: ArrivalProgress | None) -> RunResult:
    try:
        with collector.rare_collections():
            simulation = Simulation(experiment, run.policy, seed=run.seed, progress=progress)
            with suppress(KeyboardInterrupt):  # what is measured up to then is the result
                simulation.run()
    except FatalError as error:
        raise BadExperiment(f"the cluster can't be simulated: {error}") from None
    return RunResult(run, simulation.measures(), simulation.stays)
