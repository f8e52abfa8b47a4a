"""Objects of any kind as they are written: what an API server would refuse (K-2.2, A-22, C-14), whether a VM uses them
or not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from virt_dra.api.conversion import DRA, SERVED
from virt_dra.api.defaults import defaulted
from virt_dra.api.editing.changes import MemberPath, NestMembers, RemoveMember, RenameMember, UnnestMember, ValueChange
from virt_dra.api.editing.version_changes import V1
from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_v1 import VirtualMachine
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.reading.documents import RENDER_FIRST, template_action
from virt_dra.api.reading.positions import steps_of
from virt_dra.api.schemas import walk as schema_walk
from virt_dra.api.schemas.kubevirt_schema import schema_of
from virt_dra.api.schemas.unknown_fields import FOUND_MAX, SOURCE_ADVICE, FieldCure, unknown_fields
from virt_dra.api.schemas.walk import Schema, UnknownSchemaField
from virt_dra.api.validation import validate_create
from virt_dra.api.validation.metadata import annotation_map, label_map
from virt_dra.api.wire import field_path
from virt_dra.cel.validation import COMPILED
from webhooks.api_server import stored
from webhooks.lint.finding import LintIssue
from webhooks.lint.fixes.repairs import OwnRepair, Repair, VersionRepair
from webhooks.lint.manifest import Manifest
from webhooks.verdict import FieldIssue

GENERATED: Final = "xxxxx"
"""Stands for the random suffix that an API server appends to generateName."""
GENERATED_FROM: Final = 58
"""Characters of generateName that are kept before the suffix."""
SCANNED: Final = 10_000
"""Characters of a text that are searched for a template instruction."""
REFUSED: Final = "kubectl and the API server's strict validation refuse it; otherwise it is dropped"


def unreadable_object(manifest: Manifest, release: KubeVirtVersion | None) -> Iterator[FieldIssue]:
    """Values of another type than their field's, and versions that aren't served (K-2.2)."""
    for path, message in manifest.problems:
        yield FieldIssue(path, message)


def unrendered_template(manifest: Manifest, release: KubeVirtVersion | None) -> Iterator[FieldIssue]:
    """Template instructions (``{{ … }}``, ``{% … %}``) in fields where Kubernetes has no braces."""
    for path, text in _texts(manifest.raw, ()):
        if ("{{" in text or "{%" in text) and not _may_have_braces(manifest, path):
            action = template_action(text[:SCANNED])
            if action is not None:
                text = f"`{action}` is an instruction of a template that was not rendered. {RENDER_FIRST}"
                yield FieldIssue(field_path(path), text)


def _texts(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        if isinstance(key, str) and "{" in key:
            yield (*path, key), key
        if isinstance(item, str):
            yield (*path, key), item
        else:
            yield from _texts(item, (*path, key))


def _may_have_braces(manifest: Manifest, path: tuple[Any, ...]) -> bool:
    """True for fields with texts of other languages: annotations, data for the guest or a driver, CEL."""
    if path[0] == "status" or not {"annotations", "volumes", "parameters", "expression"}.isdisjoint(path):
        return True
    return isinstance(manifest.object, UnknownObject) and path[0] != "metadata"


def unknown_field(manifest: Manifest, release: KubeVirtVersion | None) -> Iterator[FieldIssue]:
    """Fields that the kind doesn't have (K-1.9). Objects of a cluster are exempt: its API server accepted their
    fields."""
    if manifest.stored:
        return
    schema = _schema(manifest, release)
    if schema is None:
        for fault in unknown_fields(manifest.raw):
            message = fault.message if fault.advice else f"{fault.message} ({REFUSED})"
            yield LintIssue(fault.path, message, _cure(fault.path, fault.cure))
        return
    for field in islice(schema_walk.unknown_fields(manifest.raw, schema), FOUND_MAX):
        yield LintIssue(field.path, _of_kubevirt(field), _repair(field, manifest.raw))


def _repair(field: UnknownSchemaField, raw: object) -> Repair | None:
    """The repair of a field that KubeVirt doesn't have: claim references of the design, and those of old pods."""
    if field.name == "source" and "resourceClaims[" in field.path:
        return _cure(field.path, "flatten")
    if _is_design_form(field):
        return _in_kubevirts_form(tuple(steps_of(field.path)), raw)
    return None


