"""``virt-dra lint``: what is wrong with VMs and what they name: in files before anything is created, or in a live cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from typing import Literal, NoReturn, TypeAlias

import click

from virt_dra.api.go_text import visible
from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, ReadProblem, Sourced
from virt_dra.cli.lint.options import severity_options, unreadable
from virt_dra.cli.lint.report import LintReport
from virt_dra.cli.lint.sarif import sarif
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options
from virt_dra.cli.shared.console import progress, say
from virt_dra.cli.shared.options import address_keys_option, kubevirt_gates_option, kubevirt_option, parse_namespace
from virt_dra.cli.shared.output import BAD_INPUT, print_document, refuse
from virt_dra.cluster.duplicates import latest
from virt_dra.cluster.files import read_written
from virt_dra.live.lint import Gathered, gather
from virt_dra.simulator.deadline import AllocationDeadline
from webhooks.lint import CHECKS, LintResult, LintSettings, lint_documents
from webhooks.lint.inputs import DEFAULT_NAMESPACE, EVERYTHING, KINDS

Format: TypeAlias = Literal["text", "json", "sarif"]

HELP = """Check VirtualMachines and VirtualMachineInstances, and everything they name, before anything is created.

FILES are YAML or JSON manifests and folders of them (- is standard input): the VMs, their ResourceClaimTemplates and ResourceClaims, and,
as far as there are any, the cluster's DeviceClasses, ResourceSlices and its KubeVirt object. No cluster is asked.

With --live the VMs of a cluster are checked against what it has: those of --namespace, or of all with -A. FILES may hold further VMs and
objects then, which count as if they were created already.

Every object is held against what an API server and KubeVirt refuse, whether a VM uses it or not: types, unknown fields, names, values.
An object that would be refused isn't there for the VMs that name it.

Templates and claims must be among the files. DeviceClasses and ResourceSlices come with a cluster: what needs them is checked when the
files have any (or with --complete); the output says what was not checked.

