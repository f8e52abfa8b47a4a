"""``virt-dra run``: reads YAML, runs every VM through the hand-overs on an embedded cluster, reports, and writes
objects and XML."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import click

from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import Document, ReadProblem
from virt_dra.cli.run.document_types import ClusterRunJson, SeparateRunsJson
from virt_dra.cli.run.table import outcome_name, outcome_table
from virt_dra.cli.run.tree import notes_of, outcome_tree
from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.console import output_console, say, say_unknown, status
from virt_dra.cli.shared.endings import NO_ROOM, interruptible
from virt_dra.cli.shared.lint_options import problems_json, severity_options, unreadable
from virt_dra.cli.shared.live_input import live_options, live_sourced
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import (
    every_namespace_option,
    file_inputs,
    kubevirt_gates_option,
    kubevirt_option,
    namespace_option,
    output_option,
    parse_node,
)
from virt_dra.cli.shared.output import BAD_INPUT, print_output, refuse
from virt_dra.cluster.duplicates import latest
from virt_dra.cluster.files import Written, read_written, save_folder, write_file
from virt_dra.cluster.memory.embedded import embedded_cluster
from virt_dra.simulator.embedded import Ran, RunSettings
from virt_dra.simulator.preflight import judged_for_run, run_judged
from webhooks.lint import LintResult, LintSettings

EPILOG = """\b
Examples:
  virt-dra run examples/gpu-pci -v                               every step of the way
  virt-dra run examples/gpu-pci examples/nvme-host-device        one cluster with the objects of both
  virt-dra run examples/gpu-pci --out /tmp/out                   also write every object and the XML
  kubectl get resourceslices,deviceclasses,resourceclaimtemplates,nodes -A -o yaml | virt-dra run - examples/cluster
  kubectl get vm,vmi,pods,resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses,nodes,kubevirt \\
    -A -o yaml > dump.yaml
  virt-dra run dump.yaml examples/cluster/vm.yaml                would this one find a device beside those that run?
  virt-dra run --live examples/cluster/vm.yaml                   the same, of the cluster of your kubeconfig
  virt-dra run examples/first-available --node node-1            could it run there?
  virt-dra run examples/virtual-machine --kubevirt-version 1.8.3 -o json \\
    --kubevirt-gates GPUsWithDRA=true,HostDevices=false

\b
Exit codes: 0 all VMs are ready, 1 some VM isn't, 2 bad usage or unreadable input, also of one
object beside VMs that are ready.
"""


SHOWN_TREES = 5
"""VMs that aren't ready whose steps are shown without -v."""


@dataclass(frozen=True)
class _Shown:
    """What of the outcomes is printed as text."""

    output: str
    verbose: bool
    quiet: bool

    @property
    def document(self) -> bool:
        return self.output in ("json", "yaml")


@dataclass(frozen=True)
class _Job:
    """One embedded cluster: the paths of its objects, its title in the output, and the folder for the results."""

    title: str
    paths: tuple[str, ...]
    out: Path | None


def _parse_out(ctx: click.Context, param: click.Parameter, value: str | None) -> Path | None:
    if value == "":
        raise click.BadParameter("no folder named; write . for the current one")
    return Path(value) if value is not None else None


@click.command(name="run", epilog=EPILOG)
@file_inputs("VMs, and a cluster's objects; - is standard input.")
@live_options
@shared("--node", detail="Only it may be chosen.", callback=parse_node)
@shared("--out", detail="A folder for every object and the domain XML.", metavar="DIR",
        type=click.Path(file_okay=False), callback=_parse_out)  # fmt: skip
