"""Objects of a cluster, as ``kubectl get … -o yaml`` writes them, as the beginning of an experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.counting import counted
from virt_dra.api.defaults import defaulted
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import AllocationResult, ResourceClaim, ResourceClaimStatus
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.stand_ins import labelled
from virt_dra.model.kinds import READ
from virt_dra.model.unknown import not_given
from virt_dra.scheduling.filters.host_ports import host_ports
from virt_dra.scheduling.pod_requests import pod_requests
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import Arrival, Experiment, RunningPod

_USED: Final = READ["simulate"].all


@dataclass(frozen=True)
class DumpedCluster:
    """A cluster and the pods on it."""

    model: ClusterModel
    pods: tuple[DumpedPod, ...]
    """Pods that have not finished, oldest first."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class DumpedPod:
    """A pod with the claims that are its alone (None if one is missing), and what those have that others use too."""

    pod: Pod
    claims: tuple[ResourceClaim, ...] | None
    shared: tuple[AllocationResult, ...] = ()

    @property
    def node(self) -> str | None:
        return self.pod.spec.node_name or None


def cluster_of(objects: Iterable[TypedObject]) -> DumpedCluster:
    """The cluster of a dump's objects, of two with one name the last. Other kinds are counted in ``notes``."""
    objects = tuple(objects)
    others = Counter(obj.kind for obj in objects if not isinstance(obj, _USED))
    used = (labelled(obj) if isinstance(obj, Node) else defaulted(obj) for obj in objects if isinstance(obj, _USED))
    model = ClusterModel(used, unread=not_given(objects))
    pods = [pod for pod in model.of(Pod) if not pod.finished]
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    left_out = f"{counted(sum(others.values()), 'object')} of other kinds left out: {', '.join(_listed(others))}"
    notes = [left_out] if others else []
    consumers = Counter(key for pod in pods for key in set(_claim_keys(pod)) if key is not None)
    shared = {key for key, number in consumers.items() if number > 1}
    if shared:
        notes.append(f"{counted(len(shared), 'claim')} of several pods: what they hold stays theirs")
    dumped = tuple(_dumped(pod, model.claims, shared) for pod in pods)
    missing = sum(pod.claims is None for pod in dumped)
    if missing:
        notes.append(f"{counted(missing, 'pod')} left out, of which a claim isn't there")
    return DumpedCluster(model, dumped, tuple(notes))


def _listed(others: Counter[str]) -> list[str]:
    return [f"{number} {kind}" for kind, number in sorted(others.items())[:8]] + (["…"] if len(others) > 8 else [])


def _claim_keys(pod: Pod) -> list[str | None]:
    """The key of the claim of each entry; None if it isn't known yet. Entries that need no claim are left out."""
    names, recorded = pod.claim_names, {status.name for status in pod.status.resource_claim_statuses}
    return [
        f"{pod.namespace}/{names[entry.name]}" if entry.name in names else None
        for entry in pod.spec.resource_claims
        if entry.name in names or entry.name not in recorded
    ]


def _dumped(pod: Pod, claims: Mapping[str, ResourceClaim], shared: Collection[str]) -> DumpedPod:
    used = {key: claims.get(key or "") for key in _claim_keys(pod)}
    if None in used.values():
        return DumpedPod(pod, None)
    present = [claim for claim in used.values() if claim is not None]
    of_others = [claim.status.allocation for claim in present if claim.key in shared]
    own = tuple(claim for claim in present if claim.key not in shared)
    return DumpedPod(pod, own, tuple(allocation for allocation in of_others if allocation is not None))


_OWN_LABELS: Final = frozenset(
    ("kubevirt.io/created-by", "kubevirt.io/nodeName", "vm.kubevirt.io/name", "vmi.kubevirt.io/id")
)
"""Labels that differ from VM to VM."""


class Shapes:
    """The shapes of pods: one for all that ask for the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], VmShape] = {}

    def of(self, pod: Pod, claims: Sequence[ResourceClaim], shared: tuple[AllocationResult, ...] = ()) -> VmShape:
        """The shape of a pod. ``claims``: to be allocated anew; ``shared``: what other claims have, and keep."""
        wishes = pod.spec.model_dump_json(
            include={"node_selector", "affinity", "tolerations", "topology_spread_constraints"}
        )
        wishes += str(pod.volume_claims)
        labels = frozenset((name, value) for name, value in pod.metadata.labels.items() if name not in _OWN_LABELS)
        requests, ports = frozenset(pod_requests(pod).items()), frozenset(host_ports(pod))
        asked = tuple(claim.spec.model_dump_json() for claim in claims)
        key = (pod.namespace, labels, requests, ports, wishes, asked, *[held.model_dump_json() for held in shared])
        shape = self._known.get(key)
        if shape is None:
            unallocated = tuple(
                claim.with_(metadata=claim.metadata.with_(name=f"claim-{i}", uid=""), status=ResourceClaimStatus())
                for i, claim in enumerate(claims)
            )
            shape = self._known[key] = VmShape(pod.name, pod, unallocated, shared=shared)
        return shape


def beginning(
    cluster: DumpedCluster, numbers: Mapping[str, int], lifetime: Callable[[], float | None]
) -> tuple[list[RunningPod], list[Arrival], list[TypedObject]]:
    """The pods that run when an experiment begins, those that wait, and the objects that both are made of. Pods that
    are left out keep their room and devices. ``numbers``: of the nodes; ``lifetime``: of the next pod."""
    shapes = Shapes()
    running: list[RunningPod] = []
    waiting: list[Arrival] = []
    followed: list[TypedObject] = []
    for dumped in cluster.pods:
        if dumped.claims is None or (dumped.node is not None and dumped.node not in numbers):
            continue
        shape = shapes.of(dumped.pod, dumped.claims, dumped.shared)
        arrival = Arrival(0.0, shape, dumped.pod.key, lifetime(), dumped.pod.priority)
        followed += [dumped.pod, *dumped.claims]
        if dumped.node is None:
            waiting.append(arrival)
            continue
        allocations = [claim.status.allocation for claim in dumped.claims]
        results = tuple(allocation for allocation in allocations if allocation is not None)
        running.append(RunningPod(arrival, numbers[dumped.node], results))
    return running, waiting, followed


def replayed(cluster: DumpedCluster, source: str) -> Experiment:
    """An experiment in which the cluster's pods are placed anew, oldest first. What is left out keeps its room and
    devices. Raises BadExperiment."""
    shapes = Shapes()
    pods = [dumped for dumped in cluster.pods if dumped.claims is not None]
    if not pods:
        raise BadExperiment(f"{source}: no pod to place; a description (kind: Simulation) says which VMs arrive")
    pods.sort(key=lambda dumped: (dumped.pod.metadata.creation_timestamp or "", -dumped.pod.priority))
    arrivals = [
        Arrival(
            float(number),
            shapes.of(dumped.pod, dumped.claims or (), dumped.shared),
            dumped.pod.key,
            priority=dumped.pod.priority,
        )
        for number, dumped in enumerate(pods)
    ]
    rest = cluster.model.changed(removed=[obj for dumped in pods for obj in (dumped.pod, *(dumped.claims or ()))])
    return Experiment(rest, rest.of(Node), arrivals, timed=False, notes=cluster.notes)