A finding is a denial (the VM can't come to life like that) or a warning. Each has an id; --list shows them, docs/lint has a page for each.
A VM silences findings by the annotation virt-dra.io/lint-ignore, a list of ids with commas.

\b
-o json is one object:
  version     1; grows when a member changes its meaning or goes away
  kubevirt    the version whose rules were applied
  kubevirtAssumed   whether that is a guess: the KubeVirt object's version is a date, a digest or the like
  denials, warnings   how many
  replaced    objects that the files have several times with different content: kind, key, earlier, used; the last one counts
  notChecked  kinds of which the files have nothing, so that they weren't held against
  objects     per VM: kind, namespace, name, file, line, findings (id, severity, field, message, page); of a VM of the cluster
              file is its resource, namespace and name, and line is 0. After the VMs the other objects that have findings
Unreadable input: error and problems instead. -o sarif is a SARIF 2.1.0 log.
"""

EPILOG = """\b
Examples:
  virt-dra lint -f examples/cluster/vm.yaml -f examples/cluster/claim-template.yaml
  virt-dra lint -f examples/driver-intel --kubevirt-version 1.8.0             would it do on that KubeVirt?
  kubectl get kubevirts,deviceclasses,resourceslices,resourceclaimtemplates -A -o yaml | virt-dra lint -f - -f vm.yaml
  virt-dra lint -f examples/direct-claim --deny all --ignore direct-claim-pins -o json
  virt-dra lint -f examples/gpu-pci -o sarif > lint.sarif                     for code scanning
  virt-dra lint --live -A                                                     every VM of the cluster
  virt-dra lint --live -f examples/cluster/vm.yaml -n team-a                  would this one start there?
\b
Exit codes: 0 no denial, 1 some VM has a denial, 2 bad usage or unreadable input.
  A denial of another object counts as one of a VM.
"""


def _list(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    width = max(len(check.id) for check in CHECKS)
    for check in CHECKS:
        say(f"{check.id:<{width}}  {check.severity:<7}  {check.title}")
    ctx.exit(0)


@click.command(name="lint", help=HELP, epilog=EPILOG)
@click.option("-f", "--filename", "named", metavar="FILE|DIR", multiple=True, help="Manifests; may be repeated. - is standard input.")
@click.argument("more", metavar="[FILE|DIR...]", nargs=-1)
@click.option("-o", "--output", type=click.Choice(["text", "json", "sarif"]), default="text", show_default=True)
@kubevirt_option
@kubevirt_gates_option
@severity_options
@click.option(
    "-n", "--namespace", default=DEFAULT_NAMESPACE, show_default=True, callback=parse_namespace, help="Of objects that name none."
)
@address_keys_option
@click.option("--live", is_flag=True, help="Ask a cluster: for its VMs, if no files have any, and for all that they name.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --live: the VMs of all namespaces.")
@cluster_options
@click.option("--complete", is_flag=True, help="The files hold the whole cluster: a DeviceClass or ResourceSlice they lack isn't there.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list, help="Show all findings there are, and exit.")
def command(
    named: tuple[str, ...],
    more: tuple[str, ...],
    output: Format,
    kubevirt: KubeVirtVersion | None,
    gates: dict[str, bool],
    ignore: frozenset[str],
    deny: frozenset[str],
    warn: frozenset[str],
    namespace: str,
    address_keys: tuple[DriverKeys, ...],
    live: bool,
    all_namespaces: bool,
    cluster: ClusterChoice,
    complete: bool,
) -> None:
    paths = (*named, *more)
    if not paths and not live:
        raise click.UsageError("name the files to check, e.g. virt-dra lint -f vm.yaml -f template.yaml, or ask a cluster with --live")
    if not live and (all_namespaces or cluster.given):
        raise click.UsageError("--all-namespaces, --kubeconfig and --context go with --live")
    written = read_written(paths)
    if written.problems:
        _refuse(written.problems, output)
    once = latest(written.documents, namespace)
    gathered = _gathered(cluster, output) if live else Gathered(())
    there = gathered.objects
    from virt_dra.simulator.fit import Fitting  # not needed for --help and --list, and not quick

    with progress("checking VMs") as told:
        judgement = lint_documents(
            once.documents,
            LintSettings.for_command(ignore=ignore, deny=deny, warn=warn),
            version=kubevirt,
            gates=gates,
            namespace=namespace,
            known=EVERYTHING - gathered.unknown if complete or live else None,
            address_keys=address_keys,
            existing=there,
            trial=partial(Fitting, limit=AllocationDeadline()),
            progress=told,
            also=[Sourced(each, _place(each)) for each in there if all_namespaces or each.namespace == namespace],
        )
    if paths and not live:
        _require_subjects(judgement, written.documents, paths, output)
    report = LintReport(judgement, once.replaced)
    if output == "text":
        say("\n".join(map(visible, report.lines())))
    else:
        print_document(report.to_json() if output == "json" else sarif(judgement.checked, (), once.replaced), "json")
    sys.exit(1 if report.denials else 0)


def _require_subjects(judgement: LintResult, documents: Sequence[Document], paths: Sequence[str], output: Format) -> None:
    """Ends the process where nothing of the input can be read, or none of it is a VM."""
    if not judgement.readable:
        _refuse(unreadable(documents), output)
    if not judgement.subjects and not any(each.kind in KINDS for each in judgement.others):
        missing = "no VirtualMachine or VirtualMachineInstance found; name the file that has one"
        _refuse((ReadProblem(DocumentSource(", ".join(paths), 0), missing),), output)


def _gathered(cluster: ClusterChoice, output: Format) -> Gathered:
    """All that the lint looks at, of a cluster; ends the process where it can't be had."""
    from virt_dra.cluster.port import ApiError

    async def ask() -> Gathered:
        async with cluster.connected() as connected:
            return await gather(connected)

    try:
        return asyncio.run(ask())
    except (ApiError, NoCluster) as error:
        text = error.message if isinstance(error, NoCluster) else str(error)
        _refuse((ReadProblem(DocumentSource("cluster", 0), text),), output)


def _place(obj: TypedObject) -> DocumentSource:
    """Where an object of a cluster is: ``virtualmachines.kubevirt.io/team-a/vm``."""
    return DocumentSource(f"{obj.PLURAL}.{obj.API_VERSION.partition('/')[0]}/{obj.namespace}/{obj.name}", 0)


def _refuse(problems: tuple[ReadProblem, ...], output: Format) -> NoReturn:
    if output == "sarif":
        print_document(sarif((), problems), "json")
        sys.exit(BAD_INPUT)
    told = [{"source": str(problem.source), "message": problem.message} for problem in problems]
    refuse([visible(str(problem)) for problem in problems], output, told)
