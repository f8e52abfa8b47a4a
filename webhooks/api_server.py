"""The API server's part of admission: unknown fields, pruning, types, names (K-2.2, K-2.34). Pure.

Types and required fields are checked after KubeVirt's mutating webhook, which writes empty values where required ones
are missing (K-2.36).

The design's spelling of a claim reference (K-1.7) is a field of virt-dra's own CRDs only; an API server with KubeVirt's
drops it (K-1.9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from virt_dra.api import names
from virt_dra.api.counting import counted
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.schemas.kubevirt_schema import schema_of
from virt_dra.api.schemas.walk import (
    Schema,
    SchemaFault,
    UnknownSchemaField,
    conforms,
    faults,
    pruned,
    rewritten,
    unknown_fields,
)
from virt_dra.api.validation import metadata
from virt_dra.api.validation.field_errors import invalid
from virt_dra.api.wire import Json, WireError
from webhooks.verdict import INVALID, AdmissionCause

FieldValidation = Literal["Strict", "Warn", "Ignore"]
"""How unknown fields are treated: ``Strict`` refuses them (kubectl's default), ``Warn`` drops them with a warning (the
default of all other clients), ``Ignore`` drops them silently."""

UNKNOWN_FIELD: Final = "unknown-field"
"""The id of the warning (docs/lint)."""
MAX_UNKNOWN: Final = 100
"""Unknown fields that are reported by name; the others are only counted."""
_DESIGN: Final = "claim"
_OURS_ONLY: Final = "a KubeVirt's API server drops this field; for a KubeVirt write claimName and requestName instead"


@dataclass(frozen=True)
class Received:
    """An object after decoding: its remaining fields, the causes to refuse it (if any), and warnings about dropped
    fields."""

    object: Json
    causes: tuple[AdmissionCause, ...] = ()
    warnings: tuple[str, ...] = ()
    undecoded: bool = False
    """True if strict decoding refused it, so that nothing else was checked."""


def received(
    raw: Json, kind: str, version: KubeVirtVersion | None, validation: FieldValidation = "Warn", old: Json | None = None
) -> Received:
    """An object decoded by the schema of a KubeVirt release; ``version`` None: by that of virt-dra's own CRDs, where
    there is no KubeVirt.

    ``old``: the object before an update. Faults that it had already are no reason to refuse (an API server's ratcheting
    validation).
    """
    schema = schema_of(kind, version)
    if conforms(raw, schema):
        return Received(raw, warnings=tuple(_design_form(raw)) if version is None and validation == "Warn" else ())
    unknown = tuple(islice(unknown_fields(raw, schema), MAX_UNKNOWN + 1))
    if unknown and validation == "Strict":
        return Received(raw, tuple(_strict(unknown, raw, schema)), undecoded=True)
    left = stored(raw, schema, mutated=version is not None and (old is None or kind == VirtualMachine.KIND))
    warnings: tuple[str, ...] = ()
    if validation == "Warn":
        warnings = (*_dropped(unknown, raw, schema, version), *(_design_form(raw) if version is None else ()))
    schema_faults: list[SchemaFault] = list(faults(left, schema))
    if schema_faults and old is not None:
        before = set(faults(stored(old, schema, mutated=False), schema))
        schema_faults = [fault for fault in schema_faults if fault not in before]
    causes = tuple(AdmissionCause(fault.type, fault.message, fault.path, "api-server") for fault in schema_faults)
    return Received(left, causes, warnings)


def stored(raw: Json, schema: Schema, *, mutated: bool) -> Json:
    """The object as its schema is checked: pruned, and if ``mutated`` as KubeVirt's mutator writes spec and status
    again, with empty values of required fields (K-2.36)."""
    left: Json = pruned(raw, schema)
    if mutated and isinstance(left, dict):
        return {
            key: rewritten(value, schema.properties[key]) if key in ("spec", "status") else value
            for key, value in left.items()
        }
    return left


def refused_names(raw: Json) -> Iterator[AdmissionCause]:
    """Errors in an object's names, labels and annotations. A missing name is accepted: it may be assigned later."""
    try:
        meta = ObjectMeta.from_wire(raw.get("metadata") or {})
    except WireError:
        return  # wrong types are faults of the schema, which received() reports
    if meta.generate_name:
        for detail in names.dns1123_subdomain(names.without_trailing_dash(meta.generate_name)):
            yield _invalid("metadata.generateName", meta.generate_name, detail)
    if meta.name:
        for detail in names.dns1123_subdomain(meta.name):
            yield _invalid("metadata.name", meta.name, detail)
    labels = metadata.label_map(meta.labels, "metadata.labels") if meta.labels else ()
    annotations = metadata.annotation_map(meta.annotations, "metadata.annotations") if meta.annotations else ()
    for error in (*labels, *annotations):
        yield AdmissionCause(error.type.value, error.message, error.field, "api-server")


def _invalid(field: str, value: str, detail: str) -> AdmissionCause:
    return AdmissionCause(INVALID, invalid(field, value, detail).message, field, "api-server")


def _strict(unknown: tuple[UnknownSchemaField, ...], raw: Json, schema: Schema) -> Iterator[AdmissionCause]:
    for field in unknown[:MAX_UNKNOWN]:
        yield AdmissionCause(INVALID, f"strict decoding error: {field}", field.path, "api-server")
    if len(unknown) > MAX_UNKNOWN:
        yield AdmissionCause(INVALID, f"strict decoding error: {_more(raw, schema)}", "", "api-server")


def _dropped(
    unknown: tuple[UnknownSchemaField, ...], raw: Json, schema: Schema, version: KubeVirtVersion | None
) -> Iterator[str]:
    for field in unknown[:MAX_UNKNOWN]:
        yield f"{field.path}: [{UNKNOWN_FIELD}] {_dropped_field(field, version)}"
    if len(unknown) > MAX_UNKNOWN:
        yield f"[{UNKNOWN_FIELD}] {_more(raw, schema)}"


def _dropped_field(field: UnknownSchemaField, version: KubeVirtVersion | None) -> str:
    if version is None:
        return str(field)
    if field.since is not None:
        return f"KubeVirt {version} does not know this field and drops it; it exists since KubeVirt {field.since}"
    if field.name == _DESIGN and field.nearest == "claimName":
        return f'unknown field "{field.path}", which the API server drops; write claimName and requestName instead'
    return f"{field} The API server drops it" if field.nearest else f"{field}, which the API server drops"


def _more(raw: Json, schema: Schema) -> str:
    count = sum(1 for _ in unknown_fields(raw, schema)) - MAX_UNKNOWN
    return counted(count, "more unknown field")


def _design_form(raw: Json) -> Iterator[str]:
    """A warning for each claim reference in the design's spelling."""
    spec, root = raw.get("spec"), "spec"
    if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
        spec, root = spec["template"].get("spec"), "spec.template.spec"
    devices = _object(_object(spec, "domain"), "devices")
    for kind in ("gpus", "hostDevices"):
        entries = devices.get(kind)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and entry.get(_DESIGN) is not None:
                path = f"{root}.domain.devices.{kind}[{index}].{_DESIGN}"
                yield f"{path}: [{UNKNOWN_FIELD}] {_OURS_ONLY}"


def _object(value: object, name: str) -> Json:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}
