"""Validation of metadata: names, labels, annotations, owners, finalizers, and immutable fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from virt_dra.api import names
from virt_dra.api.go_text import quoted
from virt_dra.api.meta import ObjectMeta, OwnerReference, TypedObject, UnknownObject
from virt_dra.api.names import byte_length, without_trailing_dash
from virt_dra.api.resource_v1 import DeviceClass
from virt_dra.api.validation.field_errors import Errors, each_invalid, forbidden, immutable, invalid, required, too_long
from virt_dra.api.validation.formats import label, label_name

ANNOTATIONS_MAX = 256 * 1024
"""The most bytes of all keys and values together."""

STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
"""Every other finalizer of Kubernetes' own kinds has a domain."""

NameRule = Callable[[str], tuple[str, ...]]


def path_segment(name: str) -> tuple[str, ...]:
    """The faults of a name for kinds whose own rule we don't know: any name must be usable in a URL."""
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{char}'" for char in "/%" if char in name)


def created(obj: TypedObject, name_rule: NameRule) -> Errors:
    """The faults of an object's metadata before it is stored: a generated name is filled in already."""
    meta, path = obj.metadata, "metadata"
    if meta.generate_name and not isinstance(obj, DeviceClass):  # for a class only the generated name is checked
        yield from each_invalid(
            f"{path}.generateName", meta.generate_name, name_rule(without_trailing_dash(meta.generate_name))
        )
    if meta.name:
        yield from each_invalid(f"{path}.name", meta.name, name_rule(meta.name))
    else:
        yield required(f"{path}.name", "name or generateName is required")
    yield from _namespace(obj, f"{path}.namespace")
    if (meta.generation or 0) < 0:
        yield invalid(f"{path}.generation", meta.generation, "must be greater than or equal to 0")
    yield from _lists_and_maps(obj, path)


def updated(new: TypedObject, old: TypedObject, *, needs_version: bool = False) -> Errors:
    """The faults of an update of metadata. ``needs_version``: it must have a resourceVersion (C-13.2).

    Fields that the server owns (uid, times) may be left out; given, they must not differ.
    """
    meta, before, path = new.metadata, old.metadata, "metadata"
    if before.deletion_timestamp is not None:
        added = sorted(set(meta.finalizers) - set(before.finalizers))
        if added:
            shown = "[]string{" + ", ".join(map(quoted, added)) + "}"
            rule = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield forbidden(f"{path}.finalizers", f"{rule} {shown}")
    if needs_version and not meta.resource_version:
        yield invalid(f"{path}.resourceVersion", 0, "must be specified for an update")
    grace, before_grace = meta.deletion_grace_period_seconds, before.deletion_grace_period_seconds
    owned: tuple[tuple[str, object, object], ...] = (
        ("name", meta.name, before.name),
        ("namespace", meta.namespace, before.namespace),
        ("uid", meta.uid or before.uid, before.uid),
        ("creationTimestamp", meta.creation_timestamp or before.creation_timestamp, before.creation_timestamp),
        ("deletionTimestamp", meta.deletion_timestamp or before.deletion_timestamp, before.deletion_timestamp),
        ("deletionGracePeriodSeconds", before_grace if grace is None else grace, before_grace),
    )
    for field, value, stored in owned:
        if value != stored:
            yield immutable(f"{path}.{field}", value)
    yield from _lists_and_maps(new, path)


def _lists_and_maps(obj: TypedObject, path: str) -> Errors:
    meta = obj.metadata
    yield from label_map(meta.labels, f"{path}.labels")
    yield from annotation_map(meta.annotations, f"{path}.annotations")
    yield from _owners(meta.owner_references, f"{path}.ownerReferences")
    yield from _finalizers(meta.finalizers, f"{path}.finalizers")
    if _is_native(obj):
        yield from _finalizer_names(meta.finalizers, f"{path}.finalizers")


def of_template(meta: ObjectMeta, path: str) -> Errors:
    """The faults of a template's metadata: only labels and annotations are allowed."""
    yield from annotation_map(meta.annotations, f"{path}.annotations")
    yield from label_map(meta.labels, f"{path}.labels")
    for name, field in ObjectMeta.model_fields.items():
        value = getattr(meta, name)
        if name not in ("labels", "annotations") and (
            value or (value == 0 and name == "deletion_grace_period_seconds")
        ):
            # Kubernetes makes the path of the name in Go, which is UID.
            yield forbidden(f"{path}.{'uID' if name == 'uid' else field.alias}", "cannot be set")


def label_map(values: Mapping[str, str], path: str) -> Errors:
    for key, value in values.items():
        yield from label_name(key, path)
        yield from each_invalid(path, value, names.label_value(value))


def annotation_map(values: Mapping[str, str], path: str) -> Errors:
    for key in values:
        # As a label's key, but in upper or lower case.
        yield from each_invalid(path, key, names.label_key(key.lower()))
    if sum(byte_length(key) + byte_length(value) for key, value in values.items()) > ANNOTATIONS_MAX:
        yield too_long(path, ANNOTATIONS_MAX)


def _namespace(obj: TypedObject, path: str) -> Errors:
    if isinstance(obj, UnknownObject):
        return
    if not obj.NAMESPACED:
        if obj.namespace:
            yield forbidden(path, "not allowed on this type")
    elif obj.namespace:
        yield from label(obj.namespace, path)
    else:
        yield required(path)


def _owners(owners: tuple[OwnerReference, ...], path: str) -> Errors:
    controller = ""
    for index, owner in enumerate(owners):
        entry = f"{path}[{index}]"
        group, _, version = owner.api_version.rpartition("/")
        if not owner.api_version:
            yield required(f"{entry}.apiVersion", "must not be empty")
        elif not version or "/" in group:
            yield invalid(f"{entry}.apiVersion", owner.api_version, "must be <group>/<version> or <version>")
        for field, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                yield required(f"{entry}.{field}", "must not be empty")
        if owner.kind == "Event" and owner.api_version == "v1":
            yield invalid(entry, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.controller:
            this = f"{owner.kind}/{owner.name}"
            if controller:
                rule = 'Only one reference can have Controller set to true. Found "true" in references for'
                yield invalid(path, owners, f"{rule} {controller} and {this}")
            else:
                controller = this


def _is_native(obj: TypedObject) -> bool:
    """True for Kubernetes' own kinds; a custom resource may have any well-formed finalizer, as KubeVirt's older."""
    group = (obj.api_version or obj.API_VERSION).rpartition("/")[0]
    return not isinstance(obj, UnknownObject) and ("." not in group or group.endswith(".k8s.io"))


def _finalizer_names(finalizers: tuple[str, ...], path: str) -> Errors:
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            yield invalid(
                f"{path}[{index}]", finalizer, "name is neither a standard finalizer name nor is it fully qualified"
            )


def _finalizers(finalizers: tuple[str, ...], path: str) -> Errors:
    for finalizer in finalizers:
        yield from label_name(finalizer, path)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")
