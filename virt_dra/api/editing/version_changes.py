"""The changes that write an object of resource.k8s.io in v1, as ``conversion.to_v1`` reads it (A-22.2, A-22.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from virt_dra.api.conversion import DRA, EXACT, FLAT, REQUESTS, is_bare_quantity, is_set
from virt_dra.api.editing.changes import (
    CannotChange,
    MemberPath,
    NestMembers,
    RemoveMember,
    SetMember,
    UnnestMember,
    ValueChange,
    WrapMember,
)

V1: Final = f"{DRA}/v1"


def version_changes(raw: Mapping[str, Any]) -> tuple[ValueChange, ...]:
    """The changes of an object in any version, or in v1 with fields where an older version has them; () if none is
    needed. Raises :class:`CannotChange` for fields in both places."""
    version, kind = str(raw.get("apiVersion")).rpartition("/")[2], str(raw.get("kind"))
    changes: list[ValueChange] = []
    if version != "v1":
        changes.append(SetMember(("apiVersion",), json.dumps(V1), add=False))
    if kind in REQUESTS:
        for index, request in _objects(raw, REQUESTS[kind]):
            changes += _of_request(request, (*REQUESTS[kind], index))
    elif kind == "ResourceSlice":
        for index, device in _objects(raw, ("spec", "devices")):
            changes += _of_device(device, ("spec", "devices", index), version)
        changes += _of_slice(raw.get("spec"), version)
    return tuple(changes)


def _objects(raw: object, path: MemberPath) -> Iterator[tuple[int, dict[str, Any]]]:
    for step in path:
        raw = raw.get(step) if isinstance(raw, dict) else None
    for index, item in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(item, dict):
            yield index, item


def _of_request(request: dict[str, Any], path: MemberPath) -> Iterator[ValueChange]:
    inlined = tuple(name for name in request if name in EXACT)
    if not inlined:
        return
    if not any(is_set(request[name]) for name in inlined):
        yield from (RemoveMember((*path, name)) for name in inlined)
    elif "exactly" in request:
        raise CannotChange(f"a request has {inlined[0]} beside exactly; only you know which of them is meant")
    else:
        yield NestMembers(path, inlined, "exactly")


def _of_device(device: dict[str, Any], path: MemberPath, version: str) -> Iterator[ValueChange]:
    basic = device.get("basic")
    if basic is not None and not isinstance(basic, dict):
        raise CannotChange("basic of a device is no object")
    if isinstance(basic, dict) and basic.keys() & device.keys():
        raise CannotChange("a device has fields both in basic and beside it; only you know which of them are meant")
    for owner, within in ((device, path), (basic, (*path, "basic"))):
        capacity = owner.get("capacity") if owner is not None else None
        if isinstance(capacity, dict) and (version == "v1alpha3" or owner is basic):
            yield from (
                WrapMember((*within, "capacity", name), "value")
                for name, value in capacity.items()
                if is_bare_quantity(value)
            )
    if "basic" in device:
        yield UnnestMember((*path, "basic"))


def _of_slice(spec: object, version: str) -> Iterator[ValueChange]:
    """Values that mean "not set" in older versions, and something in v1."""
    if version in FLAT and isinstance(spec, dict):
        for name, unset in (("nodeName", ""), ("allNodes", False)):
            if spec.get(name) == unset and isinstance(spec[name], type(unset)):
                yield RemoveMember(("spec", name))