@output_option("text", "wide", "name", "json", "yaml")
@shared("--verbose", detail="Every step of every VM, also of those that are ready.")
@shared("--quiet", detail="Only what is wrong: VMs that aren't ready.")
@shared("--seed", detail="Of generated names and UIDs.", type=click.IntRange(min=0), default=0)
@kubevirt_option
@kubevirt_gates_option
@namespace_option
@every_namespace_option
@severity_options(LintSettings.for_command)
@click.option("--separate", is_flag=True, help="An embedded cluster for each FILE|DIR instead of one for all.")
def command(
    paths: tuple[str, ...], live: ClusterChoice | None, node: str | None, out: Path | None, output: str, verbose: bool,
    quiet: bool, seed: int, kubevirt: KubeVirtVersion | None, gates: dict[str, bool], namespace: str,
    lint: LintSettings, separate: bool,
) -> None:  # fmt: skip
    """Run every VirtualMachine and VirtualMachineInstance of the input from YAML to a libvirt domain.

    FILEs are YAML or JSON manifests (- is standard input): VMs, their claims and templates, and the cluster's objects
    (DeviceClasses, ResourceSlices, and optionally Nodes, Namespaces, a KubeVirt object). Without Nodes, they are
    derived from the slices.

    With --live the objects are those of a cluster, beside those of files, which replace them. Nothing is written to it.

    VMs that run in a cluster or its dump (a VMI with its launcher pod) are taken over as they are, with their claims
    and devices. Other VMs compete for the remaining devices, stopped ones (runStrategy Halted, Manual) last: for them
    the output shows what starting them would do. If an object is given several times, the last one counts, as with
    kubectl apply, and the output names the places of the others.

    The lint (virt-dra lint) comes first: its findings are shown with each VM, and a VM with a denial isn't ready,
    unless it already runs.

    The output is a row for each VM, and every step of those that aren't ready.
    """
    show = _Shown(output, verbose, quiet)
    if verbose and (quiet or output != "text"):
        raise click.UsageError("-v goes with neither -q nor -o: it is another text")
    if not paths and not live:
        raise click.UsageError("name the FILEs of VMs and of a cluster, or read a cluster with --live")
    if separate and live:
        raise click.UsageError("--separate goes with files alone")
    settings = RunSettings(node=node, namespace=namespace, kubevirt=kubevirt, gates=gates)
    jobs = _jobs(paths, out, live=live is not None, separate=separate)
    read = [(job, *_read(job, live, settings, output)) for job in jobs]
    once = [(job, latest(written.documents, namespace), scoped) for job, written, scoped in read]
    judged = [(job, _lint(job, of.documents, scoped, lint, output), of, scoped) for job, of, scoped in once]
    reports: list[ClusterRunJson] = []
    ready, lost = True, list[ReadProblem]()
    for job, judgement, latest_objects, scoped in judged:
        ran = _run(judgement, scoped, _chance(seed, latest_objects.documents))
        ran = replace(ran, replaced=latest_objects.replaced)
        written = _write(ran, job.out, output) if job.out else {}
        ready = ready and ran.ready
        lost += unreadable(Document(manifest.raw, manifest.source) for manifest in judgement.unreadable)
        if show.document:
            reports.append(_report(job, ran, written))
        else:
            _show(job, ran, written, show)
            if not show.quiet or not ran.ready:
                say_unknown(ran.unknown)
    if show.document:
        runs: SeparateRunsJson = {"clusters": reports}
        print_output("RunReport", runs if separate else reports[0], output)
    for problem in lost:
        say(f"error: {problem}", err=True)
    sys.exit(1 if not ready else BAD_INPUT if lost else 0)


def _jobs(paths: tuple[str, ...], out: Path | None, *, live: bool, separate: bool) -> list[_Job]:
    if not separate:
        return [_Job(", ".join([*paths, *(["cluster"] if live else [])]), paths, out)]
    titles = ["stdin" if path == "-" else Path(path).resolve().name for path in paths]
    folders = [title if titles.count(title) == 1 else f"{number}-{title}" for number, title in enumerate(titles, 1)]
    return [_Job(path, (path,), out / folder if out else None) for path, folder in zip(paths, folders, strict=True)]


def _read(job: _Job, live: ClusterChoice | None, settings: RunSettings, output: str) -> tuple[Written, RunSettings]:
    """The job's objects as they are written, and the settings with what couldn't be read. Unreadable input ends the
    command with every problem, before anything runs."""
    with status(f"reading {job.title}"):
        written = read_written(job.paths)
        if live:
            of_cluster, scope = live_sourced(live, "run", settings.namespace, output)
            unread = scope.unread | scope.partial
            settings = replace(settings, unread=unread, beside_kubevirt=KubeVirt in unread)
            documents = (Document(sourced.object.to_wire(), sourced.source) for sourced in of_cluster)
            written = replace(written, documents=(*documents, *written.documents))
    if written.problems:
        refuse([str(problem) for problem in written.problems], output, problems_json(written.problems))
    return written, settings


