"""Go's rendering of values in messages: most faults show a field's text, some a whole struct.

Checks generated from an API version's types (Kubernetes' declarative validation) show the struct as that version's
JSON, :func:`versioned`. Checks written by hand work on Kubernetes' internal types, which have no JSON names,
:func:`internal`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic.fields import FieldInfo

from virt_dra.api.meta import ObjectMeta
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    AllocatedDeviceStatus,
    CELDeviceSelector,
    CounterSet,
    DeviceAttribute,
    DeviceCounterConsumption,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    PartitionTypeStatus,
    ResourceClaimConsumerReference,
)
from virt_dra.api.scheduling_v1 import PodGroupResourceClaim, PodGroupResourceClaimStatus, PodGroupTemplate
from virt_dra.api.validation.field_errors import Struct
from virt_dra.api.wire import Wire

_WRITTEN_EMPTY: dict[type[Wire], tuple[str, ...]] = {
    AllocatedDeviceStatus: ("driver", "pool", "device", "conditions"),
    CELDeviceSelector: ("expression",),
    CounterSet: ("name",),
    DeviceCounterConsumption: ("counter_set",),
    DeviceDerivedAttribute: ("name", "expression"),
    DeviceRequest: ("name",),
    DeviceSubRequest: ("name", "device_class_name"),
    ExactDeviceRequest: ("device_class_name",),
    OpaqueDeviceConfiguration: ("driver", "parameters"),
    PartitionTypeStatus: ("attribute", "type"),
    PodGroupResourceClaim: ("name",),
    PodGroupResourceClaimStatus: ("name",),
    PodGroupTemplate: ("name", "scheduling_policy"),
    ResourceClaimConsumerReference: ("resource", "name", "uid"),
}
"""Fields without ``omitempty``: written even if empty."""

_INITIALISMS = {"id": "ID", "uid": "UID", "cel": "CEL", "api": "API", "ips": "IPs"}
_INTERNAL_NAMES: dict[type[Wire], dict[str, str]] = {
    DeviceAttribute: {
        "string": "StringValue", "version": "VersionValue",
        "ints": "IntValues", "bools": "BoolValues", "strings": "StringValues", "versions": "VersionValues",
    },
}  # fmt: skip


def versioned(value: object) -> object:
    """A struct as JSON of the API version: wire names in the order of the fields, empty ones left out."""
    if isinstance(value, Wire):
        written = _WRITTEN_EMPTY.get(type(value), ())
        fields = ((name, info, getattr(value, name)) for name, info in type(value).model_fields.items())
        return Struct(
            {
                info.alias or name: None if member == () else versioned(member)
                for name, info, member in fields
                if name in written or _is_written(member, info)
            }
        )
    return _entries(value, versioned)


def _is_written(member: object, field: FieldInfo) -> bool:
    """True if Go writes it despite ``omitempty``: a pointer that is set, raw JSON, and everything not empty."""
    if member is None or (member in ((), {}) and field.annotation is not Any):
        return False
    return field.default is None or member not in ("", 0)


def internal(value: object) -> object:
    """A struct without JSON names as JSON: Go's names, nothing left out, ``null`` for absent fields.

    Only object metadata has JSON names there, too; where it is embedded its fields stand among those of the struct.
    """
    if isinstance(value, Wire):
        names = _INTERNAL_NAMES.get(type(value), {})
        shown = Struct()
        for name in type(value).model_fields:
            member = getattr(value, name)
            if isinstance(member, ObjectMeta):
                shown.update(member.to_wire())
            else:
                absent = member in ((), {}) and not isinstance(member, Wire) and not value.given(name)
                shown[names.get(name) or _go_name(name)] = None if absent else internal(member)
        return shown
    return _entries(value, internal)


def _entries(value: object, form: Callable[[object], object]) -> object:
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, tuple | list):
        return [form(entry) for entry in value]
    return {key: form(entry) for key, entry in value.items()} if isinstance(value, dict) else value


def _go_name(name: str) -> str:
    """The Go name of a field: ``share_id`` -> ``ShareID``."""
    return "".join(_INITIALISMS.get(part, part.capitalize()) for part in name.split("_"))
