"""Older API versions of resource.k8s.io and kubevirt.io -> the version we work in, and back (A-22.1..A-22.3, K-1.1,
K-1.10).

Pure functions over JSON objects; the input is never changed, what needs no change is shared. Only what the versions
write differently is touched, so unknown fields survive. A value of the wrong JSON type is left where it is: reading it
into a type reports it with its path.

    resource.k8s.io  v1alpha3 (1.31, 1.32)  as v1beta1, and a capacity is a bare quantity
                     v1beta1                a request's exact part is inlined, a device's fields are in ``basic``
                     v1beta2, v1            the same shape
    kubevirt.io      v1alpha3, v1           the same shape
    v1 (Pod), kubevirt.io                   ``resourceClaims[].source`` of old examples is flattened

Classic DRA (v1alpha2, and the fields it left in v1alpha3 of 1.31) is refused by name. A list kind stays as it is: its
items carry their own version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virt_dra.api.wire import Json, WireError

DRA = "resource.k8s.io"
KUBEVIRT = "kubevirt.io"

_FOUR = frozenset({"ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass"})
_RULE = "DeviceTaintRule"
_POOL_REQUEST = "ResourcePoolStatusRequest"
SERVED: dict[str, frozenset[str]] = {
    "v1": _FOUR | {_RULE},
    "v1beta2": _FOUR | {_RULE},
    "v1beta1": _FOUR,
    "v1alpha3": _FOUR | {_RULE, _POOL_REQUEST},
}
"""Kinds by version (A-22.1; v1alpha3 also as it was in Kubernetes 1.31 and 1.32)."""
FLAT = frozenset({"v1alpha3", "v1beta1"})
"""Versions in which a request's exact part is inlined and a device's fields are in ``basic``."""
_CLASSIC_KINDS = frozenset(
    {"PodScheduling", "PodSchedulingContext", "ResourceClass", "ResourceClassParameters", "ResourceClaimParameters"}
)
_CLASSIC = (
    "belongs to classic DRA, where a driver's controller allocates; "
    "Kubernetes removed it in 1.32 and it is not supported"
)
_SELECTORS_GONE = "was removed in Kubernetes 1.35 and is not supported; select by driver, pool and device"
EXACT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
"""The fields of a request that v1 has under ``exactly``."""
REQUESTS: dict[str, tuple[str, ...]] = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
"""Where a kind's requests are."""


def to_v1(raw: Json) -> Json:
    """A JSON object in any supported version -> the same object in v1 (ResourcePoolStatusRequest: v1alpha3).

    Objects of other groups come back unchanged, but for the flattened claim source of a Pod. Raises :class:`WireError`
    for a version or kind of resource.k8s.io or kubevirt.io that isn't supported, for classic DRA and for
    contradictions.
    """
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or kind.endswith("List"):
        return raw
    group, _, version = api_version.rpartition("/")
    if group == DRA:
        return _dra_to_v1(raw, version, kind)
    if group == KUBEVIRT:
        _require_kubevirt(api_version, kind)
        return _with_flat_sources({**raw, "apiVersion": f"{KUBEVIRT}/v1"} if version != "v1" else raw, kind)
    return _with_flat_sources(raw, kind) if api_version == "v1" else raw


def from_v1(raw: Json, api_version: str) -> Json:
    """A v1 object -> the same object in ``api_version``, which must serve its kind.

    What an older version cannot say stays under its v1 name, so that ``to_v1(from_v1(x, v))`` gives ``x`` again but for
    what v1beta1 doesn't distinguish (A-22.3): empty and absent lists of taints, tolerations and consumed counters, and
    a slice's ``nodeName: ""`` or ``allNodes: false`` and none. Raises :class:`WireError`.
    """
    kind = raw.get("kind")
    if raw.get("apiVersion") == api_version or not isinstance(kind, str) or kind.endswith("List"):
        return raw
    group, _, version = api_version.rpartition("/")
    own_group = str(raw.get("apiVersion")).rpartition("/")[0]
    if group != own_group or group not in (DRA, KUBEVIRT):
        raise WireError(kind, (("apiVersion", f"{raw.get('apiVersion')!r} cannot be written as {api_version!r}"),))
    if group == KUBEVIRT:
        _require_kubevirt(api_version, kind)
        return {**raw, "apiVersion": api_version}
    _require_served(kind, version)
    source = to_v1(raw)
    if version in FLAT:
        source = _converted(source, kind, _request_from_v1, lambda device: _device_from_v1(device, version))
    return {**source, "apiVersion": api_version}


