"""Claim references in the design's form, ``claim: {name, request}``, which no KubeVirt has (K-1.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.reading.documents import Document

_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    VirtualMachineInstance.KIND: ("spec", "domain", "devices"),
    VirtualMachine.KIND: ("spec", "template", "spec", "domain", "devices"),
}
_LISTS: Final = ("gpus", "hostDevices")
_FIELD: Final = "claim"


def as_kubevirt_stores(document: Document) -> Document:
    """The document as an API server with KubeVirt's CRDs stores it: device entries lose the field ``claim``. Other
    kinds, and those without it, stay as they are."""
    raw = document.raw
    path = _PATHS.get(str(raw.get("kind"))) if isinstance(raw, dict) else None
    if path is None:
        return document
    devices: object = raw
    for name in path:
        devices = devices.get(name) if isinstance(devices, Mapping) else None
    if not isinstance(devices, Mapping) or not any(_has_claim(devices.get(kind)) for kind in _LISTS):
        return document
    kept = {
        kind: [_without_claim(entry) for entry in devices[kind]] for kind in _LISTS if _has_claim(devices.get(kind))
    }
    return replace(document, raw=_put(raw, path, {**devices, **kept}))


def _has_claim(entries: object) -> bool:
    return isinstance(entries, list) and any(isinstance(entry, Mapping) and _FIELD in entry for entry in entries)


def _without_claim(entry: object) -> object:
    return {name: value for name, value in entry.items() if name != _FIELD} if isinstance(entry, Mapping) else entry


def _put(holder: object, path: tuple[str, ...], value: object) -> object:
    """A copy with another value at the path; the rest is shared."""
    if not path or not isinstance(holder, Mapping):
        return value
    return {**holder, path[0]: _put(holder[path[0]], path[1:], value)}
