"""``virt-dra allocate``: allocates devices to claims on nodes, and explains refusals. Input: files, JSON lines, or a
timed workload."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import click

from virt_dra.allocator import Features
from virt_dra.api.core_v1 import Node
from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.go_text import visible
from virt_dra.api.meta import format_time
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.reading.documents import Loaded
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cli.allocate import lines as allocate_lines
from virt_dra.cli.allocate.report import AllocationReportJson, answer_json, table
from virt_dra.cli.allocate.workload import load_workload
from virt_dra.cli.documents.heads import output_document
from virt_dra.cli.jsonl.lines import answer_stream, opened_requests
from virt_dra.cli.shared.cluster_options import ClusterChoice, is_typed
from virt_dra.cli.shared.console import output_console, progress, say, status
from virt_dra.cli.shared.gate_options import gates_epilog, gates_option
from virt_dra.cli.shared.live_input import live_options, live_sourced
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import every_namespace_option, namespace_option, output_option, parse_node
from virt_dra.cli.shared.output import json_text, print_output, refuse
from virt_dra.cluster.files import read_inputs
from virt_dra.simulator import collector
from virt_dra.simulator.allocation import AllocationAnswer, allocate_each
from virt_dra.simulator.allocation_input import (
    AllocationInput,
    InputError,
    allocation_input,
    choose_claims,
    choose_nodes,
)
from virt_dra.simulator.deadline import DEFAULT_TIMEOUT, AllocationDeadline
from virt_dra.simulator.workload import place_workload

HELP = """Allocate devices to ResourceClaims as the scheduler would, and explain what can't be allocated.

FILEs are YAML or JSON manifests, folders of them, or a dump of a cluster (- is standard input): ResourceSlices,
DeviceClasses, ResourceClaims, and optionally Nodes, DeviceTaintRules and ResourceClaimTemplates; other objects are
ignored. The devices of allocated claims are in use. Without --claim all other claims are allocated, one after the
other, each on the first node that fits; if there are only templates, one claim of each. If an object is given several
times, the last one counts, as with kubectl apply: a claim's manifest doesn't change its allocation. With --live the
objects are those of a cluster, beside those of files.

With --jsonl: one problem per line, one answer per line. The problem:

\b
  id               any value; the answer repeats it
  features         {"AdminAccess": true, ...}; a missing feature is off; without this object all are on
  node             the Node to allocate on
  classes, slices  DeviceClasses and ResourceSlices
  allocated        ResourceClaims with status, whose devices are in use
  allocated_state  {"devices", "shared", "capacity"}: lists of {"driver", "pool", "device", "shareID", "consumed"}, also
                   in use
  claims           the ResourceClaims to allocate; nothing is defaulted
  explain          true: the answer has "explanation", the tree of refusals
  validate         true: an object that the API server would refuse is an error, too

The answer: id, results (an AllocationResult per claim, or null), error, node_error (other nodes may still work),
elapsed_us.

With --workload: pods are placed one after the other and timed; the output is one line of figures with a digest of the
choices. The format is in docs/guides/allocator.md. """

EPILOG = """\b
Examples:
  virt-dra allocate -f examples/direct-claim -v
  kubectl get nodes,resourceslices,deviceclasses,resourceclaims -A -o yaml | virt-dra allocate -f - --claim default/gpu
  virt-dra allocate --live -f claim.yaml --claim default/gpu      would this claim find devices in the cluster?
  virt-dra allocate -f examples/direct-claim --claim cad/licensed-gpu --all-nodes -o json
  virt-dra allocate -f examples/direct-claim --feature-gates DRAListTypeAttributes=true,DRADeviceTaintRules=false
  virt-dra allocate -f examples/direct-claim --timeout 0.5       at most half a second for each node
  virt-dra allocate --jsonl < examples/requests/problems.jsonl
  virt-dra allocate --workload examples/requests/workload.json --candidates auto