def _require_kubevirt(api_version: str, kind: str) -> None:
    if api_version not in (f"{KUBEVIRT}/v1", f"{KUBEVIRT}/v1alpha3"):
        detail = f"{api_version!r} is not supported; supported are kubevirt.io/v1 and v1alpha3"
        raise WireError(kind, (("apiVersion", detail),))


def _dra_to_v1(raw: Json, version: str, kind: str) -> Json:
    _require_served(kind, version)
    if version == "v1" or kind == _POOL_REQUEST:
        return raw
    if version == "v1alpha3":
        _refuse_removed_fields(raw, kind)
    if version in FLAT:
        raw = _converted(raw, kind, _request_to_v1, lambda device: _device_to_v1(device, version))
        if kind == "ResourceSlice":
            raw = _at(raw, ("spec",), _slice_spec_to_v1)
    return {**raw, "apiVersion": f"{DRA}/v1"}


def _require_served(kind: str, version: str) -> None:
    if kind in _CLASSIC_KINDS:
        raise WireError(kind, (("kind", f"{kind} {_CLASSIC}"),))
    if version not in SERVED:
        supported = ", ".join(SERVED)
        why = _CLASSIC if version in ("v1alpha1", "v1alpha2") else "is not supported"
        raise WireError(kind, (("apiVersion", f"{DRA}/{version} {why}; supported are {supported}"),))
    if kind not in SERVED[version]:
        versions = ", ".join(served for served, kinds in SERVED.items() if kind in kinds)
        elsewhere = ("apiVersion", f"{kind} does not exist in {DRA}/{version}; it does in {versions}")
        raise WireError(kind, (elsewhere if versions else ("kind", f"{DRA}/{version} has no kind {kind}"),))


_REMOVED: dict[str, tuple[tuple[str, ...], ...]] = {
    "ResourceClaim": (
        ("spec", "controller"),
        ("status", "allocation", "controller"),
        ("status", "deallocationRequested"),
    ),
    "ResourceClaimTemplate": (("spec", "spec", "controller"),),
    "DeviceClass": (("spec", "suitableNodes"),),
    _RULE: (("spec", "deviceSelector", "deviceClassName"), ("spec", "deviceSelector", "selectors")),
}
"""Fields of v1alpha3 that are gone. Dropping one would silently change who allocates, or which devices a taint hits."""


def _refuse_removed_fields(raw: Json, kind: str) -> None:
    problems = []
    for path in _REMOVED.get(kind, ()):
        value: Any = raw
        for field in path:
            value = value.get(field) if isinstance(value, dict) else None
        if value:
            problems.append((".".join(path), _SELECTORS_GONE if kind == _RULE else _CLASSIC))
    if problems:
        raise WireError(kind, tuple(problems))


def _converted(raw: Json, kind: str, request: Callable[[Json], Json], device: Callable[[Json], Json]) -> Json:
    """The object with its requests, devices and results converted. Requests and devices raise with their path."""
    if kind == "ResourceClaim":
        results = ("status", "allocation", "devices", "results")
        raw = _with_converted_items(raw, results, _without_empty_tolerations, kind)
    if kind in REQUESTS:
        return _with_converted_items(raw, REQUESTS[kind], request, kind)
    return _with_converted_items(raw, ("spec", "devices"), device, kind) if kind == "ResourceSlice" else raw


# --- requests (A-22.2) --------------------------------------------------------------------------------------------


def _request_to_v1(request: Json) -> Json:
    """``{name, deviceClassName, …}`` -> ``{name, exactly: {deviceClassName, …}}`` if any of these says something."""
    inlined, rest = _split(request, EXACT)
    if _is_object_list(rest.get("firstAvailable")):
        rest["firstAvailable"] = [_without_empty_tolerations(sub) for sub in rest["firstAvailable"]]
    if any(is_set(value) for value in inlined.values()):
        given = rest.get("exactly")
        if given is not None and not isinstance(given, dict):
            return request
        rest["exactly"] = _without_empty_tolerations(_merged(inlined, given or {}, "exactly"))
    return rest


def _request_from_v1(request: Json) -> Json:
    exactly = request.get("exactly")
    if _is_object_list(request.get("firstAvailable")):
        request = {**request, "firstAvailable": [_without_empty_tolerations(sub) for sub in request["firstAvailable"]]}
    if not isinstance(exactly, dict) or not any(is_set(exactly.get(field)) for field in EXACT):
        return request
    inlined, unknown = _split(exactly, EXACT)
    _, rest = _split(request, ("exactly",))
    return rest | _without_empty_tolerations(inlined) | ({"exactly": unknown} if unknown else {})


def is_set(value: object) -> bool:
    """True if Go considers the field set: no empty string, no zero count; a given list or pointer counts, even empty or
    false."""
    return value is not None and value != "" and (isinstance(value, bool) or value != 0)


