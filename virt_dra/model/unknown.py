"""What a model can't say: kinds that weren't given or couldn't be read, and nodes that don't say what they offer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

from virt_dra.api.core_v1 import Node, Pod, PodVolumeClaim
from virt_dra.api.counting import counted, listed
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.model.cluster import ClusterModel, derived
from virt_dra.model.extended_resources import served_resources
from virt_dra.model.volumes import is_claim_to_come

NODES_NOT_GIVEN: Final = "NodesNotGiven"
"""The nodes are those that slices name, or a single one; labels, taints and room of them aren't known."""
PODS_NOT_GIVEN: Final = "PodsNotGiven"
"""What pods take of the nodes' room, and which pods are neighbours, isn't known."""
ROOM_NOT_KNOWN: Final = "RoomNotKnown"
"""A node doesn't say what it offers (``status.allocatable``)."""
RESOURCE_NOT_LISTED: Final = "ResourceNotListed"
"""No node lists a resource that is asked for, nor do devices serve it by their class: who offers it isn't known."""

VOLUMES_NOT_GIVEN: Final = "VolumesNotGiven"
"""Where the volumes of a pod can be attached isn't known: objects aren't given, or a claim isn't made or bound yet."""

_PLURALS: Final[Mapping[type[TypedObject], str]] = {
    PersistentVolumeClaim: "PersistentVolumeClaims",
    PersistentVolume: "PersistentVolumes",
    StorageClass: "StorageClasses",
}
_NAMED: Final = 3
"""Nodes or resources that a text names."""
_MOST_OFTEN_LACKING: Final = (
    Node, Pod, ResourceSlice, KubeVirt, PersistentVolumeClaim, PersistentVolume, StorageClass,
)  # fmt: skip
"""Kinds of which nearly every cluster in use has objects: without a single one they weren't dumped."""


class UnknownFactJson(TypedDict):
    """What isn't known of the cluster and wasn't taken into account."""

    code: str
    subject: str
    """The kind, or the VM, or the nodes or resources, joined by commas."""
    text: str


@dataclass(frozen=True, slots=True)
class UnknownFact:
    """A fact that can't be decided on. ``subject``: the kind, nodes or resources, joined by commas."""

    code: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"Not known: {self.text}"

    def to_json(self) -> UnknownFactJson:
        return {"code": self.code, "subject": self.subject, "text": self.text}


def not_given(objects: Iterable[TypedObject]) -> list[type[TypedObject]]:
    """The kinds of which files have nothing, although nearly every cluster in use has some: they weren't dumped."""
    given = {type(obj) for obj in objects}
    return [kind for kind in _MOST_OFTEN_LACKING if kind not in given]


def unknown_facts(
    model: ClusterModel, resources: Collection[str] = (), volumes: Collection[PodVolumeClaim] = ()
) -> tuple[UnknownFact, ...]:
    """What isn't known of a model, for pods that ask for these resources and use these claims for volumes. None of it
    is checked, so knowing it could turn "fits" into "doesn't fit", never the other way round."""
    return (*_kinds(model), *_rooms(model), *_resources(model, resources), *_volumes(model, volumes))


@derived(Node)
def offered_resources(model: ClusterModel) -> frozenset[str]:
    """The resources that some node lists in ``status.allocatable``."""
    return frozenset(name for node in model.of(Node) for name in node.status.allocatable)


@derived(Node)
def nodes_without_room(model: ClusterModel) -> tuple[str, ...]:
    """Nodes that don't say what they offer, by name."""
    return tuple(node.name for node in model.of(Node) if not node.status.allocatable)


def _kinds(model: ClusterModel) -> Iterator[UnknownFact]:
    if not model.knows(Node):
        yield UnknownFact(
            NODES_NOT_GIVEN,
            Node.KIND,
            "Nodes aren't given or readable: those that ResourceSlices name, or a single one, are assumed, with "
            "room for all and without taints",
        )
    if not model.knows_all(Pod):
        yield UnknownFact(
            PODS_NOT_GIVEN,
            Pod.KIND,
            "Pods aren't given or readable: the room that they use and who runs beside whom isn't known",
        )


def _rooms(model: ClusterModel) -> Iterator[UnknownFact]:
    names = nodes_without_room(model) if model.knows(Node) else ()
    if not names:
        return
    nodes = (
        "the nodes" if len(names) == len(model.nodes) else f"{counted(len(names), 'node')} ({listed(names, _NAMED)})"
    )
    text = f"status.allocatable of {nodes} isn't given: whether there is room isn't checked"
    yield UnknownFact(ROOM_NOT_KNOWN, ",".join(names), text)


def _resources(model: ClusterModel, resources: Collection[str]) -> Iterator[UnknownFact]:
    offered, served = offered_resources(model), served_resources(model)
    names = sorted(name for name in set(resources) - offered if served.class_of(name) is None) if offered else ()
    if names:
        text = f"no node lists {listed(names, _NAMED)}: whether there is any isn't checked"
        yield UnknownFact(RESOURCE_NOT_LISTED, ",".join(names), text)


def _volumes(model: ClusterModel, volumes: Collection[PodVolumeClaim]) -> Iterator[UnknownFact]:
    claims = model.by_key(PersistentVolumeClaim)
    present = [claims[key] for key, _ in volumes if key in claims]
    kinds: set[type[TypedObject]] = {PersistentVolume if claim.is_bound else StorageClass for claim in present}
    if volumes and not model.knows(PersistentVolumeClaim):
        kinds = {PersistentVolumeClaim}
    for kind in sorted((kind for kind in kinds if not model.knows(kind)), key=lambda kind: kind.KIND):
        text = f"{_PLURALS[kind]} aren't given or readable: where volumes can be attached isn't checked"
        yield UnknownFact(VOLUMES_NOT_GIVEN, kind.KIND, text)
    if PersistentVolumeClaim in kinds:
        return
    to_come = {key for key, generated in volumes if key not in claims and (generated or is_claim_to_come(model, key))}
    to_come |= {claim.key for claim in present if not claim.is_bound and not claim.metadata.uid}
    if to_come:
        names = sorted(to_come)
        text = (
            f"no volume is bound yet to {counted(len(names), PersistentVolumeClaim.KIND)} ({listed(names, _NAMED)}): "
            "where it can be attached isn't checked"
        )
        yield UnknownFact(VOLUMES_NOT_GIVEN, ",".join(names), text)
