"""The structural schema (CustomResourceDefinition v1) of a wire type, so that what an API server stores and what we
read never differ.

Every field of the type is in the schema and nothing else is. Two things a type can't say are handed in: which types are
only a part of what their kind may hold (``partial``; there, unknown fields are kept), and what is required or bounded
(``additions``).
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Annotated, Any, Union, get_args, get_origin

from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.schemas.kubevirt_schema import QUANTITY
from virt_dra.api.schemas.walk import PRESERVE
from virt_dra.api.wire import Json, Wire

_SCALARS: Mapping[type, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
}


@dataclass(frozen=True)
class Additions:
    """Additions to the schema of a type: to itself, and to its fields by wire name.

    ``extra`` are properties that are read but are no fields of their own, such as a second spelling of a field.
    """

    itself: Json = field(default_factory=dict)
    fields: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Descriptions:
    """What ``kubectl explain`` says of a type, and of each of its fields by wire name."""

    itself: str
    fields: Mapping[str, str]


NOT_DESCRIBED: Mapping[type[Wire], Descriptions] = types.MappingProxyType({})
_HEAD: Mapping[str, tuple[str, str]] = {
    "apiVersion": ("string", "The version of the API in which this object is written."),
    "kind": ("string", "The kind of this object."),
    "metadata": ("object", ""),  # the API server describes it, and refuses a description
}


def cel_rule(expression: str, message: str, field: str = "") -> Json:
    """An entry of ``x-kubernetes-validations``."""
    return {"rule": expression, "message": message} | ({"fieldPath": field} if field else {})


def wire_name(kind: type[Wire], name: str) -> str:
    """The key under which a field (Python name) is written."""
    info = kind.model_fields[name]
    return info.serialization_alias or info.alias or name


def object_schema(
    kind: type[TypedObject],
    additions: Mapping[type[Wire], Additions],
    partial: Collection[type[Wire]],
    descriptions: Mapping[type[Wire], Descriptions] = NOT_DESCRIBED,
) -> Json:
    """The schema of a whole object: ``openAPIV3Schema`` of a version. The API server itself checks ``metadata``.

    ``descriptions``: of all types of the object, or of none. Raises ValueError for a field that is described or added
    to and doesn't exist.
    """
    schema = _Schemas(additions, partial, descriptions).of_wire(kind)
    described = kind in descriptions
    head = {
        key: {"type": type_} | ({"description": text} if described and text else {})
        for key, (type_, text) in _HEAD.items()
    }
    return schema | {"properties": {**head, **{k: v for k, v in schema["properties"].items() if k not in head}}}


@dataclass(frozen=True)
class _Schemas:
    additions: Mapping[type[Wire], Additions]
    partial: Collection[type[Wire]]
    descriptions: Mapping[type[Wire], Descriptions]

    def of_wire(self, kind: type[Wire]) -> Json:
        added, described = self.additions.get(kind, Additions()), self.descriptions.get(kind)
        properties: Json = {}
        for name, info in kind.model_fields.items():
            key = wire_name(kind, name)
            text = {"description": described.fields[key]} if described is not None and key in described.fields else {}
            properties[key] = text | {
                k: v for k, v in self.of_type(info.annotation).items() if not text or k != "description"
            }
            properties[key] |= added.fields.get(key, {})
        unknown = {*added.fields, *(described.fields if described is not None else ())} - set(properties)
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
        schema: Json = {"type": "object", "properties": {**properties, **added.extra}}
        if described is not None:
            schema = {"description": described.itself, **schema}
        if kind in self.partial:
            schema[PRESERVE] = True
        return schema | added.itself

    def of_type(self, annotation: Any) -> Json:
        """The schema of a field's type. Raises TypeError for a type without a JSON schema."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            return self.of_type(arguments[0])
        if origin in (Union, types.UnionType):
            return self.of_type(next(argument for argument in arguments if argument is not NoneType))
        if origin is tuple:
            return {"type": "array", "items": self.of_type(arguments[0])}
        if origin is dict:
            if arguments[1] is Any:
                return {"type": "object", PRESERVE: True}
            return {"type": "object", "additionalProperties": self.of_type(arguments[1])}
        if annotation is Any:  # a driver's parameters, an object of its own
            return {"type": "object", PRESERVE: True}
        if annotation in _SCALARS:
            return dict(_SCALARS[annotation])
        if annotation is Quantity:
            return {**QUANTITY, "maxLength": 64}
        if (
            annotation is ObjectMeta
        ):  # of a template: any metadata; the objects created from it are validated on creation
            return {"type": "object", PRESERVE: True}
        if isinstance(annotation, type) and issubclass(annotation, Wire):
            return self.of_wire(annotation)
        raise TypeError(f"no schema stands for {annotation!r}")
