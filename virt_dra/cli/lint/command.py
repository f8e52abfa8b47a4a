"""``virt-dra lint``: checks VMs and everything they name, in files before anything is created, or in a live cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Final, NoReturn

import click
from click.core import ParameterSource

from virt_dra.api.counting import counted
from virt_dra.api.go_text import visible
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.reading.documents import Document, DocumentSource, ReadProblem, Sourced
from virt_dra.cli.lint.configuration import LintConfiguration, configuration_option
from virt_dra.cli.lint.exclusion import exclusion
from virt_dra.cli.lint.exports import codequality, github_lines, junit
from virt_dra.cli.lint.fixing import STANDARD_INPUT, FixOutcome, decide, show, write
from virt_dra.cli.lint.places import FindingPlaces
from virt_dra.cli.lint.report import LintReport
from virt_dra.cli.lint.sarif import sarif
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options, reads_cluster
from virt_dra.cli.shared.console import progress, say, say_unknown
from virt_dra.cli.shared.lint_options import problems_json, severity_options, unreadable
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import (
    address_keys_option,
    kubevirt_gates_option,
    kubevirt_option,
    namespace_option,
    output_option,
)
from virt_dra.cli.shared.output import BAD_INPUT, print_document, print_output, refuse
from virt_dra.cli.shared.workflow_log import print_commands, print_exactly
from virt_dra.cluster.duplicates import latest
from virt_dra.cluster.files import STDIN, Written, read_written
from virt_dra.simulator.deadline import AllocationDeadline
from webhooks.lint import CHECKS, LintResult, LintSettings, ObjectFindings, lint_documents
from webhooks.lint.documents import FILE, ProgressCallback
from webhooks.lint.fixes.planning import FixPlan, Judge, plan_fixes
from webhooks.lint.inputs import EVERYTHING, KINDS
from webhooks.lint.other_tools import is_like_a_manifest, is_of_another_tool, kustomize_patches
from webhooks.lint.registry import OLD_VERSION

if TYPE_CHECKING:
    from virt_dra.live.reading import ReadScope

HELP = """Check VirtualMachines and VirtualMachineInstances, and everything they name, before anything is created.

FILEs are YAML or JSON manifests and folders of them (- is standard input): the VMs, their ResourceClaimTemplates and
ResourceClaims, and, if there are any, the cluster's DeviceClasses, ResourceSlices and its KubeVirt object. No cluster
is contacted.

In a repository: files of other tools (kustomization.yaml, Chart.yaml, values.yaml, package.json) are left out and
named; a file that can't be read is a finding, and the others are checked; --exclude leaves out files and folders of
folders. Options may stand in .virt-dra.toml, [lint], or pyproject.toml, [tool.virt-dra.lint], under their names:
filename, exclude, deny, warn, ignore (lists), kubevirt-version, kubevirt-gates (a table), namespace, address-keys,
complete, summary, quiet. Those of the command line replace the file's; exclude adds to it.

With --live the VMs of a cluster are checked against its objects: those of --namespace, or of all namespaces with -A.
FILEs may then contain further VMs and objects, which count as if they were already created.

Every object is validated as the API server and KubeVirt would, whether or not a VM uses it: types, unknown fields,
names, values. A refused object doesn't exist for the VMs that name it. Rules of KubeVirt about other things than
devices are known in part: docs/lint/kubevirt-refuses.md lists those that aren't, and --strict says them.

Templates and claims must be among the files. DeviceClasses and ResourceSlices come with a cluster: what depends on them
is checked if the files have any (or with --complete); the output says what was not checked.

