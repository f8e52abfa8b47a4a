"""``virt-dra plan``: what a change of manifests would do to a cluster, in one summary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from virt_dra.cli.shared.cluster_options import ClusterChoice
from virt_dra.cli.shared.console import progress, say, status
from virt_dra.cli.shared.live_input import live_objects, live_unless
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import every_namespace_option, file_inputs, namespace_option, output_option
from virt_dra.cli.shared.output import print_document, refuse, refusing
from virt_dra.simulator.collector import frozen_heap

if TYPE_CHECKING:
    from virt_dra.api.meta import TypedObject
    from virt_dra.cli.plan.report import PlanReport
    from virt_dra.model.cluster import ClusterModel

HELP = """Show what a change of manifests would do to a cluster, before it is made.

FILEs are the manifests as they would be applied: VMs, templates, claims, classes, taint rules, slices, nodes. The
cluster is read with --live, or from files (--dump). Nothing is written.

The plan has the objects that would be created, changed or deleted; the VMs that would start (and where), wait (and
why), end, lose a device, or couldn't be started again; and the findings of the lint on the manifests. What waits starts
in order of age, and each takes room and devices from those behind it.

An object counts as changed if the manifest has a field that the cluster's object hasn't like that, or lacks one that
the manifest had when kubectl applied it last. """

EPILOG = """\b
Examples:
  virt-dra plan -f examples/plan/change.yaml --dump examples/explain/cluster.yaml      is anything lost?
  virt-dra plan -f manifests/ --live                                  against the cluster of your kubeconfig
  virt-dra plan -f new.yaml --delete old.yaml --dump dump.yaml     what if one is replaced by the other?
  virt-dra plan -f manifests/ --dump dump.yaml -o github > comment.md

\b
Exit codes: 0 nothing is lost, 1 a VM would wait, lose a device or not start again, or a manifest is denied, 2 bad usage
  or unreadable input.
"""


@click.command(name="plan", help=HELP, epilog=EPILOG)
@file_inputs("What would be applied; - is standard input.")
@click.option(
    "--delete", "deleted", metavar="FILE|DIR", cls=RepeatableOption, help="Manifests whose objects would be deleted."
)
@click.option("--dump", "dumped", metavar="FILE|DIR", cls=RepeatableOption, help="The cluster, as files: a dump.")
@live_unless("dumped")
@namespace_option
@every_namespace_option
@shared("--timeout", detail="For one VM.", default=10.0, type=click.FloatRange(0.01, None))
@output_option("text", "json", "yaml", "github")
def command(
    paths: tuple[str, ...], deleted: tuple[str, ...], dumped: tuple[str, ...],
    live: ClusterChoice | None, namespace: str, timeout: float, output: str,
) -> None:  # fmt: skip
    if not paths and not deleted:
        raise click.UsageError("name the manifests, e.g. virt-dra plan -f vm.yaml --live")
    if bool(dumped) == (live is not None):
        raise click.UsageError("say which cluster: --live, or a dump with --dump")
    with frozen_heap():
        with status("reading"):
            cluster = _cluster(dumped, live, namespace, output)
        report = planned(cluster, PlannedFiles(paths, deleted, namespace), timeout, output, complete=live is not None)
    if output in ("json", "yaml"):
        print_document(report.to_json(), output)
    else:
        from virt_dra.cli.plan.report import markdown_lines, text_lines

        for line in (markdown_lines if output == "github" else text_lines)(report):
            say(line)
    sys.exit(1 if report.has_losses else 0)


@dataclass(frozen=True)
class PlannedFiles:
    """The files of a change. ``namespace``: of objects that name none."""

    applied: Sequence[str]
    deleted: Sequence[str]
    namespace: str


def _cluster(dumped: Sequence[str], live: ClusterChoice | None, namespace: str, output: str) -> ClusterModel:
    from virt_dra.cli.shared.file_input import accepted_of_files
    from virt_dra.model.cluster import ClusterModel
    from virt_dra.model.kinds import READ
    from virt_dra.model.unknown import not_given

    if live is None:
        given = accepted_of_files(dumped, output, namespace)
        return ClusterModel(given, namespace, not_given(given))
    objects, scope = live_objects(live, READ["plan"], namespace, output)
    return ClusterModel(objects, namespace, scope.unread, scope.partial)


def planned(cluster: ClusterModel, change: PlannedFiles, timeout: float, output: str, *, complete: bool) -> PlanReport:
    """What a change would do to a cluster. ``complete``: what it lacks of a kind that was read doesn't exist, as in
    ``lint --live``. Ends the command for files that can't be read."""
    from virt_dra.allocator import FatalError
    from virt_dra.api.kubevirt_v1 import KubeVirt
    from virt_dra.cli.plan.report import PlanReport
    from virt_dra.cli.shared.file_input import objects_of_files
    from virt_dra.cluster.files import read_written
    from virt_dra.model.unknown import unknown_facts
    from virt_dra.simulator.deadline import AllocationDeadline
    from virt_dra.simulator.experiment.errors import BadExperiment
    from virt_dra.simulator.fit import Fitting
    from virt_dra.simulator.planning.objects import changed_cluster
    from virt_dra.simulator.planning.vms import vm_changes
    from webhooks.lint import DENIAL, LintSettings, lint_documents
    from webhooks.lint.inputs import EVERYTHING

    deadline = AllocationDeadline(timeout)
    written = read_written(change.applied)
    problems = (*written.unopened, *(file.problem for file in written.broken))
    if problems:
        refuse([str(problem) for problem in problems], output)
    judgement = lint_documents(
        written.documents,
        LintSettings(),
        beside_kubevirt=not cluster.knows(KubeVirt),
        namespace=change.namespace,
        known_kinds=EVERYTHING - {kind.KIND for kind in (*cluster.unread, *cluster.partial)} if complete else None,
        existing=cluster.objects,
        trial=partial(Fitting, limit=deadline),
    )
    release = judgement.inputs.configuration.release
    applied: list[TypedObject] = []
    for manifest, findings in judgement.manifests:
        denied = any(finding.severity == DENIAL for finding in findings)
        if manifest.object is None or (denied and not manifest.is_subject):
            continue  # refused, and said as a finding
        applied.append(manifest.stored_by(release) if manifest.is_subject else manifest.object)
    with refusing(output, BadExperiment, FatalError):
        changed = changed_cluster(cluster, applied, objects_of_files(change.deleted, output), change.namespace)
        with progress("trying VMs") as report_progress:
            vms = tuple(vm_changes(changed, deadline, deadline.start, report_progress))
    return PlanReport(changed.changes, vms, judgement.checked, tuple(unknown_facts(changed.after, ())))
