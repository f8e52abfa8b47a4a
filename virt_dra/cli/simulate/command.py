"""``virt-dra simulate``: what a placement policy would do to a cluster and its VMs; and what would happen if."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import click

from virt_dra.api.reading.collector import collector_paused
from virt_dra.cli.shared.console import output_console, progress, say, say_unknown, status
from virt_dra.cli.shared.endings import INTERRUPTED
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import file_inputs, output_option, parsed_by
from virt_dra.cli.shared.output import print_output, refuse, write_output
from virt_dra.cli.shared.policy_options import known_policies
from virt_dra.cli.shared.suggestions import suggesting
from virt_dra.cli.simulate import inputs
from virt_dra.cli.simulate.comparison import Comparison, compared, conclusion
from virt_dra.cli.simulate.report import (
    answers_document,
    broken_claims,
    by_kind,
    by_model,
    document,
    of_stopped_vms,
    over_load,
    placements_text,
    samples_csv,
    summary,
)
from virt_dra.scheduling.policies.catalog import POLICIES, RATED
from virt_dra.simulator.experiment.description import without_keeping
from virt_dra.simulator.experiment.durations import seconds_of
from virt_dra.simulator.experiment.sweep import (
    Run,
    RunAll,
    RunResult,
    SizeRange,
    Sweep,
    SweptWorkload,
    Target,
    fewest_nodes,
    parse_sizes,
    parse_target,
    runs_of,
    sentence,
)
from virt_dra.simulator.experiment.what_if import FORMS
from virt_dra.simulator.sweeping.running import ExperimentOf, run_here

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
Several seeds (--seeds 1..5) and sizes (--size NODES=4..12) are simulated in parallel processes, or on a Dask cluster.
With --target, the answer is the fewest nodes that reach it, by bisection.

The same input and seed give the same result, wherever it is computed. Ctrl-C prints what is known so far.

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
  virt-dra simulate examples/simulation/fleet.yaml --seeds 1..3 --warm-up 2h --by kind,model
  virt-dra simulate examples/simulation/fleet.yaml --policy pack --size gpu=36..44 --target 'p95 wait < 10m'
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


_MOST_SEEDS = 1000


def parse_seeds(text: str) -> tuple[int, ...]:
    """``7``, ``1,2,5`` or ``1..5``. Raises ValueError."""
    seeds: dict[int, None] = {}
    for item in text.split(","):
        matched = re.fullmatch(r"\s*(\d{1,19})\s*(?:\.\.\s*(\d{1,19})\s*)?", item)
        if matched is None:
            raise ValueError(f"{text!r} is no seed; write whole numbers such as 7, 1,2,5 or 1..5")
        low, high = int(matched[1]), int(matched[2] or matched[1])
        if high < low or high > 2**63 or len(seeds) + high - low >= _MOST_SEEDS:
            raise ValueError(f"{text!r}: must be 1 to {_MOST_SEEDS} seeds of at most 2^63, the smallest first")
        seeds.update(dict.fromkeys(range(low, high + 1)))
    return tuple(seeds)


def _parse_scheduler(text: str) -> str:
    if re.fullmatch(r"(tcp|tls|ws|wss)://\S+:\d{1,5}", text) is None:
        raise ValueError(f"{text!r} is no address of a Dask scheduler; write such as tcp://host:8786")
    return text


_FILE = click.Path(dir_okay=False, path_type=Path)
_TABLES = {"kind": ("By kind of VM", by_kind), "model": ("By model of device", by_model)}


def _parse_tables(text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in _TABLES:
            raise ValueError(f"{name!r} is neither kind nor model")
    return tuple(dict.fromkeys(names))


@click.command(name="simulate", help=HELP, epilog=EPILOG)
@file_inputs("Clusters, workloads and descriptions; - is standard input.", "FILE")
@shared("--policy", "policies", f"Those to compare.  [default: the description's, else {', '.join(_DEFAULT)}]",
        metavar="NAME,...", multiple=True, callback=_policies, shell_complete=suggesting(POLICIES))  # fmt: skip
@click.option(
    "--until", metavar="DURATION", callback=parsed_by(seconds_of),
    help="Stop then, e.g. 12h.  [default: the description's, else when the last VM has arrived]",
)  # fmt: skip
@click.option(
    "--warm-up", metavar="DURATION", callback=parsed_by(seconds_of),
    help="Measure from then on, when the cluster has filled.",
)  # fmt: skip
@shared("--seed", detail="[default: the description's, else 0]", type=click.IntRange(0, 2**63))
@click.option(
    "--seeds", metavar="SEED,...", callback=parsed_by(parse_seeds),
    help="Several seeds, e.g. 1..5, whose ranges are shown.",
)  # fmt: skip
@click.option(
    "--size", "sizes", metavar="NODES=RANGE", callback=parsed_by(parse_sizes),
    help="Vary a number of nodes: of a part of the description, or of copies of the Node in a file; e.g. gpu=4..12.",
)  # fmt: skip
@click.option(
    "--target", metavar="MEASURE<VALUE", callback=parsed_by(parse_target),
    help="With --size: find the fewest nodes that reach this with every seed, e.g. 'p95 wait < 10m'.",
)  # fmt: skip
@click.option("--trace-nodes", metavar="CSV", help="Nodes of a trace.")
@click.option("--trace-pods", metavar="CSV", help="Tasks of a trace.")
@click.option("--inflate", metavar="until-full|LOAD", callback=parsed_by(inputs.parse_inflation),
              help="With a trace: draw tasks until this load.")  # fmt: skip
@click.option("--what-if", "changes", metavar="CHANGE", cls=RepeatableOption,
              help="On a dump: apply this, and say what it does to the pods.")  # fmt: skip
@click.option("--nodes-only", is_flag=True,
              help="Policies choose nodes alone, as virt-dra extender does; "
"kube-scheduler takes the first devices.")  # fmt: skip
@click.option("--whole-per-cent", is_flag=True,
              help="Policies that rate nodes do it in whole per cent, and one of the best is drawn, "
              "as with plugins of kube-scheduler.")  # fmt: skip
@click.option("--without-keeping", is_flag=True,
              help="VMs give up their devices when they stop, whatever the description says.")  # fmt: skip
@click.option("--by", "tables", metavar="kind|model,...", callback=parsed_by(_parse_tables),
              help="Also show waits and use by kind of VM, or model of device.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 1024),
              help="Processes.  [default: as many as processors, for long simulations]")  # fmt: skip
@click.option(
    "--dask", metavar="ADDRESS", callback=parsed_by(_parse_scheduler),
    help="Simulate on the Dask cluster with this scheduler, e.g. tcp://host:8786.",
)  # fmt: skip
@output_option("text", "json", "yaml", "csv", "html")
@click.option("--plot", metavar="FILE", type=_FILE, help="Also write the plots: .svg or .png.")
@click.option("--placements", metavar="FILE", type=_FILE,
              help="Also write where each VM ran, from when to when: .csv or .jsonl.")  # fmt: skip
def command(
    paths: tuple[str, ...], policies: tuple[str, ...], until: float | None, warm_up: float | None,
    seed: int | None, seeds: tuple[int, ...] | None, sizes: SizeRange | None, target: Target | None,
    trace_nodes: str | None, trace_pods: str | None, inflate: float | None, changes: tuple[str, ...],
    nodes_only: bool, whole_per_cent: bool, without_keeping: bool,
    tables: tuple[str, ...] | None, jobs: int | None, dask: str | None, output: str, plot: Path | None,
    placements: Path | None,
) -> None:  # fmt: skip
    if seed is not None:
        if seeds is not None:
            raise click.UsageError("--seed and --seeds exclude each other")
        seeds = (seed,)
    if changes:
        others = (until, warm_up, sizes, target, trace_nodes, trace_pods, inflate, plot, placements, tables, jobs, dask)
        _check_what_if(paths, policies, output, seeds, others=(*others, nodes_only or None, whole_per_cent or None))
        with status("reading"), collector_paused():
            from virt_dra.cli.simulate.prospects import answer  # here, since it needs the launcher and the webhooks

        answer(paths, changes, policies[0] if policies else _DEFAULT[0], seeds[0] if seeds else 0, output)
        return
    _check_sweep(sizes, target, inflate, warm_up, output, plot or placements)
    _check_file(plot, "--plot", (".svg", ".png"))
    _check_file(placements, "--placements", (".csv", ".jsonl"))
    draw = _plots(plot)
    with status("reading"), collector_paused():
        asked = _read(
            paths, policies, seeds, sizes, trace_nodes, trace_pods, inflate, output, keeping=not without_keeping
        )
        sweep = Sweep(asked.workload, until, nodes_only, whole_per_cent, warm_up or 0.0, placements is not None)
        if whole_per_cent:
            _check_rated(asked.policies)
        with inputs.refused(output):
            experiment_of = lru_cache(maxsize=1)(sweep.experiment)  # one policy's after the other's are of one seed
            first = experiment_of(asked.seeds[0], None if sizes is None else sizes.sizes[-1])
    if not first.timed and (until is not None or warm_up):
        option = "--until" if until is not None else "--warm-up"
        raise click.UsageError(f"{option} needs times; here VMs arrive one after the other, at none")
    for note in first.notes:
        say(note, err=True)
    if output not in ("json", "yaml"):
        say_unknown(first.unknown)
    engine = _engine(sweep, experiment_of, len(first.arrivals), jobs, dask, output)
    if target is not None and sizes is not None:
        _answer(engine, asked, sizes, target, output)
        return
    runs = list(runs_of(asked.policies, asked.seeds, (None,) if sizes is None else sizes.sizes))
    results = engine(runs)
    if not results:
        raise KeyboardInterrupt
    part = "" if sizes is None else sizes.part
    comparison = Comparison(
        asked.source,
        len(first.nodes),
        first.unit,
        loaded=inflate is not None,
        part=part,
        policies=compared(results),
        unknown=tuple(first.unknown),
    )
    _show(comparison, results, output, tables or ())
    if plot is not None and draw is not None:
        write_output(plot, draw(comparison, plot.suffix[1:]), output)
    if placements is not None:
        write_output(placements, placements_text(results, placements.suffix[1:]).encode(), output)
    if len(results) < len(runs) or not results[-1].measures.complete:
        say("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _check_what_if(
    paths: Sequence[str], policies: Sequence[str], output: str, seeds: Sequence[int] | None, others: Sequence[object]
) -> None:
    wrong = {
        "needs a dump of a cluster": not paths,
        "takes one policy: that of the cluster": len(policies) > 1,
        f"does not go with -o {output}": output in ("csv", "html"),
        "goes with --policy, --seed and -o only": any(option is not None for option in others),
        "takes one seed": seeds is not None and len(seeds) > 1,
    }
    for problem in (problem for problem, there in wrong.items() if there):
        raise click.UsageError(f"--what-if {problem}")


def _check_sweep(
    sizes: SizeRange | None, target: Target | None, inflate: float | None, warm_up: float | None, output: str,
    file: Path | None,
) -> None:  # fmt: skip
    """``file``: one that is written beside the output."""
    if target is not None and sizes is None:
        raise click.UsageError("--target needs --size, which says what is varied")
    if target is not None and (output in ("csv", "html") or file is not None):
        raise click.UsageError("--target goes with -o text, json or yaml, and neither --plot nor --placements")
    if inflate is not None and warm_up:
        raise click.UsageError("--warm-up does not go with --inflate, whose tasks have no times")
    if target is None and sizes is not None and len(sizes.sizes) > _MOST_SIZES:
        raise click.UsageError(f"--size: more than {_MOST_SIZES} sizes are searched, with --target, not shown")


_MOST_SIZES = 200


def _check_rated(policies: Sequence[str]) -> None:
    for policy in policies:
        if policy not in RATED:
            raise click.UsageError(f"--whole-per-cent goes with the policies {', '.join(RATED)}; {policy} doesn't rate")


def _check_file(path: Path | None, option: str, suffixes: tuple[str, str]) -> None:
    """Before anything is simulated."""
    if path is None:
        return
    if path.suffix not in suffixes:
        problem = f"{path.name!r} ends with neither {suffixes[0]} nor {suffixes[1]}"
        raise click.BadParameter(problem, param_hint=f"'{option}'")
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no folder {path.parent}", param_hint=f"'{option}'")


Draw = Callable[[Comparison, str], bytes]
"""What is compared, and svg or png -> a picture."""


def _plots(plot: Path | None) -> Draw | None:
    """Checked before anything is simulated. None: no plots are wanted."""
    if plot is None:
        return None
    with required("plots need matplotlib (-o json, csv and html need nothing)", "plots", "matplotlib", "numpy"):
        from virt_dra.cli.simulate.plots import draw  # here, since its import takes half a second
    return draw


@dataclass(frozen=True)
class _Asked:
    workload: SweptWorkload
    source: str
    policies: tuple[str, ...]
    seeds: tuple[int, ...]


def _read(
    paths: tuple[str, ...], policies: tuple[str, ...], seeds: tuple[int, ...] | None, sizes: SizeRange | None,
    trace_nodes: str | None, trace_pods: str | None, inflate: float | None, output: str, *, keeping: bool,
) -> _Asked:  # fmt: skip
    if trace_nodes is not None or trace_pods is not None:
        if trace_nodes is None or trace_pods is None:
            raise click.UsageError("--trace-nodes and --trace-pods go together")
        if paths:
            raise click.UsageError(f"a trace is the whole input; what is {paths[0]!r}?")
        if sizes is not None:
            raise click.UsageError("--size goes with a description or a dump")
        traced = inputs.traced_workload(trace_nodes, trace_pods, inflate, output)
        return _Asked(traced, Path(trace_pods).name, policies or _DEFAULT, seeds or (0,))
    if inflate is not None:
        raise click.UsageError("--inflate goes with --trace-nodes and --trace-pods")
    if not paths:
        raise click.UsageError("name a description or a dump (or use --trace-nodes and --trace-pods)")
    described = inputs.description_in(paths, output)
    if described is None:
        if not keeping:
            raise click.UsageError("--without-keeping goes with a description, which says what VMs keep")
        dumped = inputs.dumped_workload(paths, sizes, output)
        return _Asked(dumped, ", ".join(Path(path).name for path in paths), policies or _DEFAULT, seeds or (0,))
    description, source = described
    if not keeping:
        description = without_keeping(description)
    workload = inputs.described_workload(description, source, sizes, output)
    chosen = policies or known_policies(description.policies) or _DEFAULT
    return _Asked(workload, Path(source).name, chosen, seeds or (description.seed,))


_LONG = 20_000
"""Arrivals of all runs, from which on they are simulated in several processes: these take a second to start."""


def _engine(
    sweep: Sweep, experiment_of: ExperimentOf, arrivals: int, jobs: int | None, dask: str | None, output: str
) -> RunAll:
    """Simulates the runs on Dask, in processes, or here. ``arrivals``: of a run."""

    def run_all(runs: Sequence[Run]) -> Sequence[RunResult]:
        processes = min(jobs or (os.cpu_count() or 1 if len(runs) * arrivals >= _LONG else 1), len(runs))
        with inputs.refused(output):
            if dask is not None:
                return _run_on_dask(sweep, runs, dask, output)
            if processes > 1:
                from virt_dra.simulator.sweeping.in_processes import run_in_processes  # here, for a quick start

                with progress(f"{len(runs)} runs") as report:
                    return run_in_processes(sweep, runs, processes, report)
            return run_here(experiment_of, runs, lambda run: progress(run.policy))

    return run_all


def _run_on_dask(sweep: Sweep, runs: Sequence[Run], address: str, output: str) -> Sequence[RunResult]:
    with required("--dask needs distributed", "dask", "distributed"):
        from virt_dra.simulator.sweeping.on_dask import run_on_dask
    try:
        with progress("runs") as report:
            return run_on_dask(sweep, runs, address, report)
    except (OSError, ValueError) as error:
        refuse([f"{address}: no Dask scheduler answers: {error}"], output)


def _answer(engine: RunAll, asked: _Asked, sizes: SizeRange, target: Target, output: str) -> None:
    answers = fewest_nodes(engine, asked.policies, asked.seeds, sizes.sizes, target)
    shown = [result.measures for answer in answers for result in (*answer.below, *answer.results)]
    for problem in broken_claims(shown):
        say(problem, err=True)
    if output in ("json", "yaml"):
        print_output("SizeReport", answers_document(answers, sizes, target), output)
        return
    for answer in answers:
        say(sentence(answer, sizes, target))


def _show(comparison: Comparison, results: Sequence[RunResult], output: str, tables: Sequence[str]) -> None:
    for problem in broken_claims(comparison.measures):
        say(problem, err=True)
    if output == "csv":
        click.echo(samples_csv(results), nl=False)
    elif output == "html":
        from virt_dra.cli.simulate.page import page

        click.echo(page(comparison))
    elif output in ("json", "yaml"):
        print_output("Comparison", document(comparison), output)
    else:
        say(f"{comparison.size_text}, {comparison.arrivals} arrivals, {comparison.seeds_text}")
        console = output_console()
        console.print(summary(comparison))
        if comparison.stops:
            say("\nVMs that are stopped and start again")
            console.print(of_stopped_vms(comparison))
        if comparison.loaded:
            say(f"\nBy load: unused {comparison.unit} / fragmented part of all {comparison.unit}")
            console.print(over_load(comparison))
        for name in tables:
            heading, table = _TABLES[name]
            say(f"\n{heading}")
            console.print(table(comparison))
        if conclusion(comparison):
            say(f"\n{conclusion(comparison)}")
