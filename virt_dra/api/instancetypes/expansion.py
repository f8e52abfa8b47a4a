"""Expanding a VirtualMachine by its instancetype and preference, as KubeVirt does (K-16). Pure.

Only fields that affect devices and the pod's size are expanded: gpus, hostDevices, CPU, memory, node selector,
annotations, machine type. The objects are kept as they were read, whatever their version, and parsed when a VM names
them, so that a malformed one affects no other VM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from virt_dra.api.instancetypes.names import (
    CLUSTER_INSTANCETYPE,
    CLUSTER_PREFERENCE,
    GROUP,
    INSTANCETYPE,
    KINDS,
    PREFERENCE,
    REVISED,
    REVISION,
)
from virt_dra.api.instancetypes.rules import (
    INVALID,
    NOT_FOUND,
    InstancetypeRefusal,
    InstancetypeSpec,
    PreferenceSpec,
    apply_instancetype,
    apply_preference,
    spread_conflicts,
    unmet_requirement,
)
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstanceTemplate
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import WireError


@dataclass(frozen=True)
class MissingReference:
    """An object that isn't known. ``kind``: "" where only a volume names it. ``field``: of the reference, in the VM."""

    kind: str
    name: str
    field: str
    meant: str = ""
    """The existing object of this name that has the other of the two kinds, which was probably meant."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.kind else self.name


@dataclass(frozen=True)
class Expansion:
    """A VM with its instancetype and preference applied.

    ``vm``: as KubeVirt validates it and creates its VMI from it, as far as that is known; without ``spec.instancetype``
    if that was found. ``refusals``: why KubeVirt refuses the VM before it validates it. ``missing``: what could not be
    applied.
    """

    vm: VirtualMachine
    refusals: tuple[InstancetypeRefusal, ...] = ()
    missing: tuple[MissingReference, ...] = ()


@dataclass(frozen=True)
class Instancetypes:
    """The instancetypes, preferences and revisions to name, by kind, namespace ("" for cluster-scoped) and name."""

    objects: Mapping[tuple[str, str, str], TypedObject] = field(default_factory=dict)

    @classmethod
    def from_objects(cls, objects: Iterable[TypedObject], namespace: str) -> Instancetypes:
        """The instancetypes among the objects; of one name the last. ``namespace``: of those that name none."""
        by_name: dict[tuple[str, str, str], TypedObject] = {}
        for obj in objects:
            group, kind = obj.api_version.rpartition("/")[0], obj.kind
            if (group == GROUP and kind in KINDS) or (group == "apps" and kind == REVISION):
                own = "" if kind in (CLUSTER_INSTANCETYPE, CLUSTER_PREFERENCE) else obj.namespace or namespace
                by_name[kind, own, obj.name] = obj
        return cls(by_name)


def expand(vm: VirtualMachine, instancetypes: Instancetypes, namespace: str) -> Expansion:
    """The VM with instancetype and preference applied (K-16.1 to K-16.6). ``namespace``: of a VM that names none."""
    namespace = vm.namespace or namespace
    try:
        instancetype = _referenced_spec(vm, instancetypes, namespace, _INSTANCETYPES)
        preference = _referenced_spec(vm, instancetypes, namespace, _PREFERENCES)
    except _Refused as refused:
        return Expansion(vm, refused.refusals)
    missing = tuple(reference for reference in (instancetype, preference) if isinstance(reference, MissingReference))
    sizes = instancetype if isinstance(instancetype, InstancetypeSpec) else None
    preferred = preference if isinstance(preference, PreferenceSpec) else None
    if sizes is None and preferred is None:
        return Expansion(vm, (), missing)
    wire = vm.spec.template.to_wire()
    conflicts = [
        *spread_conflicts(sizes, preferred),
        *(apply_instancetype(wire, sizes, preferred) if sizes is not None else ()),
    ]
    if conflicts:
        return Expansion(vm, tuple(conflicts), missing)
    if preferred is not None:
        apply_preference(wire, preferred)
        lacking = unmet_requirement(wire, sizes, preferred)
        if lacking is not None:
            return Expansion(vm, (lacking,), missing)
    try:
        template = VirtualMachineInstanceTemplate.from_wire(wire)
    except WireError as error:
        message = f"what the instancetype says can't be read: {error}"
        return Expansion(vm, (InstancetypeRefusal(INVALID, message, "spec.instancetype"),), missing)
    spec = vm.spec.with_(template=template)
    return Expansion(vm.with_(spec=spec.without("instancetype") if sizes is not None else spec), (), missing)


# --- finding ---


class _Refused(Exception):
    def __init__(self, *refusals: InstancetypeRefusal) -> None:
        self.refusals = refusals
        super().__init__(*(refusal.message for refusal in refusals))


@dataclass(frozen=True)
class _Family:
    """Either: ``member`` of the VM's spec, its kinds, its reference in the VM's status, and what its spec is."""

    member: str
    matcher: str
    kind: str
    cluster_kind: str
    reference: str
    spec: type[InstancetypeSpec] | type[PreferenceSpec]

    @property
    def field(self) -> str:
        return f"spec.{self.member}"

    def refused(self, message: str) -> _Refused:
        return _Refused(InstancetypeRefusal(NOT_FOUND, message, self.field))


_INSTANCETYPES: Final = _Family(
    "instancetype", "InstancetypeMatcher", INSTANCETYPE, CLUSTER_INSTANCETYPE, "instancetypeRef", InstancetypeSpec
)
_PREFERENCES: Final = _Family(
    "preference", "PreferenceMatcher", PREFERENCE, CLUSTER_PREFERENCE, "preferenceRef", PreferenceSpec
)


def _referenced_spec(
    vm: VirtualMachine, instancetypes: Instancetypes, namespace: str, family: _Family
) -> InstancetypeSpec | PreferenceSpec | MissingReference | None:
    """The spec of the instancetype or preference that the VM names, if any (K-16.1). Raises :class:`_Refused`."""
    matcher = (vm.spec.model_extra or {}).get(family.member)
    if not isinstance(matcher, Mapping):
        return None
    name, kind, revision = (_text(matcher, key) for key in ("name", "kind", "revisionName"))
    if not name:
        if not _text(matcher, "inferFromVolume"):
            raise family.refused(
                f"Either Name or InferFromVolume should be provided within the {family.member} matcher"
            )
        described = f"the {family.member} that volume {_text(matcher, 'inferFromVolume')} names"
        return MissingReference("", described, f"{family.field}.inferFromVolume")
    wanted = _kind(kind, family)
    if wanted is None:
        raise family.refused(f"Failure to find {family.member}: got unexpected kind in {family.matcher}: {kind}")
    if revision:
        held = instancetypes.objects.get((REVISION, namespace, revision))
        if held is None:
            return MissingReference(REVISION, f"{namespace}/{revision}", f"{family.field}.revisionName")
        return _read(_data(held), family, f"{REVISION} {namespace}/{revision}")
    noted = _stored_revision(vm, family)
    held = instancetypes.objects.get((REVISION, namespace, noted))
    if held is not None and held.metadata.labels.get(REVISED) == name:
        return _read(_data(held), family, f"{REVISION} {held.key}")
    own = "" if wanted == family.cluster_kind else namespace
    obj = instancetypes.objects.get((wanted, own, name))
    key = f"{own}/{name}" if own else name
    if obj is not None:
        return _read(obj.to_wire(), family, f"{wanted} {key}")
    if noted and held is None:
        # That of the VM's start, whatever became of the object.
        return MissingReference(REVISION, f"{namespace}/{noted}", f"{family.field}.name")
    other, place = (family.kind, namespace) if wanted == family.cluster_kind else (family.cluster_kind, "")
    return MissingReference(
        wanted, key, f"{family.field}.name", other if (other, place, name) in instancetypes.objects else ""
    )


def _kind(kind: str, family: _Family) -> str | None:
    """The kind that a reference means: singular or plural in any case; without one, the cluster-scoped kind."""
    for candidate in (family.kind, family.cluster_kind):
        if kind.lower() in (candidate.lower(), f"{candidate.lower()}s"):
            return candidate
    return None if kind else family.cluster_kind


def _stored_revision(vm: VirtualMachine, family: _Family) -> str:
    """The revision that KubeVirt started the VM with."""
    reference = vm.status.get(family.reference)
    held = reference.get("controllerRevisionRef") if isinstance(reference, Mapping) else None
    return _text(held, "name") if isinstance(held, Mapping) else ""


def _data(revision: TypedObject) -> object:
    return (revision.model_extra or {}).get("data")


def _read(raw: object, family: _Family, title: str) -> InstancetypeSpec | PreferenceSpec:
    spec = raw.get("spec") if isinstance(raw, Mapping) else None
    kind = _text(raw, "kind") if isinstance(raw, Mapping) else ""
    if kind not in ("", family.kind, family.cluster_kind):
        raise family.refused(f"{title} holds a {kind}, which is no {family.member}")
    try:
        read = family.spec.from_wire(spec)
    except WireError as error:
        problems = "; ".join(f"spec.{path}: {message}" if path else message for path, message in error.problems)
        raise family.refused(f"{title} can't be read: {problems}") from None
    if lacking := read.lacking:
        raise family.refused(
            f"{title} is incomplete, so the API server does not store it: "
            f"{'; '.join(f'spec.{field}: Required value' for field in lacking)}"
        )
    return read


def _text(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""
