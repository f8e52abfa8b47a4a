"""The schemas of VirtualMachine and VirtualMachineInstance, by KubeVirt release: names, types, required fields, keys of
lists.

    schema_of("VirtualMachine", version)             to walk objects with (virt_dra.api.schemas.walk)
    structural_schema("VirtualMachine", version)     the same as an API server takes it in a CustomResourceDefinition

The fields are data, ``kubevirt_schema.json`` (tools/kubevirt_schema.py makes it). Of a type it names the fields, each
with the type of its value: ``string``, ``integer``, ``boolean``, ``quantity``, ``int-or-string``, ``any``, another
type, ``{}`` (an object without fields), ``[x]`` (a list) or ``{x}`` (a map). ``!`` behind a name means required. Behind
a type: ``key=a,b`` (keys of a list), ``set``, ``max=n``, ``enum=A|B``. A field ``*`` keeps unknown fields.

Which release has which field is known for those that matter here (K-1.2, K-1.5, K-2.31); all others count as known
everywhere, so that a field of another release is never taken for a misspelt one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

from virt_dra.api.kubevirt_versions import BEFORE_DRA, V1_6_0, V1_8_0, V1_9_0, KubeVirtVersion
from virt_dra.api.schemas.walk import LATER, PRESERVE, UNPROPOSED, ZEROS, Schema
from virt_dra.api.wire import Json

KINDS: Final = ("VirtualMachine", "VirtualMachineInstance")

_SINCE: Final[Mapping[tuple[str, str], KubeVirtVersion]] = {
    ("VirtualMachineInstanceSpec", "resourceClaims"): V1_6_0,
    ("GPU", "claimName"): V1_6_0,
    ("GPU", "requestName"): V1_6_0,
    ("HostDevice", "claimName"): V1_6_0,
    ("HostDevice", "requestName"): V1_6_0,
    ("VirtualMachineInstanceStatus", "deviceStatus"): V1_6_0,
    ("Memory", "reservedOverhead"): V1_8_0,
    ("Volume", "containerPath"): V1_8_0,
    ("Interface", "passtBinding"): V1_8_0,
    ("Network", "resourceClaim"): V1_9_0,
}
_GONE: Final[Mapping[tuple[str, str], KubeVirtVersion]] = {("VirtualMachineInstanceStatus", "deviceStatus"): V1_8_0}
_ONCE_REQUIRED: Final[Mapping[tuple[str, str], KubeVirtVersion]] = {
    ("GPU", "deviceName"): V1_6_0,
    ("HostDevice", "deviceName"): V1_6_0,
}
"""Required in releases before the given one (K-2.31)."""

_CLAIM: Final = {"name": "string", "request": "string"}
_STANDALONE: Final[Mapping[str, Mapping[str, str]]] = {
    "GPU": {"claim": "DesignClaim"},
    "HostDevice": {"claim": "DesignClaim"},
    "DesignClaim": _CLAIM,
}
"""Additional fields of our own kinds (K-1.7)."""
_OPTIONAL_STANDALONE: Final = (("VirtualMachineInstanceSpec", "domain"), ("DomainSpec", "devices"))

_GO_ZEROS: Final[Mapping[str, str | int | bool]] = {"string": "", "integer": 0, "boolean": False}
"""KubeVirt's mutators write these values of required fields that are missing. Without a required object, list or
quantity their OpenAPI document refuses the VM (K-2.36)."""

_INT_OR_STRING: Final[Json] = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
QUANTITY: Final[Json] = {
    **_INT_OR_STRING,
    "pattern": r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(([numkMGTPE]|[KMGTPE]i)|[eE][+-]?[0-9]+)?$",
}
_SCALARS: Final[Mapping[str, Json]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "quantity": QUANTITY,
    "int-or-string": _INT_OR_STRING,
    "any": {"type": "object", PRESERVE: True},
    "": {"type": "object"},
}


@lru_cache(maxsize=64)
def schema_of(kind: str, version: KubeVirtVersion | None) -> Schema:
    """The schema of one of :data:`KINDS` in a KubeVirt; without a version, that of our own kinds, where there is no
    KubeVirt.

    Ours have all fields of the newest release and the design's ``claim`` (K-1.7), and ask for no ``domain``. Fields of
    newer releases are named in it with theirs, for messages.
    """
    return Schema.from_structural(_Builder(version).object(kind))


@lru_cache(maxsize=64)
def structural_schema(kind: str, version: KubeVirtVersion) -> Json:
    """The schema as ``openAPIV3Schema`` of a CustomResourceDefinition. Not to be changed: it is shared, and so are
    parts of it."""
    schema = _Builder(version, published=True).object(kind)
    return {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}


@lru_cache(maxsize=1)
def _types() -> Mapping[str, Mapping[str, str]]:
    types: Mapping[str, Mapping[str, str]] = json.loads(
        files("virt_dra.api.schemas").joinpath("kubevirt_schema.json").read_text("utf-8")
    )
    return types


class _Builder:
    """Builds the schemas of one release, each type once. ``published``: without what no API server knows."""

    def __init__(self, version: KubeVirtVersion | None, published: bool = False) -> None:
        self._version, self._published = version, published
        self._made: dict[str, Json] = {}

    def object(self, name: str) -> Json:
        if name in self._made:
            return self._made[name]
        schema = self._made[name] = {"type": "object"}
        fields = dict(_types().get(name, {}))
        if self._version is None and name in _STANDALONE:
            if fields:
                schema[UNPROPOSED] = [*_STANDALONE[name]]
            fields |= _STANDALONE[name]
        properties: Json = {}
        required: list[str] = []
        later: dict[str, str] = {}
        zeros: dict[str, str | int | bool] = {}
        for written, kind in fields.items():
            field = written.removesuffix("!")
            if field == "*":
                schema[PRESERVE] = True
                continue
            since = _SINCE.get((name, field), BEFORE_DRA)
            if self._version is not None and self._version < since:
                later[field] = f"{since.major}.{since.minor}"
                continue
            if self._version is not None and (name, field) in _GONE and self._version >= _GONE[name, field]:
                continue
            properties[field] = self._type(kind)
            if self._is_required(name, field, written.endswith("!")):
                required.append(field)
                if written.endswith("!") and kind in _GO_ZEROS:
                    zeros[field] = _GO_ZEROS[kind]
        schema["properties"] = properties
        if required:
            schema["required"] = required
        if later and not self._published:
            schema[LATER] = later
        if zeros and self._version is not None and not self._published:
            schema[ZEROS] = zeros
        return schema

    def _is_required(self, name: str, field: str, marked: bool) -> bool:
        if self._version is None:
            return marked and (name, field) not in _OPTIONAL_STANDALONE
        return marked or self._version < _ONCE_REQUIRED.get((name, field), BEFORE_DRA)

    def _type(self, text: str) -> Json:
        kind, *more = text.split(" ")
        if kind.startswith("["):
            schema: Json = {"type": "array", "items": self._type(kind[1:-1])}
        elif kind.startswith("{") and kind != "{}":
            schema = {"type": "object", "additionalProperties": self._type(kind[1:-1])}
        elif kind in _SCALARS or kind == "{}":
            schema = dict(_SCALARS[kind.strip("{}")])
        else:
            return self.object(kind)
        for word in more:
            schema |= _option(word)
        return schema


def _option(word: str) -> Json:
    name, _, value = word.partition("=")
    match name:
        case "key":
            return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": value.split(",")}
        case "set":
            return {"x-kubernetes-list-type": "set"}
        case "max":
            return {"maxItems": int(value)}
        case "enum":
            return {"enum": value.split("|")}
    raise ValueError(f"kubevirt_schema.json: unknown option {word}")
