"""Everything that is known of one row, as a document: what ``virt-dra describe`` shows. The members of a kind are
always the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from virt_dra.allocator.model import DeviceId, PoolId
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import (
    Counter,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from virt_dra.api.tolerations import taint_text
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.inventory.claim_rows import ClaimRow, claim_rows
from virt_dra.inventory.device_rows import DeviceRow, attribute_text, device_rows
from virt_dra.inventory.document_types import (
    AllocatedDeviceJson,
    ClaimDetailsJson,
    ClaimLineJson,
    ClaimRequestJson,
    ConditionJson,
    DetailedVmDeviceJson,
    DeviceDetailsJson,
    DeviceLineJson,
    DriverDetailsJson,
    EventJson,
    PoolDetailsJson,
    RemarksJson,
    RowDetailsJson,
    SelectingClassesJson,
    VmDetailsJson,
    VmDeviceJson,
    VmPodJson,
)
from virt_dra.inventory.fields import InventoryRow
from virt_dra.inventory.kinds import RowOptions
from virt_dra.inventory.pool_rows import DriverRow, PoolRow, pool_rows, selected_by
from virt_dra.inventory.vm_rows import VmRow
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.devices import pools, published_device, slices_of_pools
from virt_dra.model.kept import kept_claims
from virt_dra.model.launchers import launchers_of

ObjectId = tuple[str, str, str]
"""Kind, namespace (empty for cluster-scoped kinds), name."""


class Remarks(Protocol):
    """What others say of objects."""

    def events(self, objects: Iterable[ObjectId]) -> list[EventJson]:
        """Events about the objects, oldest first."""

    def findings(self, objects: Iterable[ObjectId]) -> list[str]:
        """What the lint finds, one line each."""


@dataclass(frozen=True)
class DetailSources:
    """The sources of details. ``remarks``: of events and lint."""

    model: ClusterModel
    options: RowOptions
    remarks: Remarks


def subjects_of(row: InventoryRow, model: ClusterModel) -> tuple[ObjectId, ...]:
    """The objects whose events and findings belong to a row."""
    if isinstance(row, VmRow):
        pods = tuple((Pod.KIND, row.namespace, pod.name) for pod in launchers_of(model, row.identity))
        claims = dict.fromkeys(
            (ResourceClaim.KIND, row.namespace, device.claim) for device in row.devices if device.claim
        )
        own = tuple((kind, row.namespace, row.name) for kind in (VirtualMachine.KIND, VirtualMachineInstance.KIND))
        return (*own, *pods, *claims)
    if isinstance(row, ClaimRow):
        return ((ResourceClaim.KIND, row.namespace, row.claim.name),)
    if isinstance(row, DeviceRow):
        return ((ResourceSlice.KIND, "", row.slice.name),) if row.slice is not None else ()
    if isinstance(row, PoolRow):
        return tuple((ResourceSlice.KIND, "", slice_.name) for slice_ in slices_of_pools(model)[row.id])
    if isinstance(row, DriverRow):
        return tuple(
            (ResourceSlice.KIND, "", slice_.name)
            for pool, members in sorted(slices_of_pools(model).items())
            if pool.driver == row.name
            for slice_ in members
        )
    raise TypeError(f"{type(row).__name__} has no details")


def details_of(row: InventoryRow, sources: DetailSources) -> RowDetailsJson:
    """Everything about a row. Raises TypeError for a row of an unknown kind."""
    model, subjects = sources.model, subjects_of(row, sources.model)
    remarks: RemarksJson = {"lint": sources.remarks.findings(subjects), "events": sources.remarks.events(subjects)}
    if isinstance(row, VmRow):
        return _vm(row, sources, remarks)
    if isinstance(row, ClaimRow):
        return _claim(row, model, remarks)
    if isinstance(row, DeviceRow):
        return _device(row, model, remarks)
    if isinstance(row, PoolRow):
        return _pool(row, sources, remarks)
    if isinstance(row, DriverRow):
        return _driver(row, sources, remarks)
    raise TypeError(f"{type(row).__name__} has no details")


# --- VMs -----------------------------------------------------------------------------------------------------------


def _vm(row: VmRow, sources: DetailSources, remarks: RemarksJson) -> VmDetailsJson:
    model = sources.model
    vmi = model.by_key(VirtualMachineInstance).get(row.identity)
    stored = model.by_key(VirtualMachineInstanceDevices).get(row.identity)
    devices = {device.id: device for device in device_rows(model, sources.options.keys)}
    reported = [condition.to_wire() for condition in (stored.status.conditions if stored is not None else ())]
    conditions = _conditions([*(vmi.status.conditions if vmi is not None else ()), *reported])
    claims = {device.claim for device in row.devices if device.claim}
    claims |= {claim.name for claim in kept_claims(model, row.identity)}
    document = row.to_json()
    return {
        "kind": "vm",
        "namespace": row.namespace,
        "name": row.name,
        "object": row.kind,
        "phase": document["phase"],
        "node": document["node"],
        "ready": document["ready"],
        "reason": document["reason"],
        "message": document["message"],
        "created": document["created"],
        "labels": dict(row.labels[0]) if row.labels else {},
        "devices": [
            _vm_device(device.to_json(), devices.get(device.id) if device.id is not None else None)
            for device in row.devices
        ],
        "claims": [
            _claim_line(claim_row)
            for claim_row in claim_rows(model)
            if claim_row.namespace == row.namespace and claim_row.claim.name in claims
        ],
        "pods": [_pod(pod) for pod in launchers_of(model, row.identity)],
        "conditions": conditions,
        **remarks,
    }


def _vm_device(document: VmDeviceJson, device: DeviceRow | None) -> DetailedVmDeviceJson:
    id = document["device"]
    return {
        "name": document["name"],
        "kind": document["kind"],
        "claim": document["claim"],
        "request": document["request"],
        "driver": id["driver"] if id is not None else None,
        "pool": id["pool"] if id is not None else None,
        "device": id["device"] if id is not None else None,
        "node": device.node or None if device is not None else None,
        "model": device.model or None if device is not None else None,
        "address": document["address"],
        "states": list(device.states) if device is not None else [],
        "taints": [taint_text(taint) for taint in device.taints] if device is not None else [],
        "health": device.health if device is not None else None,
        "reason": document["reason"],
        "message": document["message"],
    }


def _pod(pod: Pod) -> VmPodJson:
    return {
        "name": pod.name,
        "phase": pod.status.phase,
        "node": pod.spec.node_name,
        "created": pod.metadata.creation_timestamp,
        "conditions": [
            f"{condition.type}={condition.status}"
            + (f" {condition.reason}" if condition.reason else "")
            + (f": {condition.message}" if condition.message else "")
            for condition in pod.status.conditions
        ],
    }


def _conditions(conditions: Iterable[Json]) -> list[ConditionJson]:
    return [
        {
            "type": str(condition.get("type") or ""),
            "status": str(condition.get("status") or ""),
            "reason": condition.get("reason") or None,
            "message": condition.get("message") or None,
            "since": condition.get("lastTransitionTime") or None,
        }
        for condition in conditions
    ]


# --- claims --------------------------------------------------------------------------------------------------------


def _claim_line(row: ClaimRow) -> ClaimLineJson:
    return {
        "name": row.claim.name,
        "state": row.state,
        "since": row.since or None,
        "node": row.node or None,
        "devices": ", ".join(map(str, row.devices)) or None,
        "for": ", ".join(user.description for user in row.users) or None,
    }


def _claim(row: ClaimRow, model: ClusterModel, remarks: RemarksJson) -> ClaimDetailsJson:
    claim = row.claim
    allocation = claim.status.allocation
    statuses = {DeviceId(status.driver, status.pool, status.device): status for status in claim.status.devices}
    allocated: list[AllocatedDeviceJson] = []
    for result in allocation.devices.results if allocation is not None else ():
        id = DeviceId(result.driver, result.pool, result.device)
        published, status = published_device(model, id), statuses.get(id)
        allocated.append({
            "request": result.request,
            "driver": result.driver,
            "pool": result.pool,
            "device": result.device,
            "published": published is not None if model.knows(ResourceSlice) else None,
            "share": result.share_id,
            "consumed": {name: str(amount) for name, amount in result.consumed_capacity.items()},
            "adminAccess": bool(result.admin_access),
            "conditions": _conditions(entry.to_wire() for entry in (status.conditions if status is not None else ())),
        })  # fmt: skip
    return {
        "kind": "claim",
        "namespace": row.namespace,
        "name": claim.name,
        "state": row.state,
        "created": claim.metadata.creation_timestamp,
        "allocated": allocation.allocation_timestamp if allocation is not None else None,
        "node": row.node or None,
        "owners": [f"{owner.kind} {owner.name}" for owner in claim.metadata.owner_references],
        "labels": dict(claim.metadata.labels),
        "requests": [line for request in claim.spec.devices.requests for line in _requests(request)],
        "constraints": [constraint.to_wire() for constraint in claim.spec.devices.constraints],
        "devices": allocated,
        "for": [user.to_json() for user in row.users],
        **remarks,
    }


def _requests(request: DeviceRequest) -> list[ClaimRequestJson]:
    if request.exactly is not None:
        return [_request(request.name, request.exactly)]
    return [_request(f"{request.name}/{subrequest.name}", subrequest) for subrequest in request.first_available]


def _request(name: str, asked: ExactDeviceRequest | DeviceSubRequest) -> ClaimRequestJson:
    return {
        "name": name,
        "class": asked.device_class_name,
        "mode": asked.allocation_mode or "ExactCount",
        "count": asked.count or (1 if asked.allocation_mode != "All" else None),
        "selectors": [selector.cel.expression for selector in asked.selectors if selector.cel is not None],
        "tolerations": [toleration.to_wire() for toleration in asked.tolerations],
        "capacity": {
            key: str(value) for key, value in (asked.capacity.requests if asked.capacity is not None else {}).items()
        },
        "adminAccess": isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access),
    }


# --- devices, pools, drivers ---------------------------------------------------------------------------------------


def _device(row: DeviceRow, model: ClusterModel, remarks: RemarksJson) -> DeviceDetailsJson:
    document, device, slice_ = row.to_json(), row.device, row.slice
    newest = pools(model).get(PoolId(row.id.driver, row.id.pool))
    return {
        "kind": "device",
        "driver": row.id.driver,
        "pool": row.id.pool,
        "name": row.id.device,
        "node": document["node"],
        "model": document["model"],
        "address": document["address"],
        "states": document["states"],
        "health": document["health"],
        "problem": document["problem"],
        "slice": slice_.name if slice_ is not None else None,
        "generation": newest.generation if newest is not None else None,
        "heldBy": document["heldBy"],
        "taints": document["taints"],
        "attributes": {name: attribute_text(value) for name, value in sorted(device.attributes.items())}
        if device is not None
        else {},
        "capacity": {name: str(capacity.value) for name, capacity in sorted(device.capacity.items())}
        if device is not None
        else {},
        "consumesCounters": [
            _counters(consumption.counter_set, consumption.counters)
            for consumption in (device.consumes_counters if device is not None else ())
        ],
        "shareable": bool(device.allow_multiple_allocations) if device is not None else None,
        "bindingConditions": list(device.binding_conditions) if device is not None else [],
        **_classes(model, slice_.with_(spec=slice_.spec.with_(devices=(device,))) if slice_ is not None else None),
        **remarks,
    }


def _classes(model: ClusterModel, slice_: ResourceSlice | None) -> SelectingClassesJson:
    selecting, undecided = selected_by(model.of(DeviceClass), [slice_] if slice_ is not None else [])
    return {
        "deviceClasses": [name for names in selecting.values() for name in names],
        "undecidedDeviceClasses": list(undecided),
    }


def _counters(counter_set: str, counters: Mapping[str, Counter]) -> dict[str, str]:
    return {"counterSet": counter_set, **{name: str(counter.value) for name, counter in sorted(counters.items())}}


def _device_line(row: DeviceRow) -> DeviceLineJson:
    return {
        "device": row.id.device,
        "node": row.node or None,
        "model": row.model or None,
        "address": row.address or None,
        "state": ",".join(row.states),
        "heldBy": ", ".join(map(str, row.holders)) or None,
        "since": row.holders[0].since or None if row.holders else None,
    }


def _pool(row: PoolRow, sources: DetailSources, remarks: RemarksJson) -> PoolDetailsJson:
    model = sources.model
    document = row.to_json()
    listed = [
        device for device in device_rows(model, sources.options.keys) if (device.id.driver, device.id.pool) == row.id
    ]
    return {
        "kind": "pool",
        "driver": row.id.driver,
        "name": row.id.pool,
        "generation": document["generation"],
        "state": document["state"],
        "problem": document["problem"],
        "announcedSlices": document["announcedSlices"],
        "nodes": document["nodes"],
        "free": document["free"],
        "slices": [
            {
                "name": slice_.name,
                "generation": slice_.spec.pool.generation,
                "counts": slice_.spec.pool.generation == row.generation,
                "devices": len(slice_.spec.devices),
                "created": slice_.metadata.creation_timestamp,
            }
            for slice_ in slices_of_pools(model)[row.id]
        ],
        "counters": [
            _counters(counters.name, counters.counters)
            for slice_ in row.slices
            for counters in slice_.spec.shared_counters
        ],
        "devices": [_device_line(device) for device in listed],
        **remarks,
    }


def _driver(row: DriverRow, sources: DetailSources, remarks: RemarksJson) -> DriverDetailsJson:
    model = sources.model
    devices = device_rows(model, sources.options.keys)
    document = row.to_json()
    classes = [class_ for class_ in model.of(DeviceClass) if class_.name in row.classes]
    return {
        "kind": "driver",
        "name": row.name,
        "nodes": document["nodes"],
        "devices": document["devices"],
        "free": document["free"],
        "allocated": document["allocated"],
        "undecidedDeviceClasses": document["undecidedDeviceClasses"],
        "deviceClasses": [
            {
                "name": class_.name,
                "extendedResource": class_.spec.extended_resource_name,
                "selectors": " && ".join(
                    selector.cel.expression for selector in class_.spec.selectors if selector.cel is not None
                )
                or None,
            }
            for class_ in classes
        ],
        "pools": [
            {
                "name": pool.id.pool,
                "generation": pool.generation,
                "state": pool.state,
                "nodes": ", ".join(pool.nodes) or None,
                "devices": pool.devices,
                "free": pool.free,
            }
            for pool in pool_rows(model, devices)
            if pool.id.driver == row.name
        ],
        "held": [
            {"pool": device.id.pool, **_device_line(device)}
            for device in devices
            if device.id.driver == row.name and device.holders
        ],
        **remarks,
    }


# --- events --------------------------------------------------------------------------------------------------------


def event_lines(events: Iterable[TypedObject], objects: Iterable[ObjectId]) -> list[EventJson]:
    """Events (of v1) about the objects, oldest first."""
    wanted = {(kind, name): namespace for kind, namespace, name in objects}
    lines: list[EventJson] = []
    for event in events:
        wire = event.to_wire()
        about = wire.get("involvedObject")
        about = about if isinstance(about, dict) else {}
        key = (about.get("kind"), about.get("name"))
        if key not in wanted or (wanted[key] and about.get("namespace", wanted[key]) != wanted[key]):
            continue
        count = wire.get("count")
        lines.append({
            "type": _text(wire.get("type")),
            "reason": _text(wire.get("reason")),
            "object": f"{key[0]}/{key[1]}",
            "count": count if isinstance(count, int) else 1,
            "last": _text(wire.get("lastTimestamp") or wire.get("eventTime") or event.metadata.creation_timestamp)
            or None,
            "message": _text(wire.get("message")),
        })  # fmt: skip
    return sorted(lines, key=lambda line: line["last"] or "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