def _without_empty_tolerations(owner: Json) -> Json:
    return {field: value for field, value in owner.items() if field != "tolerations" or value != []}


# --- slices (A-22.3) ----------------------------------------------------------------------------------------------


def _slice_spec_to_v1(spec: Json) -> Json:
    unset = {"nodeName": "", "allNodes": False}
    return {
        field: value for field, value in spec.items() if field not in unset or value is None or value != unset[field]
    }


def _device_to_v1(device: Json, version: str) -> Json:
    """``{name, basic: {attributes, …}}`` -> ``{name, attributes, …}``; a device that is flat already stays so."""
    basic = device.get("basic")
    if basic is not None and not isinstance(basic, dict):
        return device
    _, inline = _split(device, ("basic",))
    flat = _without_empty_lists(_merged(inline, basic or {}, "basic"))
    capacity = flat.get("capacity")
    if version == "v1alpha3" and isinstance(capacity, dict):
        flat["capacity"] = {k: {"value": v} if is_bare_quantity(v) else v for k, v in capacity.items()}
    return flat


def is_bare_quantity(value: object) -> bool:
    """True for a capacity as v1alpha3 writes it, without ``value``."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _device_from_v1(device: Json, version: str) -> Json:
    name, rest = _split(device, ("name",))
    basic = _without_empty_lists(rest)
    capacity = basic.get("capacity")
    if version == "v1alpha3" and isinstance(capacity, dict):
        basic["capacity"] = {
            k: v["value"] if isinstance(v, dict) and list(v) == ["value"] else v for k, v in capacity.items()
        }
    return {**name, "basic": basic}


def _without_empty_lists(device: Json) -> Json:
    return {
        field: value for field, value in device.items() if not (field in ("taints", "consumesCounters") and value == [])
    }


# --- the claim source of a pod or VM (K-1.10) ---------------------------------------------------------------------

_CLAIM_LISTS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec", "resourceClaims"),
    "VirtualMachineInstance": ("spec", "resourceClaims"),
    "VirtualMachine": ("spec", "template", "spec", "resourceClaims"),
}
_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def _with_flat_sources(raw: Json, kind: str) -> Json:
    path = _CLAIM_LISTS.get(kind)
    return _with_converted_items(raw, path, _with_flat_source, kind) if path else raw


def _with_flat_source(claim: Json) -> Json:
    """``{name, source: {resourceClaimName}}`` (core/v1 until Kubernetes 1.30) -> ``{name, resourceClaimName}``."""
    source = claim.get("source")
    if not isinstance(source, dict) or not any(field in source for field in _SOURCES):
        return claim
    moved, unknown = _split(source, _SOURCES)
    _, rest = _split(claim, ("source",))
    return _merged(rest | ({"source": unknown} if unknown else {}), moved, "source")


# --- walking ------------------------------------------------------------------------------------------------------


class _Contradiction(ValueError):
    """A field that has different values in two places. Carries the path below the converted entry."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(message)


def _split(owner: Json, fields: tuple[str, ...]) -> tuple[Json, Json]:
    """Those of the fields that an object has, and its others."""
    rest = {field: value for field, value in owner.items() if field not in fields}
    return {field: owner[field] for field in fields if field in owner}, rest


def _merged(outer: Json, inner: Json, inner_name: str) -> Json:
    for field, value in inner.items():
        if field in outer and outer[field] != value:
            raise _Contradiction(
                f"{inner_name}.{field}", f"differs from {field} beside {inner_name}; give only one of them"
            )
    return outer | inner


def _at(raw: Json, path: tuple[str, ...], change: Callable[[Json], Json]) -> Json:
    """The object with ``change`` applied to the object at ``path``, if there is one."""
    if not path:
        return change(raw)
    below = raw.get(path[0])
    return {**raw, path[0]: _at(below, path[1:], change)} if isinstance(below, dict) else raw


def _with_converted_items(raw: Json, path: tuple[str, ...], change: Callable[[Json], Json], kind: str) -> Json:
    """The object with every object of the list at ``path`` changed. Raises one WireError for all contradictions."""
    problems: list[tuple[str, str]] = []

    def changed(index: int, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        try:
            return change(entry)
        except _Contradiction as contradiction:
            problems.append((f"{'.'.join(path)}[{index}].{contradiction.path}", str(contradiction)))
            return entry

    def over_list(owner: Json) -> Json:
        entries = owner.get(path[-1])
        if not isinstance(entries, list):
            return owner
        return {**owner, path[-1]: [changed(i, entry) for i, entry in enumerate(entries)]}

    converted = _at(raw, path[:-1], over_list)
    if problems:
        raise WireError(kind, tuple(problems))
    return converted


def _is_object_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
