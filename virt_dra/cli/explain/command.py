"""``virt-dra explain``: why a VM, a VMI, a pod or a claim gets no place and what would help; or the page of a finding,
a reason or an alert."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from virt_dra.api.counting import counted
from virt_dra.api.nearest import nearest
from virt_dra.cli.explain.pages import page, page_names
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options, reads_cluster
from virt_dra.cli.shared.console import progress, say, status
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import every_namespace_option, namespace_option, output_option
from virt_dra.cli.shared.output import print_output, refusing
from virt_dra.simulator.collector import frozen_heap
from virt_dra.simulator.explaining.subject import KINDS, NoSubject, find_subject

if TYPE_CHECKING:
    from virt_dra.cli.documents.output_types import ExplanationListJson, ReasonPageJson
    from virt_dra.model.cluster import ClusterModel

HELP = """Explain why a VM, VMI, pod or claim gets no place, who holds the devices it wants, and what would help.

\b
SUBJECT is one of
  vm NAME, vmi NAME, pod NAME, claim NAME   (also vm/NAME, and NAMESPACE/NAME)
  a finding of virt-dra lint                e.g. not-enough-devices: its page
  a reason of the allocator                 e.g. DeviceInUse: its page
  an alert of install --monitoring          e.g. VirtDraWebhookDown: its runbook
Without SUBJECT: one line for everything that waits.

The cluster is read from files (-f: manifests, folders, or a dump, as below), or with --live, by your own rights. A VM
that doesn't exist yet is explained as if it were created now.

The nearest miss comes first: what is in use or tainted before what no device can give. Each way out was tried on a copy
of the cluster: with it the pod gets its node and devices. Kinds that may not be read are named and left out. """

EPILOG = """\b
Examples:
  virt-dra explain vmi vm-late -n team-a -f examples/explain/cluster.yaml        why does it wait?
  virt-dra explain claim team-a/a100 -f examples/explain/cluster.yaml -o json    what would help?
  virt-dra explain -f examples/explain/cluster.yaml             what waits?
  kubectl get nodes,pods,resourceslices,resourceclaims,resourceclaimtemplates,deviceclasses,devicetaintrules,vm,vmi \\
    -A -o yaml > dump.yaml; virt-dra explain -f dump.yaml       of a dump
  virt-dra explain vmi trainer -n team-a --live                 of the cluster of your kubeconfig
  virt-dra explain DeviceInUse                                  what a reason means, with an example
  virt-dra explain not-enough-devices                           what a finding of virt-dra lint means

