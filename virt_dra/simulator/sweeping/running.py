"""One simulation of a sweep."""

from __future__ import annotations

from contextlib import suppress

from virt_dra.allocator import FatalError
from virt_dra.simulator import collector
from virt_dra.simulator.experiment.engine import ArrivalProgress, Simulation
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.sweep import Run, RunResult, Sweep


def simulate(sweep: Sweep, run: Run, progress: ArrivalProgress | None = None) -> RunResult:
    """Ended by a KeyboardInterrupt, which ``progress`` may raise, it gives what is known so far; the measures then
    aren't complete. Raises BadExperiment."""
    experiment = sweep.experiment(run.seed, run.size)
    try:
        simulation = Simulation(experiment, run.policy, seed=run.seed, progress=progress)
        with collector.rare_collections(), suppress(KeyboardInterrupt):  # what is measured up to then is the result
            simulation.run()
    except FatalError as error:
        raise BadExperiment(f"the cluster can't be simulated: {error}") from None
    return RunResult(run, simulation.measures(), simulation.stays)
