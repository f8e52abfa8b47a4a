"""``virt-dra simulate``: what a placement policy would do to a cluster and its VMs; and what would happen if."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import click

from virt_dra.allocator import FatalError
from virt_dra.api.reading.collector import collector_paused
from virt_dra.cli.shared.console import output_console, progress, say, say_unknown, status
from virt_dra.cli.shared.endings import INTERRUPTED
from virt_dra.cli.shared.options import output_option, parsed_by
from virt_dra.cli.shared.output import print_document, refuse
from virt_dra.cli.shared.policy_options import known_policies
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cli.simulate import inputs
from virt_dra.cli.simulate.report import broken_claims, document, over_load, samples_csv, summary
from virt_dra.scheduling.policies.catalog import POLICIES
from virt_dra.simulator import collector
from virt_dra.simulator.experiment.durations import seconds_of
from virt_dra.simulator.experiment.engine import Simulation
from virt_dra.simulator.experiment.measures import Measures
from virt_dra.simulator.experiment.model import Experiment
from virt_dra.simulator.experiment.what_if import FORMS

HELP = (
    """Simulate how placement policies treat a cluster and its VMs: waiting, utilisation, fragmentation, evictions.

FILE is a description (kind: Simulation) of a cluster, of VMs that arrive and leave, and of failures; its format is in
docs/guides/simulator.md. Or FILEs are a dump of a cluster (kubectl get
nodes,pods,resourceslices,resourceclaims,deviceclasses -A -o yaml): then its pods are placed anew by each policy, oldest
first.

--trace-nodes and --trace-pods read traces in the CSV columns of the FGD paper (USENIX ATC 2023). With --inflate, tasks
drawn from the trace arrive until they ask for that multiple of the cluster's GPUs (until-full: 1.3), and stay.

With --what-if, changes apply to the dump one after the other, and the answer says which pods are evicted, move, start,
or fit nowhere.

\b
Changes:
"""
    + "".join(f"  {form}\n" for form in FORMS)
    + """
The same input and seed give the same result. Ctrl-C prints what is known so far.

\b
Policies:
"""
    + "".join(f"  {name:<20} {text}\n" for name, text in POLICIES.items())
)

EPILOG = """\b
Examples:
  virt-dra simulate examples/simulation/fleet.yaml
  virt-dra simulate examples/simulation/fleet.yaml --policy pack,spread --until 12h -o json
  virt-dra simulate examples/simulation/fleet.yaml -o html > /tmp/out/report.html
  cd examples/simulation; \\
    virt-dra simulate --trace-nodes trace-nodes.csv --trace-pods trace-tasks.csv --inflate until-full
  kubectl get nodes,pods,resourceslices,resourceclaims,deviceclasses -A -o yaml > dump.yaml; virt-dra simulate dump.yaml
  virt-dra simulate examples/simulation/cluster.yaml --what-if 'drain node-3'
  virt-dra simulate examples/simulation/cluster.yaml \\
    --what-if 'add examples/simulation/vm.yaml x 3' --what-if 'driver gpu.example.com gone'

