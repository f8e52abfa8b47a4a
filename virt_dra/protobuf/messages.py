"""Protobuf messages, made at run time from tables of fields, in a pool of descriptors of their own: packages of the
kubelet are called just ``v1``, which another library might use, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass


class FieldForm(Enum):
    SINGLE = "single"
    OPTIONAL = "optional"
    """Whether it is there is known, also for the empty value."""
    REPEATED = "repeated"
    MAP = "map"
    """From a string to the type."""


@dataclass(frozen=True, slots=True)
class WireField:
    """``type``: a key of ``_SCALARS``, or the name of an enum or of a message of the same package."""

    number: int
    name: str
    type: str = "string"
    form: FieldForm = FieldForm.SINGLE


Table = Mapping[str, tuple[WireField, ...]]

_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}
_POOL: Final = DescriptorPool()


class MessagePackage:
    """The message classes of one protobuf package, by name."""

    def __init__(self, package: str, table: Table, enums: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """``enums``: name -> names of its values, numbered from 0."""
        enums = enums or {}
        file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, values in enums.items():
            enum = file.enum_type.add(name=name)
            for number, value in enumerate(values):
                enum.value.add(name=value, number=number)
        for name, fields in table.items():
            message = file.message_type.add(name=name)
            for field in fields:
                _add_field(message, field, package, frozenset(enums))
        _POOL.Add(file)
        self.package = package
        self._classes = {name: GetMessageClass(_POOL.FindMessageTypeByName(f"{package}.{name}")) for name in table}

    def __getitem__(self, name: str) -> Any:
        return self._classes[name]

    def __contains__(self, name: str) -> bool:
        return name in self._classes


def _add_field(message: DescriptorProto, field: WireField, package: str, enums: frozenset[str]) -> None:
    descriptor = message.field.add(name=field.name, number=field.number)
    several = field.form in (FieldForm.REPEATED, FieldForm.MAP)
    descriptor.label = FieldDescriptorProto.LABEL_REPEATED if several else FieldDescriptorProto.LABEL_OPTIONAL
    if field.form is FieldForm.MAP:
        entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, WireField(1, "key"), package, enums)
        _add_field(entry, WireField(2, "value", field.type), package, enums)
        descriptor.type = FieldDescriptorProto.TYPE_MESSAGE
        descriptor.type_name = f".{package}.{message.name}.{entry.name}"
    elif field.type in _SCALARS:
        descriptor.type = _SCALARS[field.type]
    else:
        is_enum = field.type in enums
        descriptor.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE
        descriptor.type_name = f".{package}.{field.type}"
    if field.form is FieldForm.OPTIONAL:
        descriptor.proto3_optional = True
        descriptor.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
