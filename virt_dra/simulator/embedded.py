"""The embedded cluster made of the user's objects, and a run of every VM on it. Namespaces and nodes that objects refer
to exist, nodes have the labels that virt-handler sets, the kubelet starts bound pods; nothing else is simulated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from virt_dra.api.core_v1 import Node
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.api.profiles.lines import LineSurroundings, was_admitted
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from virt_dra.cluster.accepting import RefusedObject, judge
from virt_dra.cluster.duplicates import Replaced, applied
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.rules import KindRules
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted, surroundings_of
from virt_dra.model.feeds.stand_ins import labelled, stand_ins
from virt_dra.model.unknown import UnknownFact, not_given
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.simulator.aligning import aligned
from virt_dra.simulator.handovers import Conditions, RunClock, drive
from virt_dra.simulator.held_twice import HeldTwice, held_twice
from virt_dra.simulator.input_vms import Blocker, InputVm, VmOrVmi, sort_input
from virt_dra.simulator.outcome import VmOutcome
from virt_dra.simulator.refused import with_refused_first
from webhooks.lint.inputs import KubeVirtAtHand

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class RunSettings:
    """The user's options for a run. ``kubevirt`` and ``gates`` override the cluster's KubeVirt object."""

    node: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of namespaced objects that name none, like ``kubectl --namespace``."""
    kubevirt: KubeVirtVersion | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    unread: frozenset[type[TypedObject]] = frozenset()
    """Kinds of which not all objects of the cluster could be read."""
    beside_kubevirt: bool = True
    """False if the input is a whole cluster, in which a missing KubeVirt object says that there is no KubeVirt."""


@dataclass(frozen=True)
class Ran:
    """A finished run: every VM's outcome in input order, and all objects now. ``kubevirt``: checked against."""

    kubevirt: KubeVirtAtHand
    outcomes: tuple[VmOutcome, ...]
    refused: tuple[RefusedObject, ...]
    objects: tuple[TypedObject, ...]
    replaced: tuple[Replaced, ...] = ()
    """Objects that the input has several times with different content."""
    held_twice: tuple[HeldTwice, ...] = ()
    """Devices that several claims of the input hold."""
    unknown: tuple[UnknownFact, ...] = ()
    """What couldn't be taken into account where nodes for VMs were chosen."""

    @property
    def ready(self) -> bool:
        """True if every VM is ready. A refused object that no VM needs doesn't count."""
        return all(outcome.ready for outcome in self.outcomes)


async def run_on(
    cluster: MemoryCluster,
    inputs: Iterable[Sourced[TypedObject]],
    settings: RunSettings,
    clock: RunClock,
    refused_before: tuple[RefusedObject, ...] = (),
) -> Ran:
    """Fill an empty cluster with the inputs, run the VMs that aren't running through the hand-overs, and report on all.
    ``refused_before``: objects that are not among the inputs because an API server couldn't read them."""
    once = applied(
        (Sourced(in_namespace(sourced.object, settings.namespace), sourced.source) for sourced in inputs),
        settings.namespace,
    )
    written = ClusterModel(sourced.object for sourced in once.objects)
    admitted = as_admitted(written)
    surroundings = surroundings_of(written)
    sorted_out = aligned(sort_input(_as_in(admitted, once.objects)), surroundings)
    accepted, refused = judge((*sorted_out.others, *(obj for vm in sorted_out.vms for obj in vm.loaded)), KindRules())
    accepted_ids = {id(obj) for obj in accepted}
    vms = [_unless_line_refused(_unless_refused(vm, accepted_ids, refused), surroundings) for vm in sorted_out.vms]
    kubevirt = next((obj for obj in accepted if isinstance(obj, KubeVirt)), None)
    at_hand = KubeVirtAtHand.configured(kubevirt, settings.kubevirt, settings.gates, settings.beside_kubevirt)
    made = stand_ins((*accepted, *(vm.subject.object for vm in vms)), settings.node)
    doubly = held_twice(obj for obj in accepted if isinstance(obj, ResourceClaim))
    cluster.load((*map(labelled, accepted), *(labelled(obj) if isinstance(obj, Node) else obj for obj in made)))
    unread = frozenset((*not_given(accepted), *settings.unread))
    conditions = Conditions(at_hand.gates, at_hand.permitted, settings.node, unread)
    outcomes = await drive(cluster, vms, conditions, clock)
    refused = (*refused_before, *refused)
    advised = tuple(
        with_refused_first(outcome, vm.subject.object, refused, accepted)
        for outcome, vm in zip(outcomes, vms, strict=True)
    )
    objects = cluster.snapshot()
    unknown = _unknown(ClusterModel(objects, unread=conditions.unread), outcomes)
    return Ran(at_hand, advised, refused, objects, once.replaced, doubly, unknown)


def _unknown(model: ClusterModel, outcomes: Iterable[VmOutcome]) -> tuple[UnknownFact, ...]:
    """What wasn't known where nodes were tried for VMs."""
    keys = (f"{outcome.namespace}/{outcome.pod}" for outcome in outcomes if not outcome.taken_over)
    pods = [model.pods[key] for key in keys if key in model.pods]
    return unknown_to(pods, model) if pods else ()


_LINES: Final = DocumentSource(DEVICES_ANNOTATION, 0)
"""Where templates come from that no file has."""


def _as_in(model: ClusterModel, inputs: Iterable[Sourced[TypedObject]]) -> Iterator[Sourced[TypedObject]]:
    """The inputs as they are in the model, and the templates that it has besides."""
    given = set[str]()
    for sourced in inputs:
        obj = sourced.object
        if isinstance(obj, VmOrVmi):
            yield Sourced(model.by_key(type(obj)).get(obj.key, obj), sourced.source)
            continue
        if isinstance(obj, ResourceClaimTemplate):
            given.add(obj.key)
        yield sourced
    yield from (Sourced(made, _LINES) for made in model.of(ResourceClaimTemplate) if made.key not in given)


def _unless_line_refused(given: InputVm, surroundings: LineSurroundings) -> InputVm:
    """The VM; blocked if what its line asks for is refused, for which KubeVirt can't create its VMI."""
    if given.vmi is not None or given.blocked is not None or was_admitted(given.subject.object):
        return given
    refusals = surroundings.admitted(given.subject.object).refusals
    if not refusals:
        return given
    message = "; ".join(map(str, refusals))
    return replace(given, blocked=Blocker(refusals[0].type, message, f"correct {DEVICES_ANNOTATION}, or the profile"))


def _unless_refused(given: InputVm, accepted: Collection[int], refused: Iterable[RefusedObject]) -> InputVm:
    """The VM; blocked if the API server refuses one of its objects or its pod, which then can't come from a cluster."""
    missing = next((sourced.object for sourced in given.loaded if id(sourced.object) not in accepted), given.pod)
    if missing is None or id(missing) in accepted:
        return given
    message = next(
        (refusal.message for refusal in refused if (refusal.kind, refusal.key) == (missing.KIND, missing.key)),
        "the API server refuses it",
    )
    return replace(given, vmi=None, pod=None, blocked=Blocker("Invalid", message, "change what the message names"))
