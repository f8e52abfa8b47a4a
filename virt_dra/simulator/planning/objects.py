"""What applying and deleting manifests does to the objects of a cluster."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.api.keeping.claims import claim_terms, is_kept, other_consumers, vm_name_of
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.namespaces import in_namespace
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimStatus
from virt_dra.api.schemas.applying import applied_in_order
from virt_dra.api.wire import Json
from virt_dra.controllers.loops.virtual_machines import wants_instance
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

ObjectAction = Literal["create", "change", "delete", "none"]
ObjectName = tuple[str, str, str]


@dataclass(frozen=True)
class PlannedChange:
    """What becomes of an object of the manifests. ``delete``: also of what it owns, which isn't listed."""

    action: ObjectAction
    kind: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True)
class ChangedCluster:
    """A cluster before and after, with VMs as they are admitted. ``changes``: of the manifests."""

    before: ClusterModel
    after: ClusterModel
    changes: tuple[PlannedChange, ...]


def changed_cluster(
    before: ClusterModel, applied: Iterable[TypedObject], deleted: Iterable[TypedObject], namespace: str
) -> ChangedCluster:
    """The cluster with manifests applied as by ``kubectl apply``, and the objects of others deleted with all that they
    own. A VM that is stopped loses its instance, and what it no longer asks to keep. ``before``: VMs as written."""
    applied = [in_namespace(obj, namespace) for obj in applied]
    deleted = [in_namespace(obj, namespace) for obj in deleted]
    stored_before = {_identity(obj): obj for obj in before.objects}
    changes = [PlannedChange(_action(obj, stored_before.get(_identity(obj))), *_identity(obj)) for obj in applied]
    changes += [PlannedChange("delete", *_identity(obj)) for obj in deleted if _identity(obj) in stored_before]
    # An unchanged one keeps what the server added.
    effective = [obj for obj, change in zip(applied, changes, strict=False) if change.action != "none"]
    stored = applied_in_order([*before.objects, *effective], namespace)
    stopped = {obj.key for obj in effective if isinstance(obj, VirtualMachine) and not wants_instance(obj)}
    gone = {_identity(obj) for obj in deleted}
    gone |= {_identity(obj) for obj in stored if isinstance(obj, VirtualMachineInstance) and obj.key in stopped}
    gone |= {_identity(claim) for claim in _given_up(stored, {obj.key for obj in effective}, gone)}
    gone = _with_dependents(gone, stored)
    left = [obj for obj in stored if _identity(obj) not in gone]
    pods = {(namespace, name) for kind, namespace, name in gone if kind == "Pod"}
    kept = (_released(obj, pods) if isinstance(obj, ResourceClaim) else obj for obj in left)
    after = ClusterModel(kept, namespace, before.unread, before.partial)
    return ChangedCluster(as_admitted(before), as_admitted(after), tuple(changes))


def _identity(obj: TypedObject) -> ObjectName:
    return (obj.kind or obj.KIND, obj.namespace, obj.name)


def _action(manifest: TypedObject, existing: TypedObject | None) -> ObjectAction:
    if existing is None:
        return "create"
    wanted, stored = manifest.to_wire(), existing.to_wire()
    wanted.pop("status", None)  # the server's
    return "none" if _contains(stored, wanted) and not _left_out(existing, wanted) else "change"


def _contains(stored: object, wanted: object) -> bool:
    """True if everything that is wanted is stored already: an API server adds defaults and fields of its own."""
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            name in stored and _contains(stored[name], value) for name, value in wanted.items() if value is not None
        )
    if isinstance(wanted, list):
        return (
            isinstance(stored, list)
            and len(stored) == len(wanted)
            and all(_contains(entry, value) for entry, value in zip(stored, wanted, strict=True))
        )
    return stored == wanted


def _left_out(existing: TypedObject, wanted: Json) -> bool:
    """True if the manifest that was applied last had something that this one hasn't."""
    text = existing.metadata.annotations.get(LAST_APPLIED)
    if text is None:
        return False
    try:
        earlier: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(earlier, dict):
        return False
    return not _contains({"metadata": {}, **wanted}, {"spec": earlier.get("spec"), **_labels(earlier)})


def _labels(manifest: Mapping[str, object]) -> Json:
    metadata = manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return {"metadata": {"labels": labels}} if labels else {}


def _with_dependents(gone: set[ObjectName], objects: Sequence[TypedObject]) -> set[ObjectName]:
    """The objects with all that the garbage collector deletes after them: those whose owners are all gone."""
    owned = [obj for obj in objects if obj.metadata.owner_references]
    deleted = set(gone)
    while True:
        more = {
            _identity(obj)
            for obj in owned
            if _identity(obj) not in deleted
            and all((owner.kind, obj.namespace, owner.name) in deleted for owner in obj.metadata.owner_references)
        }
        if not more:
            return deleted
        deleted |= more


def _given_up(
    objects: Iterable[TypedObject], changed: Collection[str], gone: Collection[ObjectName]
) -> Iterator[ResourceClaim]:
    """The claims that the keeper deletes, as their stopped VMs no longer ask for it. ``changed``: what is applied."""
    left = [obj for obj in objects if _identity(obj) not in gone]
    running = {obj.key for obj in left if isinstance(obj, VirtualMachineInstance) and not obj.finished}
    stopped = {
        obj.key: obj
        for obj in left
        if isinstance(obj, VirtualMachine) and obj.key in changed and obj.key not in running
    }
    for claim in left:
        if isinstance(claim, ResourceClaim) and is_kept(claim) and not other_consumers(claim):
            vm = stopped.get(f"{claim.namespace}/{vm_name_of(claim)}")
            if vm is not None and claim_terms(vm, claim)[0] is None:
                yield claim


def _released(claim: ResourceClaim, ended: Collection[tuple[str, str]]) -> ResourceClaim:
    """The claim without its devices, if all pods that it was reserved for have ended (C-10)."""
    users = claim.status.reserved_for
    if not users or not all(user.resource == "pods" and (claim.namespace, user.name) in ended for user in users):
        return claim
    return claim.with_(status=ResourceClaimStatus())