def _in_kubevirts_form(claim: MemberPath, raw: Any) -> Repair | None:
    """The repair of a claim reference in the design's form. None beside a deviceName: only its author knows which of
    the two is meant."""
    for step in claim[:-1]:
        raw = raw[step]
    reference = raw[claim[-1]]
    if not isinstance(reference, dict) or raw.get("deviceName"):
        return None
    changes: list[ValueChange] = []
    for name, upstream in (("name", "claimName"), ("request", "requestName")):
        if name in reference:
            said_twice = upstream in raw and raw[upstream] == reference[name]
            changes.append(RemoveMember((*claim, name)) if said_twice else RenameMember((*claim, name), upstream))
    return OwnRepair((*changes, UnnestMember(claim)))


def _is_design_form(field: UnknownSchemaField) -> bool:
    return field.name == "claim" and field.nearest == "claimName"


def _cure(path: str, cure: FieldCure) -> Repair | None:
    """The repair of an unknown field, if it only stands in the wrong place."""
    steps = tuple(steps_of(path))
    if cure == "version":
        return VersionRepair()
    if cure == "flatten":
        return OwnRepair((UnnestMember(steps),))
    return OwnRepair((NestMembers(steps[:-1], (str(steps[-1]),), "spec"),)) if cure == "nest" else None


def old_version(manifest: Manifest, release: KubeVirtVersion | None) -> Iterator[FieldIssue]:
    """Versions of resource.k8s.io before v1, which API servers serve only if an administrator enables them (A-22.1)."""
    group, _, version = manifest.api_version.rpartition("/")
    is_old = group == DRA and version != "v1" and manifest.kind in SERVED["v1"]
    if is_old and manifest.object is not None and not manifest.stored:
        text = f"{quoted(manifest.api_version)} is only served where an administrator enabled it"
        yield LintIssue("apiVersion", f"{text}; Kubernetes 1.34 and newer serve {V1}", VersionRepair())


def _schema(manifest: Manifest, release: KubeVirtVersion | None) -> Schema | None:
    """The schema of a VM or VMI: of the named release, else of virt-dra's own CRDs, which also have the design's
    spelling (K-1.7)."""
    if not manifest.is_subject or not isinstance(manifest.raw, dict):
        return None
    return schema_of(manifest.kind, release)


def _of_kubevirt(field: UnknownSchemaField) -> str:
    if field.since is not None:
        return f"unknown field; it exists since KubeVirt {field.since}"
    if _is_design_form(field):
        return "unknown field; KubeVirt has claimName and requestName in its place"
    if field.name == "source" and "resourceClaims[" in field.path:
        return f"unknown field; {SOURCE_ADVICE}"
    if field.below is not None:
        return f"unknown field; put it under {field.path.removesuffix(field.name)}{field.below}.{field.name}"
    meant = f', did you mean "{field.nearest}"?' if field.nearest else ""
    return f"unknown field{meant} ({REFUSED})"


def invalid_object(manifest: Manifest, release: KubeVirtVersion | None) -> Iterator[FieldIssue]:
    """Errors of the API server's validation, with its messages."""
    schema = _schema(manifest, release)
    if schema is not None and isinstance(manifest.raw, dict):
        paths = {path for path, _ in manifest.problems}
        as_stored = stored(manifest.raw, schema, mutated=release is not None)
        for fault in islice(schema_walk.faults(as_stored, schema), FOUND_MAX):
            if fault.path not in paths:
                yield FieldIssue(fault.path, fault.message)
    obj = manifest.object
    if obj is None:
        return
    created, made = _as_created(obj)
    errors = validate_create(defaulted(created), COMPILED)
    generate_name_is_wrong = any(error.field == "metadata.generateName" for error in errors)
    for error in errors:
        field = error.field
        if made and field == "metadata.name":
            if generate_name_is_wrong:
                continue
            field = "metadata.generateName"
        yield FieldIssue(field, error.message)
    if isinstance(obj, VirtualMachine):
        template, root = obj.spec.template.metadata, "spec.template.metadata"
        text = "The API server refuses every VMI that KubeVirt makes of the template"
        labels = label_map(template.labels, f"{root}.labels")
        for error in (*labels, *annotation_map(template.annotations, f"{root}.annotations")):
            yield FieldIssue(error.field, f"{error.message}. {text}")


def _as_created(obj: TypedObject) -> tuple[TypedObject, bool]:
    """The object with the name that an API server would generate, and True if one was needed."""
    meta = obj.metadata
    if meta.name or not meta.generate_name:
        return obj, False
    return obj.with_(metadata=meta.with_(name=meta.generate_name[:GENERATED_FROM] + GENERATED)), True
