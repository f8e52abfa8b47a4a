"""``virt-dra diff``: which VMs start or stop fitting between two states of a cluster, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict

import click

from virt_dra.cli.shared.console import progress, say, status
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import namespace_option, output_option
from virt_dra.cli.shared.output import print_output, refusing
from virt_dra.model.unknown import UnknownFactJson
from virt_dra.simulator.collector import frozen_heap

if TYPE_CHECKING:
    from virt_dra.simulator.explaining.difference import FitChange

HELP = """Show which VMs start or stop fitting between two states of a cluster, and why.

BEFORE and AFTER are files or folders: dumps of a cluster at two times, or a dump and what it would be after a change.
Every VM, VMI and waiting pod is tried by itself in each state, as if it were created now: beside all others, without
the devices that it holds itself. """

EPILOG = """\b
Examples:
  virt-dra diff examples/explain/cluster.yaml examples/diff/after.yaml        what does the change do?
  kubectl get nodes,pods,resourceslices,resourceclaims,resourceclaimtemplates,deviceclasses,virtualmachineinstances \\
    -A -o yaml > dump.yaml
  virt-dra diff dump.yaml changed-dump.yaml -o json

\b
Exit codes: 0 no VM stops fitting, 1 some do, 2 bad usage or unreadable input.
"""


@click.command(name="diff", help=HELP, epilog=EPILOG)
@click.argument("before")
@click.argument("after")
@namespace_option
@shared("--timeout", detail="For one VM.", default=10.0, type=click.FloatRange(0.01, None))
@output_option("text", "json", "yaml")
def command(before: str, after: str, namespace: str, timeout: float, output: str) -> None:
    with frozen_heap():
        from virt_dra.allocator import FatalError
        from virt_dra.cli.shared.file_input import accepted_of_files
        from virt_dra.simulator.deadline import AllocationDeadline
        from virt_dra.simulator.explaining.difference import FitState, differences
        from virt_dra.simulator.explaining.state import ClusterState

        deadline = AllocationDeadline(timeout)
        with status("reading"):
            read = [accepted_of_files([path], output, namespace) for path in (before, after)]
        with refusing(output, FatalError):
            states = [
                FitState(ClusterState.from_objects(objects, namespace, deadline), deadline.start) for objects in read
            ]
            unknown = dict.fromkeys(fact for state in states for fact in state.unknown)
            with progress("trying VMs") as report:
                differing = list(differences(states[0], states[1], report))
    if output == "text":
        for change in differing:
            say(change.says)
            if change.why:
                say(f"  {change.why}")
        if not differing:
            say("no VM starts or stops fitting")
        for fact in unknown:
            say(str(fact))
    else:
        members: ClusterDifferenceJson = {
            "changes": [_json(change) for change in differing],
            "unknown": [fact.to_json() for fact in unknown],
        }
        print_output("ClusterDifference", members, output)
    sys.exit(1 if any(change.before == "fits" and change.after not in ("fits", None) for change in differing) else 0)


class FitChangeJson(TypedDict):
    """A VM, VMI or pod that starts or stops fitting."""

    subject: str
    before: str | None
    """null where it isn't there."""
    after: str | None
    why: str | None


class ClusterDifferenceJson(TypedDict):
    """Which VMs start or stop fitting between two states of a cluster."""

    changes: list[FitChangeJson]
    unknown: list[UnknownFactJson]


def _json(change: FitChange) -> FitChangeJson:
    return {"subject": change.title, "before": change.before, "after": change.after, "why": change.why or None}
