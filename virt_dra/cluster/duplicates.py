"""One object more than once in an input: the last one counts, as if all were applied in turn (``kubectl apply``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict

from virt_dra.api.defaults import defaulted
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource, Sourced, read_document
from virt_dra.api.schemas.applying import on_top
from virt_dra.api.wire import Json
from virt_dra.cluster.kinds import resource_of

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ReplacedJson(TypedDict):
    """An object that is given several times with different content."""

    kind: str
    key: str
    """namespace/name"""
    earlier: list[str]
    """Where those stand that don't count."""
    used: str
    """Where the one that counts stands."""


@dataclass(frozen=True)
class Replaced:
    """An object that the input has several times with different content. ``used``: where the one that counts stands."""

    kind: str
    key: str
    earlier: tuple[DocumentSource, ...]
    used: DocumentSource

    def __str__(self) -> str:
        places = f"{', '.join(map(str, self.earlier))} and {self.used}"
        return (
            f"{self.kind} {self.key} is given with different content at {places}; "
            "the last one is used, as kubectl apply does"
        )

    def to_json(self) -> ReplacedJson:
        return {
            "kind": self.kind,
            "key": self.key,
            "earlier": [str(source) for source in self.earlier],
            "used": str(self.used),
        }


@dataclass(frozen=True)
class Applied:
    """Every object once, where it stood first, as it is after the last one; and what replaced something different."""

    objects: tuple[Sourced[TypedObject], ...]
    replaced: tuple[Replaced, ...]


def applied(objects: Iterable[Sourced[TypedObject]], namespace: str) -> Applied:
    """``namespace``: of namespaced objects that name none. Objects without a name are never the same.

    A manifest on top of an object from a cluster (one with a UID) leaves status and the server's metadata alone.
    """
    newest: dict[object, Sourced[TypedObject]] = {}
    earlier: dict[object, dict[DocumentSource, None]] = {}
    for sourced in objects:
        obj = sourced.object
        resource = resource_of(obj)
        space = (obj.namespace or namespace) if resource.namespaced else ""
        identity: object = (resource.group, resource.kind, space, obj.name) if obj.name else sourced.source
        before = newest.get(identity)
        if before is None:
            newest[identity] = sourced
            continue
        if not _same(before.object, obj):
            earlier.setdefault(identity, {})[before.source] = None
        newest[identity] = Sourced(on_top(obj, before.object), sourced.source)
    replaced = (
        Replaced(
            sourced.object.kind or sourced.object.KIND,
            _key(sourced.object, namespace),
            tuple(earlier[identity]),
            sourced.source,
        )
        for identity, sourced in newest.items()
        if identity in earlier
    )
    return Applied(tuple(newest.values()), tuple(replaced))


@dataclass(frozen=True)
class Latest:
    """``documents``: each VM and VMI once, as after the last one; the others as given. ``replaced``: of all kinds."""

    documents: tuple[Document, ...]
    replaced: tuple[Replaced, ...]


def latest(documents: Iterable[Document], namespace: str) -> Latest:
    """The documents to judge as they are written: each VM once, as it is started once; other objects each time."""
    documents = tuple(documents)
    read = [sourced for document in documents if isinstance(sourced := read_document(document), Sourced)]
    once = applied(read, namespace)
    final = {sourced.source: sourced.object for sourced in once.objects}
    superseded = {
        sourced.source for sourced in read if isinstance(sourced.object, _ONCE) and sourced.source not in final
    }
    merged = {
        sourced.source: final[sourced.source]
        for sourced in read
        if final.get(sourced.source, sourced.object) is not sourced.object
    }
    kept = tuple(
        _as_stored(document, merged.get(document.source)) for document in documents if document.source not in superseded
    )
    return Latest(kept, once.replaced)


_ONCE = (VirtualMachine, VirtualMachineInstance)


def _as_stored(document: Document, obj: TypedObject | None) -> Document:
    """The document, completed with what the cluster keeps of the object that it is applied to."""
    raw = document.raw
    if not isinstance(obj, _ONCE) or not isinstance(raw, dict):
        return document
    wire = obj.to_wire()
    return Document(
        {**raw, **{member: wire[member] for member in ("metadata", "status") if member in wire}}, document.source
    )


def _key(obj: TypedObject, namespace: str) -> str:
    return f"{obj.namespace or namespace}/{obj.name}" if resource_of(obj).namespaced else obj.name


def _same(old: TypedObject, new: TypedObject) -> bool:
    """True if the two have the same content, apart from defaults and what a server adds."""
    if old.metadata.uid and not new.metadata.uid:
        return _content(on_top(new, old)) == _content(old)
    if new.metadata.uid and not old.metadata.uid:
        return _content(on_top(old, new)) == _content(new)
    return _content(old) == _content(new)


def _content(obj: TypedObject) -> Json:
    wire = defaulted(obj).to_wire()
    metadata = wire.get("metadata", {})
    metadata.pop("namespace", None)  # the same, or implied
    metadata.pop("managedFields", None)
    annotations = metadata.pop("annotations", {})
    annotations.pop(_LAST_APPLIED, None)
    return {**wire, "metadata": {**metadata, "annotations": annotations}}
