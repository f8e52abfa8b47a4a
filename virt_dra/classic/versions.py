"""Reads and writes the versions of classic DRA: v1alpha1 (1.26), v1alpha2 (1.27 to 1.30) and v1alpha3 (1.31) (C-18.1).

Pure functions over JSON. Only what the versions write differently is touched, so unknown fields survive. What a version
can't express is refused with its path, never dropped.

    v1alpha1  PodScheduling instead of PodSchedulingContext; one ``resourceHandle``, a text, of the claim's driver
    v1alpha3  a claim names its driver as ``controller``; the allocation has ``controller``, ``nodeSelector`` and
              ``devices``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import read_object
from virt_dra.api.wire import Json, WireError
from virt_dra.classic.objects import GROUP, KINDS, V1ALPHA2, V1ALPHA3, ClassicDeviceClass

V1ALPHA1: Final = f"{GROUP}/v1alpha1"

_BASIC: Final = frozenset({"ResourceClass", "ResourceClaim", "ResourceClaimTemplate"})
STRUCTURED: Final = frozenset({"ResourceSlice", "ResourceClassParameters", "ResourceClaimParameters"})
SERVED: Final[dict[str, frozenset[str]]] = {
    V1ALPHA1: _BASIC | {"PodScheduling"},
    V1ALPHA2: _BASIC | STRUCTURED | {"PodSchedulingContext"},
    V1ALPHA3: frozenset({"ResourceClaim", "ResourceClaimTemplate", "PodSchedulingContext", "DeviceClass"}),
}
"""The kinds of each version that belong to classic DRA."""

_BY_KIND: Final = {kind.KIND: kind for kind in KINDS}


def read_classic(raw: object) -> TypedObject:
    """A JSON object -> the typed object, those of classic DRA in the shape of v1alpha2, all others as usual. A claim of
    v1alpha3 without a controller isn't classic. Raises :class:`WireError`."""
    if not isinstance(raw, dict) or not _is_classic(raw):
        return read_object(raw)
    version, kind = raw["apiVersion"], raw["kind"]
    if version == V1ALPHA1:
        raw = _from_v1alpha1(raw)
    elif version == V1ALPHA3 and kind != ClassicDeviceClass.KIND:
        raw = _from_v1alpha3(raw)
    return _BY_KIND[raw["kind"]].from_wire(raw)


def write_classic(obj: TypedObject, version: str = V1ALPHA2) -> Json:
    """The JSON of an object of classic DRA in a version. Raises :class:`WireError` for what that can't express."""
    raw = obj.to_wire()
    if version == V1ALPHA1:
        raw = _to_v1alpha1(raw)
    elif version == V1ALPHA3 and not isinstance(obj, ClassicDeviceClass):
        raw = _to_v1alpha3(raw)
    elif version == V1ALPHA2:
        _refuse_v1alpha3_fields(raw, V1ALPHA2)
    if raw["kind"] not in SERVED.get(version, ()) or raw["apiVersion"] != version:
        raise _inexpressible(obj.KIND, "apiVersion", f"{version} has no {obj.KIND}")
    return raw


def _inexpressible(kind: str, path: str, text: str) -> WireError:
    return WireError(kind, ((path, text),))


def _is_classic(raw: Json) -> bool:
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str) or kind not in SERVED.get(version, ()):
        return False
    if version != V1ALPHA3 or kind in ("PodSchedulingContext", "DeviceClass"):
        return True
    return bool(_part(raw, *_spec_path(kind)).get("controller"))


def _part(raw: Json, *path: str) -> Json:
    """The object at a path; empty if there is none."""
    value: Any = raw
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _changed(raw: Json, change: Callable[[Json], Json], *path: str) -> Json:
    """A copy with the object at a path changed; ``raw`` itself if there is none."""
    if not path:
        return change(raw)
    head, *rest = path
    inner = raw.get(head)
    return {**raw, head: _changed(inner, change, *rest)} if isinstance(inner, dict) else raw


def _renamed(raw: Json, names: dict[str, str]) -> Json:
    return {names.get(name, name): value for name, value in raw.items()}


def _from_v1alpha1(raw: Json) -> Json:
    kind = "PodSchedulingContext" if raw["kind"] == "PodScheduling" else raw["kind"]
    driver = _part(raw, "status").get("driverName", "")

    def listed(allocation: Json) -> Json:
        handle = allocation.get("resourceHandle")
        if handle is None:
            return allocation
        handles = [{"driverName": driver, "data": handle}]
        return _renamed({**allocation, "resourceHandle": handles}, {"resourceHandle": "resourceHandles"})

    moved = {**raw, "apiVersion": V1ALPHA2, "kind": kind}
    return _changed(moved, listed, "status", "allocation") if kind == "ResourceClaim" else moved