\b
Exit codes: 0 simulated, 2 bad usage or input, 130 interrupted.
"""


_DEFAULT = ("first-fit", "pack", "spread", "least-fragmentation")


def _policies(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return known_policies([name.strip() for value in values for name in value.split(",") if name.strip()])


@click.command(name="simulate", help=HELP, epilog=EPILOG)
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@click.option(
    "--policy", "policies", metavar="NAME,...", multiple=True, callback=_policies, shell_complete=suggesting(POLICIES),
    help=f"Policies to compare.  [default: the description's, else {', '.join(_DEFAULT)}]",
)  # fmt: skip
@click.option(
    "--until", metavar="DURATION", callback=parsed_by(seconds_of),
    help="Stop then, e.g. 12h.  [default: the description's, else when the last VM has arrived]",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63), help="Of what is drawn.  [default: the description's, else 0]")
@click.option("--trace-nodes", metavar="CSV", help="Nodes of a trace.")
@click.option("--trace-pods", metavar="CSV", help="Tasks of a trace.")
@click.option(
    "--inflate",
    metavar="until-full|LOAD",
    callback=parsed_by(inputs.parse_inflation),
    help="With a trace: draw tasks until this load.",
)
@click.option(
    "--what-if",
    "changes",
    metavar="CHANGE",
    multiple=True,
    help="On a dump: apply this, and say what it does to the pods.",
)
@click.option("--nodes-only", is_flag=True,
              help="Policies choose nodes alone, as virt-dra extender does; "
"kube-scheduler takes the first devices.")  # fmt: skip
@output_option("text", "json", "yaml", "csv", "html")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the plots: .svg or .png.",
)
def command(
    paths: tuple[str, ...], policies: tuple[str, ...], until: float | None, seed: int | None, trace_nodes: str | None,
    trace_pods: str | None, inflate: float | None, changes: tuple[str, ...], nodes_only: bool, output: str,
    plot: Path | None,
) -> None:  # fmt: skip
    if changes:
        _check_what_if(
            paths, policies, output, others=(until, trace_nodes, trace_pods, inflate, plot, nodes_only or None)
        )
        with status("reading"), collector_paused():
            from virt_dra.cli.simulate.prospects import answer  # here, since it needs the launcher and the webhooks

        answer(paths, changes, policies[0] if policies else _DEFAULT[0], seed or 0, output)
        return
    draw = _plots(plot, output)
    with status("reading"), collector_paused():
        experiment, chosen, used_seed = _read(paths, policies, seed, trace_nodes, trace_pods, inflate, output)
    if until is not None:
        if not experiment.timed:
            raise click.UsageError("--until needs times; here VMs arrive one after the other, at none")
        experiment = experiment.ending(until)
    experiment = replace(experiment, nodes_only=nodes_only)
    for note in experiment.notes:
        say(note, err=True)
    if output not in ("json", "yaml"):
        say_unknown(experiment.unknown)
    results, interrupted = _simulated(experiment, chosen, used_seed, output)
    _show(results, experiment, used_seed, output, loaded=inflate is not None, draw=draw)
    if plot is not None and draw is not None:
        plot.write_bytes(draw(results, experiment.unit, plot.suffix[1:]))
    if interrupted:
        say("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _check_what_if(paths: Sequence[str], policies: Sequence[str], output: str, others: Sequence[object]) -> None:
    if not paths:
        raise click.UsageError("--what-if needs a dump of a cluster")
    if len(policies) > 1:
        raise click.UsageError("--what-if takes one policy: that of the cluster")
    if output in ("csv", "html"):
        raise click.UsageError(f"--what-if does not go with -o {output}")
    if any(option is not None for option in others):
        raise click.UsageError("--what-if goes with --policy, --seed and -o only")


Draw = Callable[[Sequence[Measures], str, str], bytes]
"""Results, what cards are called, and svg or png -> a picture."""


def _plots(plot: Path | None, output: str) -> Draw | None:
    """Checked before anything is simulated."""
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise click.BadParameter(f"{plot.name!r} ends with neither .svg nor .png", param_hint="'--plot'")
    if plot is None and output != "html":
        return None
    try:
        from virt_dra.cli.simulate.plots import draw  # here, since its import takes half a second
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise click.UsageError(
            "plots need matplotlib: pip install 'virt-dra[plots]'; -o json and -o csv need nothing"
        ) from None
    return draw


def _read(
    paths: tuple[str, ...], policies: tuple[str, ...], seed: int | None, trace_nodes: str | None,
    trace_pods: str | None, inflate: float | None, output: str,
) -> tuple[Experiment, tuple[str, ...], int]:  # fmt: skip
    if trace_nodes is not None or trace_pods is not None:
        if trace_nodes is None or trace_pods is None:
            raise click.UsageError("--trace-nodes and --trace-pods go together")
        if paths:
            raise click.UsageError(f"a trace is the whole input; what is {paths[0]!r}?")
        return inputs.trace_of(trace_nodes, trace_pods, inflate, seed or 0, output), policies or _DEFAULT, seed or 0
    if inflate is not None:
        raise click.UsageError("--inflate goes with --trace-nodes and --trace-pods")
    if not paths:
        raise click.UsageError("name a description or a dump (or use --trace-nodes and --trace-pods)")
    described = inputs.description_in(paths, output)
    if described is None:
        return inputs.dumped_experiment(paths, output), policies or _DEFAULT, seed or 0
    description, source = described
    used = description.seed if seed is None else seed
    chosen = policies or known_policies(description.policies) or _DEFAULT
    return inputs.experiment_of(description, source, used, output), chosen, used


def _simulated(experiment: Experiment, policies: Sequence[str], seed: int, output: str) -> tuple[list[Measures], bool]:
    """The results of the policies, and whether the user interrupted: then the last is not complete."""
    results: list[Measures] = []
    for policy in policies:
        simulation: Simulation | None = None
        try:
            with progress(policy) as report, collector.rare_collections():
                simulation = Simulation(experiment, policy, seed=seed, progress=report)
                simulation.run()
        except FatalError as error:
            refuse([f"the cluster can't be simulated: {error}"], output)
        except KeyboardInterrupt:
            if simulation is not None:
                results.append(simulation.measures())
            if not results:
                raise
            return results, True
        results.append(simulation.measures())
    return results, False


def _show(
    results: Sequence[Measures], experiment: Experiment, seed: int, output: str, *, loaded: bool, draw: Draw | None
) -> None:
    unit = experiment.unit
    for sentence in broken_claims(results):
        say(sentence, err=True)
    if output == "csv":
        click.echo(samples_csv(results), nl=False)
    elif output == "html" and draw is not None:
        from virt_dra.cli.simulate.page import page

        click.echo(page(results, unit, seed, draw(results, unit, "svg").decode()))
    elif output in ("json", "yaml"):
        print_document(document(results, experiment, seed), output)
    else:
        first = results[0]
        say(f"{len(experiment.nodes)} nodes, {first.cards} {unit}, {len(experiment.arrivals)} arrivals, seed {seed}")
        console = output_console()
        console.print(summary(results, unit))
        if loaded:
            say(f"\nBy load: unused {unit} / fragmented part of all {unit}")
            console.print(over_load(results))
