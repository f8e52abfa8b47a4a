"""The objects of files that an API server would accept, and those that it would refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypedDict

from virt_dra.api.defaults import EPOCH
from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.cluster.memory.admission import Admission
from virt_dra.cluster.memory.names import generated

_JUDGED_ELSEWHERE: Final = (VirtualMachine, VirtualMachineInstance, UnknownObject)


class RefusedObjectJson(TypedDict):
    """An object that an API server would refuse."""

    source: str
    message: str


@dataclass(frozen=True)
class RefusedObject:
    """An object of the input that an API server would refuse. VMs that need it fail later, because it is missing."""

    source: str
    message: str
    kind: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"refused by the API server: {self.source}: {self.message}"

    def to_json(self) -> RefusedObjectJson:
        return {"source": self.source, "message": self.message}


Accepted = tuple[tuple[TypedObject, ...], tuple[RefusedObject, ...]]
"""The objects that are accepted, and those that are refused."""


def judge(inputs: Iterable[Sourced[TypedObject]], admission: Admission) -> Accepted:
    """The objects that an API server would accept, and those it would refuse, with the reason."""
    return _parted((sourced.object, _refusal(sourced, admission)) for sourced in inputs)


def judge_as_written(inputs: Iterable[Sourced[TypedObject]], namespace: str, admission: Admission) -> Accepted:
    """As ``judge``, of objects that describe a cluster: one with a UID was accepted by its API server, and VMs are
    judged where their fit is. ``namespace``: of objects that name none."""

    def refusal(obj: TypedObject, source: DocumentSource) -> RefusedObject | None:
        exempt = obj.metadata.uid or isinstance(obj, _JUDGED_ELSEWHERE)
        return None if exempt else _refusal(Sourced(in_namespace(obj, namespace), source), admission)

    return _parted((sourced.object, refusal(sourced.object, sourced.source)) for sourced in inputs)


def _parted(judged: Iterable[tuple[TypedObject, RefusedObject | None]]) -> Accepted:
    pairs = tuple(judged)
    refused = tuple(refusal for _, refusal in pairs if refusal is not None)
    return tuple(obj for obj, refusal in pairs if refusal is None), refused


def _refusal(sourced: Sourced[TypedObject], admission: Admission) -> RefusedObject | None:
    obj = sourced.object
    causes = admission.on_create(admission.defaulted(_named(obj), EPOCH))
    if not causes:
        return None
    kind, described = obj.KIND or obj.kind, "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
    return RefusedObject(str(sourced.source), f"{kind} {visible(obj.key)}: {described}", kind, obj.key)


def _named(obj: TypedObject) -> TypedObject:
    """The object with a generated name, if it has only generateName: the API server names before it validates."""
    meta = obj.metadata
    if meta.name or not meta.generate_name:
        return obj
    return obj.with_(metadata=meta.with_(name=generated(meta.generate_name, "xxxxx")))