\b
Exit codes: 0 it has or could have its place, or a page was shown; 1 it waits or can't start; 2 bad usage or input.
"""

_TIMEOUT: Final = 20.0
_LISTED: Final = 40
"""Waiting subjects that get a line of their own."""
_EXPLAINED: Final = 200
"""Waiting subjects that are explained."""


@click.command(name="explain", help=HELP, epilog=EPILOG)
@click.argument(
    "words", metavar="[SUBJECT]", nargs=-1, shell_complete=lambda *_: ["vm", "vmi", "pod", "claim", *page_names()]
)
@shared("--filename", "paths", "- is standard input.")
@shared("--live")
@namespace_option
@every_namespace_option
@cluster_options
@shared("--timeout", detail="For judging the nodes, and again for ways out.", type=click.FloatRange(min=0.01),
        default=_TIMEOUT)  # fmt: skip
@shared("--verbose", detail="All groups of nodes, with examples of their devices.")
@output_option("text", "json", "yaml")
def command(
    words: tuple[str, ...], paths: tuple[str, ...], live: bool, namespace: str, cluster: ClusterChoice, timeout: float,
    verbose: bool, output: str,
) -> None:  # fmt: skip
    asked = _asked(words)
    if asked is None and words:
        _show_page(words, output)
        return
    live = reads_cluster(live, paths)
    if not paths and not live:
        raise click.UsageError("name the files of the cluster with -f, or read one with --live")
    if not live and cluster.given:
        raise click.UsageError("--kubeconfig and --context go with --live")
    with frozen_heap():
        with status("reading"):
            model = _model(paths, cluster if live else None, namespace, output)
        if asked is None:
            _explain_all(model, timeout, output)
        else:
            _explain(model, *asked, namespace, timeout, verbose, output)


def _asked(words: tuple[str, ...]) -> tuple[str, str] | None:
    """Kind and name; None for the name of a page. Ends as bad usage for anything else."""
    if len(words) == 1 and "/" in words[0]:
        kind, _, name = words[0].partition("/")
        words = (kind, name)
    if len(words) == 1:
        if words[0].lower() in KINDS:
            raise click.UsageError(f"which {words[0]}? Write e.g. virt-dra explain {words[0]} NAME")
        return None
    if len(words) != 2 or words[0].lower() not in KINDS:
        if not words:
            return None
        raise click.UsageError(
            f"{' '.join(words)!r}: write vm, vmi, pod or claim and a name, or the name of a finding, reason or alert"
        )
    return words[0], words[1]


def _show_page(words: tuple[str, ...], output: str) -> None:
    text = page(words[0])
    if text is None:
        meant = nearest(words[0], (*page_names(), "vm", "vmi", "pod", "claim"))
        hint = f"did you mean {meant}?" if meant is not None else "virt-dra lint --list shows all findings"
        raise click.UsageError(
            f"there is no finding, reason or alert {words[0]!r}; {hint} For a VM write: virt-dra explain vm {words[0]}"
        )
    if output == "text":
        say(text.rstrip("\n"))
    else:
        reason: ReasonPageJson = {"name": words[0], "page": text}
        print_output("ReasonPage", reason, output)


def _model(paths: Sequence[str], cluster: ClusterChoice | None, namespace: str, output: str) -> ClusterModel:
    """The objects of files, in place of those of the cluster if one is given."""
    from virt_dra.api.kubevirt_v1 import KubeVirt
    from virt_dra.cli.shared.file_input import accepted_of_files  # not needed for pages
    from virt_dra.cli.shared.live_input import live_objects
    from virt_dra.model.cluster import ClusterModel
    from virt_dra.model.feeds.files import model_of_files
    from virt_dra.model.kinds import READ

    if cluster is None:
        return model_of_files(accepted_of_files(paths, output, namespace), namespace)
    objects, scope = live_objects(cluster, READ["explain"], namespace, output)
    own_crds = KubeVirt not in scope.unread and not any(isinstance(obj, KubeVirt) for obj in objects)
    of_files = accepted_of_files(paths, output, namespace, own_crds=own_crds)
    return ClusterModel([*objects, *of_files], namespace, scope.unread, scope.partial)


def _explain(
    model: ClusterModel, kind: str, name: str, namespace: str, timeout: float, verbose: bool, output: str
) -> None:  # fmt: skip
    from virt_dra.allocator import FatalError
    from virt_dra.cli.explain.text import lines
    from virt_dra.simulator.deadline import AllocationDeadline
    from virt_dra.simulator.explaining.answer import BROKEN, WAITS, answer_json, answered
    from virt_dra.simulator.explaining.state import ClusterState

    deadline = AllocationDeadline(timeout)
    with refusing(output, NoSubject, FatalError):
        state = ClusterState.from_model(model, deadline)
        subject = find_subject(kind, name, namespace, state.model)
        deadline.start()
        with progress("judging nodes") as report:
            answer = answered(subject, state, report, deadline.start)
    if output == "text":
        say("\n".join(lines(answer, everything=verbose)))
    else:
        print_output("Explanation", answer_json(answer), output)
    sys.exit(1 if answer.verdict in (WAITS, BROKEN) else 0)


def _explain_all(model: ClusterModel, timeout: float, output: str) -> None:
    """One line for each VM, VMI and pod that has no place."""
    from virt_dra.allocator import FatalError
    from virt_dra.simulator.deadline import AllocationDeadline
    from virt_dra.simulator.explaining.answer import BROKEN, FITS, WAITS, answer_json
    from virt_dra.simulator.explaining.state import ClusterState
    from virt_dra.simulator.explaining.waiting import waiting_answers

    deadline = AllocationDeadline(timeout)
    with refusing(output, FatalError):
        state = ClusterState.from_model(model, deadline)
        with progress("explaining") as report:
            explained = waiting_answers(state, _EXPLAINED, report, deadline.start)
    unplaced = explained.answers
    if output != "text":
        members: ExplanationListJson = {
            "subjects": [answer_json(answer) for answer in unplaced],
            "leftOut": explained.left_out,
        }
        print_output("ExplanationList", members, output)
    else:
        for answer in unplaced[:_LISTED]:
            say(answer.headline)
            if answer.ways:
                say(f"  {answer.ways[0].text}")
        if len(unplaced) > _LISTED:
            say(f"and {counted(len(unplaced) - _LISTED, 'more')}; -o json has them")
        if explained.left_out:
            say(f"{counted(explained.left_out, 'more VM or pod')} weren't explained")
        for fact in explained.unknown:
            say(str(fact))
        stuck = sum(answer.verdict in (WAITS, BROKEN) for answer in unplaced)
        able = sum(answer.verdict == FITS for answer in unplaced)
        say(f"{stuck} without a place, {able} that could start" if unplaced else "nothing waits")
    sys.exit(1 if any(answer.verdict in (WAITS, BROKEN) for answer in unplaced) else 0)