def _to_v1alpha1(raw: Json) -> Json:
    kind = "PodScheduling" if raw["kind"] == "PodSchedulingContext" else raw["kind"]
    driver = _part(raw, "status").get("driverName", "")
    _refuse_v1alpha3_fields(raw, V1ALPHA1)
    if raw.get("structuredParameters"):
        raise _inexpressible(kind, "structuredParameters", f"{V1ALPHA1} has no structured parameters")

    def single(allocation: Json) -> Json:
        handles = allocation.get("resourceHandles")
        if handles is None:
            return allocation
        rest = {name: value for name, value in allocation.items() if name != "resourceHandles"}
        if not handles:
            return rest
        if len(handles) > 1 or handles[0].get("driverName", "") != driver or "structuredData" in handles[0]:
            raise _inexpressible(
                kind, "status.allocation.resourceHandles", f"{V1ALPHA1} has one opaque handle, of the claim's driver"
            )
        return {**rest, "resourceHandle": handles[0].get("data", "")}

    moved = {**raw, "apiVersion": V1ALPHA1, "kind": kind}
    return _changed(moved, single, "status", "allocation") if kind == "ResourceClaim" else moved


def _spec_path(kind: str) -> tuple[str, ...]:
    """Where a kind has the spec of a claim."""
    return ("spec", "spec") if kind == "ResourceClaimTemplate" else ("spec",)


def _refuse_v1alpha3_fields(raw: Json, version: str) -> None:
    path = _spec_path(raw["kind"])
    if raw["kind"] in ("ResourceClaim", "ResourceClaimTemplate") and _part(raw, *path).get("controller") is not None:
        text = f"{version} knows the driver by the class only"
        raise _inexpressible(raw["kind"], f"{'.'.join(path)}.controller", text)


def _from_v1alpha3(raw: Json) -> Json:
    """Empty ``devices`` are left out: v1alpha3 writes them wherever there are none."""
    moved = _changed({**raw, "apiVersion": V1ALPHA2}, _without_empty_devices, *_spec_path(raw["kind"]))
    controller = _part(raw, "status", "allocation").get("controller")
    if raw["kind"] != "ResourceClaim" or not isinstance(_part(raw, "status").get("allocation"), dict):
        return moved

    def older(status: Json) -> Json:
        kept = {name: value for name, value in status["allocation"].items() if name != "controller"}
        named = {} if controller is None else {"driverName": controller}
        allocation = _without_empty_devices(_renamed(kept, {"nodeSelector": "availableOnNodes"}))
        return {**status, **named, "allocation": allocation}

    return _changed(moved, older, "status")


def _without_empty_devices(raw: Json) -> Json:
    return {name: value for name, value in raw.items() if name != "devices" or value != {}}


def _to_v1alpha3(raw: Json) -> Json:
    kind = raw["kind"]
    moved = {**raw, "apiVersion": V1ALPHA3}
    if kind in ("ResourceClaim", "ResourceClaimTemplate"):
        path = _spec_path(kind)
        spec = _part(raw, *path)
        older = [name for name in ("resourceClassName", "parametersRef") if spec.get(name)]
        if spec.get("allocationMode") == "Immediate":
            older.append("allocationMode")
        if older or spec.get("controller") is None:
            field = older[0] if older else "controller"
            text = f"{V1ALPHA3} has claims with a controller, without class and mode"
            raise _inexpressible(kind, f"{'.'.join(path)}.{field}", text)
        kept_spec = {name: value for name, value in spec.items() if name != "allocationMode"}
        moved = _changed(moved, lambda _: {"devices": {}, **kept_spec}, *path)
    if kind != "ResourceClaim":
        return moved

    def newer(status: Json) -> Json:
        driver = status.get("driverName")
        rest = {name: value for name, value in status.items() if name != "driverName"}
        allocation = status.get("allocation")
        if not isinstance(allocation, dict):
            return rest
        if allocation.get("resourceHandles"):
            raise _inexpressible(kind, "status.allocation.resourceHandles", f"{V1ALPHA3} has no handles")
        kept = {name: value for name, value in allocation.items() if name not in ("shareable", "resourceHandles")}
        named = {"controller": driver} if driver else {}
        return {**rest, "allocation": {"devices": {}, **_renamed(kept, {"availableOnNodes": "nodeSelector"}), **named}}

    return _changed(moved, newer, "status")