\b
Exit codes: 0 every claim is allocated, 1 some claim is not (it doesn't fit, or time ran out), 2 bad usage or input.
  --jsonl and --workload: 0, or 2 for unreadable input.
"""
EPILOG += f"\n{gates_epilog()} What each means is in docs/guides/allocator.md.\n"


def _parse_timeout(ctx: click.Context, param: click.Parameter, value: float) -> AllocationDeadline:
    if math.isnan(value) or value < 0:
        raise click.BadParameter(f"{value:g} is no time to wait; give seconds, e.g. 0.5, or 0 for no limit")
    return AllocationDeadline(value or math.inf)


@click.command(name="allocate", help=HELP, epilog=EPILOG)
@click.argument("paths", metavar="[FILE]...", nargs=-1)
@shared("--filename", "filenames", "- is standard input.")
@shared("--claim", "claims", "Or template: only it is placed; several are placed together.", multiple=True)
@shared("--node", detail="Only it is tried.", callback=parse_node)
@click.option("--all-nodes", is_flag=True, help="Try every node, and allocate nothing.")
@shared("--verbose", "explain", "For each node and request why devices were refused.")
@shared("--quiet", detail="Only claims that can't be allocated.")
@live_options
@output_option("text", "json", "yaml")
@namespace_option
@every_namespace_option
@gates_option("As its components take them.")
@shared("--timeout", "deadline", "For a node (--jsonl: a problem, --workload: a pod), like kube-scheduler's; 0: none.",
        type=float, default=DEFAULT_TIMEOUT, show_default=f"{DEFAULT_TIMEOUT:g}", callback=_parse_timeout)  # fmt: skip
@shared("--jsonl", detail="A request is a problem; from FILE or standard input.")
@click.option("--workload", metavar="FILE", help="Place the pods of a workload and measure it.")
@click.option("--candidates", type=click.Choice(["1", "auto"]), default="1", show_default=True,
              help="With --workload: feasible nodes to look for.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context, paths: tuple[str, ...], filenames: tuple[str, ...], claims: tuple[str, ...], node: str | None,
    all_nodes: bool, explain: bool, quiet: bool, live: ClusterChoice | None, output: str, namespace: str,
    feature_gates: FeatureGates | None, deadline: AllocationDeadline, jsonl: bool, workload: str | None,
    candidates: str,
) -> None:  # fmt: skip
    _check_usage(ctx, paths, given_input=bool(paths or filenames or live), jsonl=jsonl, workload=workload)
    if jsonl:
        answer = partial(allocate_lines.answer, deadline=deadline)
        with opened_requests(paths[0] if paths else "-") as requests:
            answer_stream(requests, "AllocationAnswer", answer, allocate_lines.REFUSAL, allocate_lines.MEMBERS)
    elif workload is not None:
        _run_workload(workload, deadline, auto=candidates == "auto")
    elif node is not None and all_nodes:
        raise click.UsageError("--node and --all-nodes exclude each other")
    else:
        gates = feature_gates or PLAIN
        given, groups, nodes = _read((*filenames, *paths), live, claims, node, namespace, gates, output)
        with progress("trying nodes") as report, collector.rare_collections():
            steps = allocate_each(
                given.snapshot(), groups, nodes, Features.from_gates(gates),
                everywhere=all_nodes, explain=explain, progress=report, deadline=deadline,
            )  # fmt: skip
            answers = tuple(steps)
        allocated = all(answer.allocated for answer in answers)
        shown = tuple(answer for answer in answers if not (quiet and answer.allocated))
        _show(shown, output, all_nodes=all_nodes, explain=explain, allocated=allocated)
        sys.exit(0 if allocated else 1)


def _check_usage(
    ctx: click.Context, paths: tuple[str, ...], *, given_input: bool, jsonl: bool, workload: str | None
) -> None:
    given = {name for name in ctx.params if is_typed(name)}
    if jsonl or workload is not None:
        mode = "--jsonl" if jsonl else "--workload"
        for param in ctx.command.params:
            if param.name in given - {"paths", "deadline", "candidates", mode.removeprefix("--")}:
                raise click.UsageError(f"{param.opts[0]} does not go with {mode}")
        if workload is not None and paths:
            raise click.UsageError(f"--workload takes one file; what is {paths[0]!r}?")
        if len(paths) > 1:
            raise click.UsageError("--jsonl reads one file, or standard input")
    elif not given_input:
        raise click.UsageError("name what to read with -f FILE or --live (or use --jsonl or --workload)")
    if "candidates" in given and workload is None:
        raise click.UsageError("--candidates goes with --workload")


def _run_workload(path: str, deadline: AllocationDeadline, *, auto: bool) -> None:
    try:
        with status(f"reading {path}"), collector_paused(), opened_requests(path) as file:
            workload = load_workload(file)
    except (OSError, ValueError) as error:  # BadLine and WireError are ValueErrors
        refuse([f"{path}: {(error.strerror if isinstance(error, OSError) else None) or error}"], "text")
    except RecursionError:
        refuse([f"{path}: the JSON is nested too deeply"], "text")
    with progress("placing pods") as report:
        figures = place_workload(workload, auto=auto, progress=report, deadline=deadline)
    click.echo(json_text(output_document("WorkloadFigures", figures.to_json())))


def _read(
    paths: Sequence[str],
    live: ClusterChoice | None,
    wanted: Sequence[str],
    node: str | None,
    namespace: str,
    gates: FeatureGates,
    output: str,
) -> tuple[AllocationInput, Sequence[tuple[ResourceClaim, ...]], Sequence[Node]]:
    """The input, the claims to allocate and the nodes to try. Ends the command where the input can't be used."""
    with status(f"reading {', '.join([*paths, *(['the cluster'] if live else [])])}"):
        loaded = read_inputs(paths)
        if live:
            of_cluster, _ = live_sourced(live, "allocate", namespace, output)
            loaded = Loaded((*of_cluster, *loaded.objects), loaded.problems)
    try:
        given = allocation_input(loaded, namespace, format_time(datetime.now(UTC)), gates)
        groups, nodes = choose_claims(given, wanted, namespace), choose_nodes(given, node)
    except InputError as error:
        refuse(error.sentences, output)
    for replaced in given.replaced:
        say(str(replaced), err=True)
    return given, groups, nodes


def _show(
    answers: tuple[AllocationAnswer, ...], output: str, *, all_nodes: bool, explain: bool, allocated: bool
) -> None:
    if output != "text":
        members: AllocationReportJson = {"allocated": allocated, "answers": [answer_json(answer) for answer in answers]}
        print_output("AllocationReport", members, output)
        return
    if not answers:
        return
    for line in table(answers, every_node=all_nodes):
        say(visible(line))
    if explain:
        from virt_dra.cli.allocate.trees import refusal_trees

        console = output_console()
        for tree in (tree for answer in answers for tree in refusal_trees(answer)):
            console.print()
            console.print(tree, crop=False)
    elif any(not answer.allocated and answer.error is None for answer in answers):
        say("-v shows what refused each device", err=True)