A finding is a denial (the VM can't start like this) or a warning. Each has an id; --list shows them, docs/lint has a
page for each. A VM silences findings with the annotation virt-dra.io/lint-ignore, a comma-separated list of ids.

--fix corrects what is mechanical: address keys of published devices, the shape and version of objects
(resource.k8s.io/v1), missing VFIO configuration of NVIDIA's driver. It shows a diff and asks; --yes doesn't ask;
without a terminal and --yes nothing is changed. Every fix is tried first: one that doesn't remove its finding, or
causes another, is dropped. All other characters of the files stay. Then the findings that remain are reported. Of
standard input the corrected text is printed, and everything else goes to standard error.

\b
-o json is one object:
  version     1; increases when a member changes its meaning or is removed
  kubevirt    the version whose rules were applied
  kubevirtAssumed   true if that is a guess: the KubeVirt object's version is a date, a digest or similar
  denials, warnings   the number of each
  replaced    objects that the files have several times with different content: kind, key, earlier, used; the last one
              counts
  otherTools  files that aren't meant for Kubernetes, which were not checked
  counts      per id and severity: findings, objects (the number of each)
  notChecked  kinds of which the files have no object; what depends on these kinds was not checked
  objects     per VM: kind, namespace, name, file, line, findings (id, severity, field, message, page, line, column;
              the last two are those of the field, null where it can't be found in a file); for a VM of the cluster file
              is its resource, namespace and name, and line is 0. After the VMs the other objects that have findings.
              A finding whose fault is in another object of the files has fault: kind, namespace, name, field, file,
              line, column. One whose correction is known has fix: available, and the diff that --fix would make for it
              (null if all diffs are too long), or the reason why it isn't available
  notJudged   with --strict: rules of KubeVirt that aren't judged
  fixes       with --fix: applied, files (file, diff, written, problem), dropped (file, line, object, id, field,
              reason); objects and the numbers are then those of the files as they are now
With --summary objects is left out. No readable input: error and problems instead. -o sarif is a SARIF 2.1.0 log with
the page of each finding; github: annotations of a workflow; junit: a test per object, and codequality: an issue per
finding, for reports of CI.
"""

EPILOG = """\b
Examples:
  virt-dra lint -f examples/cluster/vm.yaml -f examples/cluster/claim-template.yaml
  virt-dra lint -f examples/driver-intel --kubevirt-version 1.8.0             would that KubeVirt accept it?
  kubectl get kubevirts,deviceclasses,resourceslices,resourceclaimtemplates -A -o yaml | virt-dra lint -f - -f vm.yaml
  virt-dra lint -f examples/direct-claim --deny all --ignore direct-claim-pins -o json
  virt-dra lint -f examples/gpu-pci -o sarif > lint.sarif                     for code scanning
  virt-dra lint -f examples/direct-claim -o junit                             a test per object
  virt-dra lint --fix -f examples/gpu-pci                                     a diff of what would be corrected
  virt-dra lint --fix - < examples/gpu-pci/gpu.yaml 2>/dev/null               a filter: the corrected text
  virt-dra lint --live -A                                                     every VM of the cluster
  virt-dra lint --live -f examples/cluster/vm.yaml -n team-a                  would this one start there?

\b
Exit codes: 0 no denial, 1 a VM, another object or a file has a denial, 2 bad usage or no readable input. With --strict
a warning counts as a denial does. With --fix the files count as they are afterwards, and 2 also stands for a file that
can't be written.
"""


def _list(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    width = max(len(check.id) for check in CHECKS)
    for check in CHECKS:
        say(f"{check.id:<{width}}  {check.severity:<7}  {check.title}")
    ctx.exit(0)


@click.command(name="lint", help=HELP, epilog=EPILOG)
@shared("--filename", "named", "- is standard input.")
@click.argument("more", metavar="[FILE|DIR...]", nargs=-1)
@output_option("text", "json", "yaml", "sarif", "github", "junit", "codequality")
@kubevirt_option
@kubevirt_gates_option
@severity_options(LintSettings.for_command)
@namespace_option
@address_keys_option
@shared("--live", detail="Its VMs, unless the files have some, and everything they name.")
@shared("--all-namespaces", detail="With --live.")
@cluster_options
@click.option("--pages-url", metavar="URL", default="", help="Where docs/lint is served, for the helpUri of -o sarif.")
@shared("--quiet", detail="Without excerpts of the files.")
@click.option("--strict", is_flag=True,
              help="Exit with 1 for warnings, too, and say which of KubeVirt's rules aren't judged.")  # fmt: skip
@click.option(
    "--complete", is_flag=True,
    help="The files are a whole cluster: a DeviceClass or ResourceSlice they lack doesn't exist.",
)  # fmt: skip
@click.option("--exclude", metavar="PATTERN", cls=RepeatableOption,
              help="Files and folders to leave out, as in a .gitignore of each folder that is linted.")  # fmt: skip
@configuration_option
@click.option("--summary", is_flag=True, help="Only count: findings of each id, and the totals.")
@click.option("--fix", is_flag=True, help="Correct what is mechanical: show a diff, ask, write the files.")
@shared("--yes", detail="With --fix.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list,
              help="Show all possible findings, and exit.")  # fmt: skip
def command(
    named: tuple[str, ...], more: tuple[str, ...], output: str, kubevirt: KubeVirtVersion | None,
    gates: dict[str, bool], lint: LintSettings, namespace: str, address_keys: tuple[DriverKeys, ...], live: bool,
    all_namespaces: bool, cluster: ClusterChoice, complete: bool, pages_url: str, quiet: bool, strict: bool,
    fix: bool, yes: bool, configuration: LintConfiguration, exclude: tuple[str, ...], summary: bool,
) -> None:  # fmt: skip
    given = click.get_current_context().get_parameter_source("named") is ParameterSource.COMMANDLINE
    paths = more if more and not given else (*named, *more)
    if summary and output not in _WITH_FIXES:
        raise click.UsageError(f"--summary goes with -o {', '.join(_WITH_FIXES)}")
    if fix:
        _check_usage_of_fix(paths, output)
        if OLD_VERSION not in lint.deny:
            lint = replace(lint, warn=frozenset({*lint.warn, OLD_VERSION}))
    elif yes:
        raise click.UsageError("--yes goes with --fix")
    live = reads_cluster(live, paths)
    if not paths and not live:
        raise click.UsageError(
            "name the files to check, e.g. virt-dra lint -f vm.yaml -f template.yaml, or read a cluster with --live"
        )
    if not live and (all_namespaces or cluster.given):
        raise click.UsageError("--all-namespaces, --kubeconfig and --context go with --live")
    excluded = exclusion(exclude, paths, configuration.table.exclude, configuration.folder)
    written = read_written(paths, excluded=excluded)
    of_folders = (file for file in written.broken if not file.named)
    foreign = [file for file in of_folders if file.text is not None and not is_like_a_manifest(file.text)]
    broken = [file.problem for file in written.broken if file not in foreign]
    # A file that was named is meant to be read; one of a folder is a finding beside others.
    cannot_fix = fix and any(file.named for file in written.broken)
    if written.unopened or cannot_fix or (broken and not written.documents and not live):
        _refuse((*written.unopened, *broken), output)
    existing, scope = _read_live(cluster, output) if live else ([], None)
    unread = frozenset(kind.KIND for kind in scope.unread) if scope is not None else frozenset()
    beside_kubevirt = scope is None or KubeVirt in scope.unread
    with collector_paused():
        from virt_dra.simulator.fit import Fitting  # slow to import, and not needed for --help and --list

    theirs = [Sourced(obj, _source(obj)) for obj in existing if all_namespaces or obj.namespace == namespace]

    def judge(
        documents: Sequence[Document], report_progress: ProgressCallback = lambda done, total: None
    ) -> LintResult:
        return lint_documents(
            latest(_manifests(documents, written), namespace).documents, lint,
            version=kubevirt, gates=gates, beside_kubevirt=beside_kubevirt, namespace=namespace,
            known_kinds=EVERYTHING - unread if complete or live else None,
            address_keys=address_keys, has_keeper=scope is None or scope.has_keeper,
            existing=existing, trial=partial(Fitting, limit=AllocationDeadline()), progress=report_progress,
            broken=broken, also=theirs,
        )  # fmt: skip

    with progress("checking VMs") as report_progress:
        judgement = judge(written.documents, report_progress)
    if paths and not live:
        _require_vms(judgement, _manifests(written.documents, written), paths, output)
    plan = _plan(written, judgement, judge) if fix or output in _WITH_FIXES else None
    outcome = _fixed(plan, written, output, yes=yes) if fix and plan is not None else None
    documents, texts = written.documents, written.texts
    if outcome is not None and outcome.applied:
        documents, texts = tuple(outcome.documents(documents)), outcome.texts(texts)
        complete_now = not outcome.problems and len(outcome.applied) == len(outcome.plan.texts)
        judgement = outcome.plan.result if complete_now else judge(documents)
        plan = None
    manifests = _manifests(documents, written)
    meant = {doc.source for doc in manifests}
    of_other_tools = {doc.source.name for doc in documents if doc.source not in meant}
    of_other_tools |= {file.problem.source.name for file in foreign}
    report = LintReport(
        judgement, latest(manifests, namespace).replaced,
        FindingPlaces(texts, judgement.sources), plan, outcome,
        tuple(sorted(of_other_tools)), len(broken), summary, strict,
    )  # fmt: skip
    _print(report, output, pages_url, excerpts=not quiet, err=fix and STDIN in paths)
    if output not in ("json", "yaml"):
        say_unknown(judgement.unknown)
    not_written = outcome is not None and outcome.problems
    sys.exit(BAD_INPUT if not_written else 1 if report.denials or (strict and report.warnings) else 0)


def _manifests(documents: Sequence[Document], written: Written) -> list[Document]:
    """The documents that are meant as Kubernetes objects."""
    patches = kustomize_patches(documents)
    return [doc for doc in documents if not is_of_another_tool(doc, patches, named=written.is_named(doc))]


_WITH_FIXES: Final = ("text", "json", "yaml")
"""The outputs that say what can be fixed."""


def _check_usage_of_fix(paths: Sequence[str], output: str) -> None:
    if not paths:
        raise click.UsageError(
            "--fix changes files, never a cluster; name them, e.g. virt-dra lint --live --fix -f vm.yaml"
        )
    if output not in _WITH_FIXES:
        raise click.UsageError(f"--fix goes with -o {', '.join(_WITH_FIXES)}")
    if STDIN in paths and output != "text":
        raise click.UsageError(
            "with --fix standard output has the corrected text of standard input; -o json and yaml go with files"
        )


def _plan(written: Written, judgement: LintResult, judge: Judge) -> FixPlan:
    """The fixes of files and of standard input."""
    texts = {name: text for name, text in written.texts.items() if name in written.files or name == STANDARD_INPUT}
    with progress("trying fixes"), collector_paused():
        return plan_fixes(written.documents, texts, judgement, judge)


def _fixed(plan: FixPlan, written: Written, output: str, *, yes: bool) -> FixOutcome:
    """What became of the fixes, which are shown, confirmed and written. The text of standard input is printed in any
    case."""
    files = [text for text in plan.texts if text.name != STANDARD_INPUT]
    filtered = written.texts.get(STANDARD_INPUT)
    if output == "text":
        show(plan, written.files, err=filtered is not None)
        yes = decide(files, yes=yes, err=filtered is not None)
    outcome = write(plan, files, written.files) if yes else FixOutcome(plan)
    for name, problem in outcome.problems.items():
        say(f"error: {name}: {problem}", err=True)
    if output == "text" and outcome.applied:
        say(f"{counted(len(outcome.applied), 'file')} changed", err=filtered is not None)
    if filtered is None:
        return outcome
    fixed = next((text for text in plan.texts if text.name == STANDARD_INPUT), None)
    print_exactly(filtered if fixed is None else fixed.content)
    return outcome if fixed is None else replace(outcome, applied=outcome.applied | {STANDARD_INPUT})


def _print(report: LintReport, output: str, pages_url: str, *, excerpts: bool, err: bool) -> None:
    checked = report.judgement.checked
    if output == "text":
        _print_text(report, excerpts=excerpts, err=err)
    elif output == "github":
        print_commands(github_lines(checked, report.places))
    elif output == "codequality":
        print_document(codequality(checked, report.places), "json")
    elif output == "junit":
        click.echo(junit([*checked, *_without_findings(report)], report.places))
    elif output == "sarif":
        print_document(sarif(checked, (), report.replaced, places=report.places, pages_url=pages_url), "json")
    else:
        print_output("LintReport", report.to_json(), output)


def _print_text(report: LintReport, *, excerpts: bool, err: bool) -> None:
    """Coloured by severity, and wrapped, where the output is a terminal."""
    stream = sys.stderr if err else sys.stdout
    width = get_terminal_size().columns if stream.isatty() else None
    for line in map(visible, report.lines(excerpts=excerpts, width=width)):
        colour = next((colour for word, colour in _COLOURS.items() if f": {word}: " in f": {line}"), None)
        click.echo(click.style(line, fg=colour) if colour else line, err=err)


_COLOURS: Final = {"denial": "red", "warning": "yellow"}


def _without_findings(report: LintReport) -> list[ObjectFindings]:
    """The objects of the input that have none, which pass as tests."""
    checked = {(obj.kind, obj.namespace, obj.name) for obj in report.judgement.checked}
    clean = [manifest for manifest, _ in report.judgement.manifests if manifest.identity not in checked]
    return [ObjectFindings(manifest.kind, manifest.namespace, manifest.name, manifest.source, ()) for manifest in clean]


def _require_vms(judgement: LintResult, documents: Sequence[Document], paths: Sequence[str], output: str) -> None:
    """Ends the process if no object of the input can be read, or none is a VM."""
    if not judgement.readable and documents:
        _refuse(unreadable(documents), output)
    if not judgement.subjects and not any(obj.kind in (*KINDS, FILE) for obj in judgement.others):
        missing = "no VirtualMachine or VirtualMachineInstance found; name the file that has one"
        _refuse((ReadProblem(DocumentSource(", ".join(paths), 0), missing),), output)


def _read_live(cluster: ClusterChoice, output: str) -> tuple[list[TypedObject], ReadScope]:
    """All objects of a cluster that the lint needs, and what could be read. Ends the process if required
    ones can't be read."""
    from virt_dra.cluster.port import ApiError  # these are slow to import, and not needed for files
    from virt_dra.live.reading import read_cluster
    from virt_dra.model.kinds import READ

    try:
        return cluster.ask(lambda connected: read_cluster(connected, READ["lint"]))
    except (ApiError, NoCluster) as error:
        _refuse((ReadProblem(DocumentSource("cluster", 0), str(error)),), output)


def _source(obj: TypedObject) -> DocumentSource:
    """The place of an object in a cluster: ``virtualmachines.kubevirt.io/team-a/vm``."""
    return DocumentSource(f"{obj.PLURAL}.{obj.API_VERSION.partition('/')[0]}/{obj.namespace}/{obj.name}", 0)


def _refuse(problems: tuple[ReadProblem, ...], output: str) -> NoReturn:
    if output == "sarif":
        print_document(sarif((), problems), "json")
        sys.exit(BAD_INPUT)
    refuse([visible(str(problem)) for problem in problems], output, problems_json(problems))
