"""An object as it is written, before any API server has changed it: the JSON, and the typed object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import Document, DocumentSource
from virt_dra.api.reading.namespaces import in_namespace, is_namespaced
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.wire import WireError
from webhooks.api_server import received
from webhooks.rules.reviewed_spec import VmObject
from webhooks.rules.silence import IGNORE_ANNOTATION

Identity = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object of the input. ``object`` is None if the JSON isn't valid for its kind; ``problems`` say why, by
    path."""

    raw: object
    source: DocumentSource
    object: TypedObject | None = None
    problems: tuple[tuple[str, str], ...] = ()
    default_namespace: str = ""

    @classmethod
    def read(cls, document: Document, namespace: str) -> Manifest:
        """Read a document. ``namespace``: of namespaced objects that name none."""
        try:
            obj = read_object(document.raw)
        except WireError as error:
            return cls(document.raw, document.source, None, error.problems, namespace)
        return cls(document.raw, document.source, in_namespace(obj, namespace), (), namespace)

    @property
    def kind(self) -> str:
        return _text(self.raw, "kind")

    @property
    def is_subject(self) -> bool:
        """True for a VM or VMI, readable or not."""
        return self.kind in (VirtualMachine.KIND, VirtualMachineInstance.KIND) and self.api_version.startswith(
            "kubevirt.io/"
        )

    @property
    def api_version(self) -> str:
        return _text(self.raw, "apiVersion")

    @property
    def namespace(self) -> str:
        if not is_namespaced(self.api_version, self.kind):
            return ""
        return _text(self._metadata, "namespace") or self.default_namespace

    @property
    def name(self) -> str:
        return _text(self._metadata, "name") or _text(self._metadata, "generateName")

    @property
    def identity(self) -> Identity:
        return self.kind, self.namespace, self.name

    @property
    def stored(self) -> bool:
        """True if it was read from a cluster, whose API server accepted it."""
        return bool(_text(self._metadata, "uid"))

    def stored_by(self, release: KubeVirtVersion | None) -> VmObject:
        """The VM or VMI as this KubeVirt's API server stores it: without fields that it doesn't have, such as the
        design's spelling of a claim reference (K-1.9, K-2.34). Unchanged for virt-dra's own CRDs."""
        vm = self.object
        if not isinstance(vm, VmObject) or not isinstance(self.raw, dict):
            raise TypeError(f"{self.source}: not a readable VM or VMI")
        if release is None:
            return vm
        left = received(self.raw, vm.KIND, release, "Ignore").object
        return vm if left is self.raw else type(vm).from_wire(left).with_(metadata=vm.metadata)

    @cached_property
    def silenced(self) -> frozenset[str]:
        """The ids of findings that the object's annotation, or that of the template in it, silences."""
        ids: set[str] = set()
        template = _member(_member(self.raw, "spec"), "template") if self.kind == VirtualMachine.KIND else {}
        for metadata in (self._metadata, _member(template, "metadata")):
            annotations = metadata.get("annotations")
            text = _text(annotations, IGNORE_ANNOTATION) if isinstance(annotations, dict) else ""
            ids.update(id for part in text.split(",") if (id := part.strip()))
        return frozenset(ids)

    @property
    def _metadata(self) -> Mapping[str, Any]:
        return _member(self.raw, "metadata")


def _member(holder: object, name: str) -> Mapping[str, Any]:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, dict) else {}


def _text(holder: object, name: str) -> str:
    value = holder.get(name) if isinstance(holder, Mapping) else None
    return value if isinstance(value, str) else ""