def _lint(
    job: _Job, documents: tuple[Document, ...], settings: RunSettings, lint: LintSettings, output: str
) -> LintResult:
    """The verdict of the lint, as in ``virt-dra lint``. Ends the command if no object can be read, or none is a VM."""
    judgement = judged_for_run(documents, settings, lint)
    if not judgement.readable:
        problems = unreadable(documents)
        refuse([str(problem) for problem in problems], output, problems_json(problems))
    if not judgement.subjects:
        refuse([f"{job.title}: no VirtualMachine or VirtualMachineInstance found; name the file that has one"], output)
    return judgement


def _chance(seed: int, documents: tuple[Document, ...]) -> Random:
    """The source of names and UIDs. The input is part of its seed, so that UIDs differ from those in the result of an
    earlier run."""
    digest = hashlib.sha256(repr((seed, [document.raw for document in documents])).encode(errors="surrogateescape"))
    return Random(int.from_bytes(digest.digest()))


def _run(judgement: LintResult, settings: RunSettings, chance: Random) -> Ran:
    ran: list[Ran] = []

    async def drive() -> None:
        ran.append(await run_judged(embedded_cluster(chance), judgement, settings, lambda: datetime.now(UTC)))

    # The task returns None: asyncio.run makes its repr, which takes seconds for a result of thousands of objects.
    with interruptible():
        asyncio.run(drive())
    return ran[0]


def _write(ran: Ran, out: Path, output: str) -> Mapping[str, str]:
    """Write objects and domains; returns the XML path of each VM that has one, by ``namespace/name``.

    Names are safe in paths: a VM has a domain only if the cluster accepted its name as a DNS subdomain.
    """
    paths: dict[str, str] = {}
    try:
        save_folder(ran.objects, out / "objects")
        folder = out / "domains"
        folder.mkdir(exist_ok=True)
        for outcome in ran.outcomes:
            path = folder / f"{outcome.namespace}_{outcome.name}.xml"
            if outcome.domain is None:
                path.unlink(missing_ok=True)  # of an earlier run
                continue
            write_file(path, outcome.domain)
            paths[f"{outcome.namespace}/{outcome.name}"] = str(path)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        advice = "free some space: the result is incomplete" if error.errno in NO_ROOM else "make this one writable"
        refuse([f"cannot write below {out}: {problem}; name another folder with --out, or {advice}"], output)
    return paths


def _report(job: _Job, ran: Ran, written: Mapping[str, str]) -> ClusterRunJson:
    return {
        "input": job.title,
        "ready": ran.ready,
        "kubevirt": str(ran.kubevirt.version),
        "kubevirtAssumed": ran.kubevirt.observed is not None and ran.kubevirt.observed.unreadable,
        "refused": [refused.to_json() for refused in ran.refused],
        "replaced": [replaced.to_json() for replaced in ran.replaced],
        "heldTwice": [device.to_json() for device in ran.held_twice],
        "unknown": [fact.to_json() for fact in ran.unknown],
        "vms": [{**of.to_json(), "xmlPath": written.get(f"{of.namespace}/{of.name}")} for of in ran.outcomes],
    }


def _show(job: _Job, ran: Ran, written: Mapping[str, str], show: _Shown) -> None:
    unready = [outcome for outcome in ran.outcomes if not outcome.ready]
    outcomes = unready if show.quiet else ran.outcomes
    if show.output == "name":
        for outcome in outcomes:
            say(outcome_name(outcome))
        return
    if show.quiet and not outcomes:
        return
    console = output_console()
    console.print(f"{job.title} ({ran.kubevirt})", style="bold")
    for note in notes_of(ran):
        console.print(note, soft_wrap=True)
    if not show.verbose:
        for line in outcome_table(outcomes, wide=show.output == "wide"):
            say(line)
    trees = outcomes if show.verbose else unready[:SHOWN_TREES]
    for outcome in trees:
        console.print(outcome_tree(outcome, written.get(f"{outcome.namespace}/{outcome.name}")), crop=False)
    if len(unready) > len(trees):
        say(f"and {counted(len(unready) - len(trees), 'more VM')} that aren't ready; -v shows every step of all")
    summary = f"{sum(outcome.ready for outcome in ran.outcomes)} of {counted(len(ran.outcomes), 'VM')} ready"
    console.print(f"{summary}; objects and XML are in {job.out}" if job.out else summary)
    console.print()
