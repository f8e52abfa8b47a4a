"""``virt-dra simulate --what-if``: changes on a dump, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from virt_dra.allocator import DEFAULT, FatalError
from virt_dra.api.counting import counted
from virt_dra.api.meta import TypedObject
from virt_dra.cli.shared.console import say, say_unknown
from virt_dra.cli.shared.file_input import accepted_of_files, objects_of_files
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import print_output, refuse
from virt_dra.cli.simulate.inputs import description_in, refused
from virt_dra.model.unknown import UnknownFactJson
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.added_nodes import NodeFile, describes_nodes
from virt_dra.simulator.experiment.added_vms import added_vm
from virt_dra.simulator.experiment.dump import cluster_of
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.what_if import ChangeOutcome, ClusterChange, Prospect, parse_change, sentences


class PlacedPodJson(TypedDict):
    """A pod, as namespace/name, and its node."""

    pod: str
    node: str


class ChangeOutcomeJson(TypedDict):
    """What a change does."""

    change: str
    evicted: list[str]
    """Pods, as namespace/name."""
    moved: list[PlacedPodJson]
    """Of these, those that run elsewhere."""
    started: list[PlacedPodJson]
    """Pods that waited, or are new, and run now."""
    refused: list[str]
    """New pods that fit nowhere."""
    why: NotRequired[str]
    """Why the first of the pods that wait now, and didn't before, fits nowhere."""
    waiting: int
    used: float


class ClusterNowJson(TypedDict):
    """The cluster before the changes."""

    running: int
    waiting: list[str]
    used: float
    """The part of the devices in use."""


class WhatIfJson(TypedDict):
    """What changes of a cluster would do, one after the other."""

    policy: str
    notes: list[str]
    unknown: list[UnknownFactJson]
    now: ClusterNowJson
    changes: list[ChangeOutcomeJson]


def answer(paths: Sequence[str], changes: Sequence[str], policy: str, seed: int, output: str) -> None:
    """Print what the changes do, one after the other. All of them are read before the first is applied."""
    if description_in(paths, output) is not None:
        refuse([f"{paths[0]}: is a description; --what-if needs a dump of a cluster"], output)
    objects = accepted_of_files(paths, output, DEFAULT_NAMESPACE)
    with refused(output):
        parsed = [parse_change(text) for text in changes]
        added = [_added(change, objects, output) if change.verb == "add" else None for change in parsed]
        cluster = cluster_of(objects)
        if not cluster.model.nodes:
            raise BadExperiment(f"{', '.join(paths)}: no Node; --what-if needs a dump of a cluster")
        try:
            prospect = Prospect(cluster, policy, features=DEFAULT, seed=seed)
            running, waiting, used = prospect.running, prospect.waiting, prospect.used
            outcomes = [prospect.apply(change, vm) for change, vm in zip(parsed, added, strict=True)]
        except FatalError as error:
            raise BadExperiment(f"the cluster can't be simulated: {error}") from None
    if output in ("json", "yaml"):
        members: WhatIfJson = {
            "policy": policy,
            "notes": list(cluster.notes),
            "unknown": [fact.to_json() for fact in prospect.unknown],
            "now": {"running": running, "waiting": list(waiting), "used": round(used, 6)},
            "changes": [_json(outcome) for outcome in outcomes],
        }
        print_output("WhatIf", members, output)
        return
    for note in cluster.notes:
        say(note, err=True)
    if prospect.unknown_nodes:
        say(f"{counted(prospect.unknown_nodes, 'pod')} left out, whose node isn't there", err=True)
    say_unknown(prospect.unknown)
    say(f"now: {counted(running, 'pod')} running, {len(waiting)} waiting, {used:.1%} of the devices in use")
    for outcome in outcomes:
        say(f"{outcome.text}:")
        for line in sentences(outcome):
            say(f"  {line}")
        say(f"  then {outcome.waiting} waiting, {outcome.used:.1%} of the devices in use")


def _added(change: ClusterChange, cluster: Sequence[TypedObject], output: str) -> VmShape | NodeFile:
    """What a file adds: a node if there is one in it, else a VM."""
    objects, source = objects_of_files(change.subjects, output), change.subjects[0]
    return NodeFile(source, objects) if describes_nodes(objects) else added_vm(objects, cluster, source)


def _json(outcome: ChangeOutcome) -> ChangeOutcomeJson:
    def placed(places: Sequence[tuple[str, str]]) -> list[PlacedPodJson]:
        return [{"pod": name, "node": node} for name, node in places]

    shown: ChangeOutcomeJson = {
        "change": outcome.text,
        "evicted": outcome.evicted,
        "moved": placed(outcome.moved),
        "started": placed(outcome.started),
        "refused": outcome.refused,
        "waiting": outcome.waiting,
        "used": round(outcome.used, 6),
    }
    if outcome.why:
        shown["why"] = outcome.why
    return shown
