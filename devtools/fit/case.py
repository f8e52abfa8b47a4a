"""A cluster, and a pod or VM that wants a node there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import yaml

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.files import placeable_model
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.simulator.explaining.state import Wish
from virt_dra.simulator.explaining.subject import AskedSubject, SubjectFinder

Json = dict[str, Any]

NAMESPACE = "team"
"""Of the asker, its claims and its templates."""
ASKER = "asker"
_KINDS: Final = {"Pod": "pod", "VirtualMachine": "vm", "VirtualMachineInstance": "vmi"}


@dataclass(frozen=True)
class FitCase:
    """``raw``: the objects of the dump, the asker among them, as ``kubectl get -o json`` writes them. ``gaps``: Nodes,
    or what they offer, are missing of it."""

    raw: tuple[Json, ...]
    gaps: bool = False

    @property
    def whole(self) -> bool:
        """Whether the dump has everything that a scheduler would know."""
        return not self.gaps and bool(of_kind(self.raw, "Pod"))

    @cached_property
    def documents(self) -> tuple[Document, ...]:
        return tuple(Document(raw, DocumentSource("cluster.yaml", number)) for number, raw in enumerate(self.raw, 1))

    @cached_property
    def sourced(self) -> tuple[Sourced[TypedObject], ...]:
        return tuple(sourced for sourced in map(read_document, self.documents) if isinstance(sourced, Sourced))

    @cached_property
    def objects(self) -> tuple[TypedObject, ...]:
        return tuple(sourced.object for sourced in self.sourced)

    @cached_property
    def asker(self) -> VirtualMachine | VirtualMachineInstance | Pod:
        asker = next(obj for obj in self.objects if obj.name == ASKER and obj.namespace == NAMESPACE and _asks(obj))
        if not isinstance(asker, VirtualMachine | VirtualMachineInstance | Pod):
            raise AssertionError("no other kind asks for a node")
        return asker

    @property
    def asks_as_vm(self) -> bool:
        return not isinstance(self.asker, Pod)

    @property
    def nodes(self) -> Iterator[Node]:
        return (obj for obj in self.objects if isinstance(obj, Node))

    @cached_property
    def cluster(self) -> tuple[TypedObject, ...]:
        """The objects without the asker."""
        return tuple(obj for obj in self.objects if obj is not self.asker)

    @cached_property
    def model(self) -> ClusterModel:
        return placeable_model(self.objects)

    @cached_property
    def subject(self) -> AskedSubject:
        """The asker as explanations see it."""
        return SubjectFinder(self.model).find(_KINDS[self.asker.KIND], ASKER, NAMESPACE)

    @cached_property
    def wish(self) -> Wish | None:
        """The asker's pod, with its claims; None where there can't be one. No VM owns it: the cluster has none yet.
        Whether it is admitted isn't asked."""
        if isinstance(self.asker, Pod):
            wish: Wish | Reason | None = self.subject.wish
        else:
            wish = SubjectFinder(self.model).wish_of(self.model.by_key(type(self.asker))[f"{NAMESPACE}/{ASKER}"])
        if not isinstance(wish, Wish):
            return None
        return Wish(wish.pod.with_(metadata=wish.pod.metadata.without("owner_references")), wish.claims)

    def unused(self) -> FitCase:
        """The same question on the cluster while nothing runs on it: no other pods or VMs, no claim holds a device."""
        return FitCase(tuple(_unallocated(raw) for raw in self.raw if not _runs(raw)), self.gaps)

    def without_pods(self) -> FitCase:
        """The same question where the pods that run aren't known."""
        return FitCase(
            tuple(raw for raw in self.raw if raw["kind"] != "Pod" or raw["metadata"]["name"] == ASKER), self.gaps
        )

    def as_yaml(self) -> str:
        """A file for ``virt-dra explain -f``."""
        return yaml.dump_all(self.raw, Dumper=_QuotingDumper, sort_keys=False)


class _QuotingDumper(yaml.SafeDumper):
    """Quotes the strings that YAML 1.1 takes for booleans, as Kubernetes does, and this library doesn't."""


_QuotingDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if text.lower() in ("y", "n") else None
    ),
)


def _asks(obj: TypedObject) -> bool:
    return isinstance(obj, VirtualMachine | VirtualMachineInstance | Pod)


def _runs(raw: Json) -> bool:
    return raw["kind"] in ("Pod", VirtualMachineInstance.KIND) and raw["metadata"]["name"] != ASKER


def _unallocated(raw: Json) -> Json:
    return {key: value for key, value in raw.items() if raw["kind"] != ResourceClaim.KIND or key != "status"}


def of_kind(raw: Iterable[Json], kind: str) -> list[Json]:
    """The objects of one kind."""
    return [obj for obj in raw if obj["kind"] == kind]
