"""Unknown fields in kinds of resource.k8s.io, in our own settings, and in the claims of a Pod, as an API server's
strict validation finds them.

An object is checked as written, in the version that it names: v1beta1 has other fields than v1 (A-22.2, A-22.3). Our
types of the group have every field (``tests/api/test_fields.py``), so fields that they lack don't exist. Of a Pod only
the parts that we model completely are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, get_args, get_origin

from virt_dra.api.core_v1 import PodResourceClaim, ResourceClaimReference
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.nearest import nearest
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import (
    Device,
    DeviceClass,
    DeviceRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClaimTemplateSpec,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from virt_dra.api.wire import Wire, bare_type, field_path

GROUP: Final = "resource.k8s.io"
_KINDS: Final[Mapping[str, type[Wire]]] = {
    kind.KIND: kind
    for kind in (
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        DeviceClass,
        DeviceTaintRule,
        ResourcePoolStatusRequest,
    )
}
_OURS: Final[Mapping[str, type[Wire]]] = {kind.KIND: kind for kind in (VirtDraNodePolicy, DeviceProfile, KeepPolicy)}
FOUND_MAX: Final = 50
"""The most unknown fields of one object that are reported."""

SOURCE_ADVICE: Final = (
    "write what is in it, resourceClaimName or resourceClaimTemplateName, "
    "beside name (Kubernetes had source until 1.30)"
)
"""The advice for the nested source of a claim entry, which older pods have (K-1.10)."""

FieldCure = Literal["", "version", "nest", "flatten"]
"""The object has the shape of another version; the field belongs one level deeper; or its members belong beside it."""

FieldPath = tuple[str | int, ...]
Fields = Mapping[str, Any]
"""Wire name -> the type of what stands there."""


@dataclass(frozen=True)
class UnknownField:
    """An unknown field. ``path`` includes it. ``meant``: the most similar known field. ``advice``: more, where the
    cause is known; ``cure``: what then helps."""

    path: str
    meant: str | None = None
    advice: str = ""
    cure: FieldCure = ""

    @property
    def message(self) -> str:
        """``unknown field, did you mean "gpus"?``."""
        if self.advice:
            return f"unknown field; {self.advice}"
        return f'unknown field, did you mean "{self.meant}"?' if self.meant else "unknown field"


def unknown_fields(raw: object) -> tuple[UnknownField, ...]:
    """All of them, in the order in which they are written, at most :data:`FOUND_MAX`; none in an object of another
    kind.

    Values of a wrong type are skipped: reading the object reports them.
    """
    if not isinstance(raw, dict):
        return ()
    api_version, kind = raw.get("apiVersion"), raw.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return ()
    group, _, version = api_version.rpartition("/")
    unknown: Iterator[UnknownField]
    if group == GROUP and kind in _KINDS:
        unknown = _walk(raw, _KINDS[kind], (), _flat_fields if version in ("v1alpha3", "v1beta1") else _fields)
    elif api_version == VirtDraNodePolicy.API_VERSION and kind in _OURS:
        unknown = _walk(raw, _OURS[kind], (), _fields)
    elif (group, kind) == ("", "Pod"):
        unknown = _of_pod(raw)
    else:
        return ()
    return tuple(islice(unknown, FOUND_MAX))


def _of_pod(raw: Mapping[str, Any]) -> Iterator[UnknownField]:
    spec = raw.get("spec")
    if not isinstance(spec, dict):
        return
    yield from _walk(spec.get("resourceClaims"), tuple[PodResourceClaim, ...], ("spec", "resourceClaims"), _fields)
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            resources = container.get("resources") if isinstance(container, dict) else None
            claims = resources.get("claims") if isinstance(resources, dict) else None
            path = ("spec", kind, index, "resources", "claims")
            yield from _walk(claims, tuple[ResourceClaimReference, ...], path, _fields)


# --- the fields of a type -----------------------------------------------------------------------------------------


def _fields(kind: type[Wire]) -> Fields:
    return {info.serialization_alias or info.alias or name: info.annotation for name, info in kind.model_fields.items()}


class BasicDevice(Device):
    """``devices[].basic`` of v1alpha3 and v1beta1."""


def _flat_fields(kind: type[Wire]) -> Fields:
    """The fields of v1alpha3 and v1beta1: a request's exact part is inlined, a device's fields are in ``basic``."""
    if kind is DeviceRequest:
        return {**{name: type for name, type in _fields(kind).items() if name != "exactly"}, **_EXACT}
    if kind is Device:
        return {"name": str, "basic": BasicDevice}
    if kind is BasicDevice:
        return {name: type for name, type in _fields(Device).items() if name != "name"}
    return _fields(kind)


_EXACT: Final = _fields(ExactDeviceRequest)


def _advice(kind: type[Wire], name: str, flat: bool) -> tuple[str, FieldCure]:
    """The advice and cure for fields that belong to another version, or one level deeper."""
    if kind is DeviceRequest and name in _EXACT and not flat:
        return "put it under exactly, or say apiVersion: resource.k8s.io/v1beta1, which has it here", "version"
    if kind is DeviceRequest and name == "exactly":
        advice = "this version has its members beside name; put them there, or say apiVersion: resource.k8s.io/v1"
        return advice, "version"
    if kind is Device and name == "basic":
        advice = "put its members into the device, or say apiVersion: resource.k8s.io/v1beta1, which has it here"
        return advice, "version"
    if kind is Device and flat:
        return "put it under basic, or say apiVersion: resource.k8s.io/v1, which has it here", "version"
    if kind is ResourceClaimTemplateSpec and name == "devices":
        return "a template has the spec of its claims one level deeper: spec.spec.devices", "nest"
    if kind is PodResourceClaim and name == "source":
        return SOURCE_ADVICE, "flatten"
    return "", ""


def _walk(
    value: object, annotation: Any, path: FieldPath, fields: Callable[[type[Wire]], Fields]
) -> Iterator[UnknownField]:
    annotation = bare_type(annotation)
    origin = get_origin(annotation)
    if origin is tuple and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, get_args(annotation)[0], (*path, index), fields)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, get_args(annotation)[1], (*path, key), fields)
    elif isinstance(annotation, type) and issubclass(annotation, Wire) and isinstance(value, dict):
        declared = fields(annotation)
        for key, item in value.items():
            if key in declared:
                yield from _walk(item, declared[key], (*path, key), fields)
            else:
                yield UnknownField(
                    field_path((*path, key)),
                    _meant(annotation, key, declared),
                    *_advice(annotation, key, fields is _flat_fields),
                )


def _meant(kind: type[Wire], name: str, declared: Fields) -> str | None:
    """The most similar field; for a request also of those under ``exactly``, which v1beta1 writes without it."""
    meant = nearest(name, declared)
    if meant is None and kind is DeviceRequest and "exactly" in declared:
        inner = nearest(name, _EXACT)
        return None if inner is None else f"exactly.{inner}"
    return meant
