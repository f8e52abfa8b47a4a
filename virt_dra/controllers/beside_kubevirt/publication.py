"""Publishes where a VMI's devices are beside KubeVirt: in an object of our own and an annotation of the VMI (K-5.21, K-9.2, 0012).

One VMI at a time: :func:`gather` looks up, :func:`plan` decides, ``writes`` writes. A plan is empty when all is as it should be.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import Addresses, addresses
from virt_dra.api.integration.device_claims import assign, read_device_claims
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, PART_OF, PART_OF_LABEL
from virt_dra.api.integration.record import Integration
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.meta import Condition
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim
from virt_dra.api.virt_dra_v1alpha1 import MigrationTarget, VirtualMachineInstanceDevices
from virt_dra.controllers.beside_kubevirt.devices_object import (
    finished,
    frozen_in,
    metadata_of,
    owned_by,
    status_for,
    target_for,
    transitions,
)
from virt_dra.controllers.beside_kubevirt.pod_creation import with_creation_failure
from virt_dra.controllers.devices.delivery import NOTHING_UNFILLED, with_obstacles
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.published import PoolView, PublishedDevices
from virt_dra.controllers.devices.report import ReportContext, device_report
from virt_dra.controllers.devices.resolution import (
    DEFAULTS,
    DeviceResolution,
    DeviceSubject,
    DeviceWarning,
    ResolutionOptions,
    ResolvedDevice,
    dra_devices,
    resolve,
)
from virt_dra.controllers.events import Event, shortened, warning
from virt_dra.controllers.loops.device_status import SHARED_ADDRESS
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of, migration_target
from virt_dra.controllers.sources import FINISHED, Sources, address_on, claim_keys, ends, pools_of
from virt_dra.controllers.writes import Create, Delete, PatchAnnotations, Update, Write

BAD_RECORD: Final = "BadIntegrationAnnotation"
"""Event: the pod's annotation can't be read, so nobody knows what was done to the pod."""


@dataclass(frozen=True)
class DeviceInputs:
    """Everything that plans for one VMI depend on. ``pods``: its launcher pods that haven't finished; ``pod``: the current one.

    ``claims``: those that the pods name, as far as they exist; ``published``: the pools that their allocations name. ``holders``:
    address (:func:`sources.address_on`) -> the keys of VMIs that publish it.
    """

    vmi: VirtualMachineInstance
    pods: tuple[Pod, ...]
    pod: Pod | None
    claims: Mapping[str, ResourceClaim]
    published: PublishedDevices
    rules: tuple[DeviceTaintRule, ...]
    stored: VirtualMachineInstanceDevices | None
    holders: Mapping[str, tuple[str, ...]]
    now: datetime
    options: ResolutionOptions = DEFAULTS


@dataclass(frozen=True)
class PublicationPlan:
    """``events`` are told once the actions are done."""

    actions: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()


NOTHING: Final = PublicationPlan()


Holding = Callable[[Sources, str], Iterable[str]]
"""An address (:func:`sources.address_on`) -> the keys of VMIs that have it."""


def gather(
    sources: Sources, key: str, now: datetime, options: ResolutionOptions = DEFAULTS, holding: Holding | None = None
) -> DeviceInputs | None:
    """What is known about a VMI (``namespace/name``); None if it isn't there, or there is nothing to do about it any more.

    ``holding``: who has an address, if not who publishes it in an object of ours.
    """
    vmi = sources.vmi(key)
    if vmi is None or not vmi.metadata.uid or ends(vmi):
        return None
    pods = tuple(pod for pod in launcher_pods_of(vmi, sources.pods_of(vmi)) if pod.status.phase not in FINISHED)
    named = {name: sources.claim(name) for pod in pods for name in claim_keys(pod)}
    claims = {name: claim for name, claim in named.items() if claim is not None}
    pools: dict[tuple[str, str], PoolView] = {}
    for driver, name in dict.fromkeys(pair for claim in claims.values() for pair in pools_of(claim)):
        pool = sources.pool(driver, name)
        if pool is not None:
            pools[driver, name] = pool
    current = current_pod(vmi, pods)
    published = PublishedDevices(pools)
    held = {
        address: tuple(sorted(each for each in (holding or _publishing)(sources, address) if each != key))
        for address in _addresses(current, claims, published, options)
    }
    rules = tuple(rule for rule in sources.taint_rules() if _may_concern(rule, pools))
    return DeviceInputs(vmi, pods, current, claims, published, rules, sources.devices(key), held, now, options)


def _publishing(sources: Sources, address: str) -> Iterable[str]:
    return (each.key for each in sources.holders(address) if _holds(sources, each))


def _holds(sources: Sources, devices: VirtualMachineInstanceDevices) -> bool:
    """Whether what it publishes is still its VMI's: devices of one that ends are given to the next before its object is gone."""
    vmi = sources.vmi(devices.key)
    return vmi is not None and not ends(vmi) and owned_by(devices, vmi)


def _addresses(pod: Pod | None, claims: Mapping[str, ResourceClaim], published: PublishedDevices, options: ResolutionOptions) -> set[str]:
    """Of every allocated device of the pod's claims."""
    found: set[str] = set()
    node = pod.spec.node_name if pod is not None else None
    if pod is None or not node:
        return found
    for key in claim_keys(pod):
        allocation = claims[key].status.allocation if key in claims else None
        for result in allocation.devices.results if allocation is not None else ():
            pool = published.pool(result.driver, result.pool)
            for device in pool.devices(result.device) if pool is not None else ():
                known = addresses(result.driver, device.device.attributes, options.keys)
                if isinstance(known, Addresses):
                    found.add(address_on(node, known.pci, known.mdev))
    return found


def _may_concern(rule: DeviceTaintRule, pools: Mapping[tuple[str, str], PoolView]) -> bool:
    selector = rule.spec.device_selector
    return selector is not None and any(selector.driver in (None, driver) and selector.pool in (None, pool) for driver, pool in pools)


def plan(inputs: DeviceInputs, pending: Condition | None = None, unfilled: Mapping[str, str] = NOTHING_UNFILLED) -> PublicationPlan:
    """``pending``: why the pod waits for a node (``pending``), if that was found out now. ``unfilled``: why the current pod can't be
    filled in (``delivery.NOT_FILLED_IN``)."""
    vmi, pod, stored = inputs.vmi, inputs.pod, inputs.stored
    if stored is not None and stored.metadata.deletion_timestamp is not None:
        return NOTHING  # made anew once it is gone
    record, events = _record(vmi, pod)
    claimed = dra_devices(vmi)
    devices = _subjects(vmi, pod, record)
    theirs = stored is not None and not owned_by(stored, vmi)
    before = None if theirs else stored
    if not devices:
        gone = (Delete.of(stored),) if stored is not None and not theirs else ()
        return PublicationPlan((*gone, *_annotation(vmi, None)))
    options = replace(inputs.options, now=inputs.now)
    resolution = resolve(vmi, pod, inputs.claims.values(), inputs.published, options, devices)
    resolution = with_shared(resolution, inputs)
    running = vmi.status.phase == "Running"
    if pod is None:
        resolution = with_creation_failure(resolution, vmi, inputs.now, inputs.options.began)
    resolution = with_obstacles(resolution, vmi, pod, record, options.writers, running=running, unfilled=unfilled)
    known = device_report(resolution, ReportContext(running, frozen_in(before, pod), inputs.rules, pod))
    target, more = _target(inputs, before)
    status = status_for(known, pod, record, before, claimed, pending, inputs.now, target)
    events = (*events, *more)
    actions: list[Write] = []
    if before is None:
        made = VirtualMachineInstanceDevices(metadata=metadata_of(vmi), status=status)
        # One of an earlier VMI of this name is in the way until the garbage collector comes to it.
        actions += [Delete.of(stored), Create(made)] if stored is not None else [Create(made)]
    elif status.to_wire() != before.status.to_wire() or before.metadata.labels.get(PART_OF_LABEL) != PART_OF:
        labels = {**before.metadata.labels, PART_OF_LABEL: PART_OF}
        actions.append(Update(before.with_(metadata=before.metadata.with_(labels=labels), status=status)))
    told = transitions(vmi, before.status if before is not None else None, status) if actions else ()
    return PublicationPlan((*actions, *_annotation(vmi, status.device_status)), (*(events if actions else ()), *told))


def plan_finished(vmi: VirtualMachineInstance, stored: VirtualMachineInstanceDevices | None, now: datetime) -> PublicationPlan:
    """For a VMI that has finished: its object says so once, and stays as it was otherwise. The VMI's annotation stays, too."""
    if stored is None or stored.metadata.deletion_timestamp is not None or not owned_by(stored, vmi):
        return NOTHING
    status = finished(stored.status, vmi.status.phase or "", now)
    return NOTHING if status.to_wire() == stored.status.to_wire() else PublicationPlan((Update(stored.with_(status=status)),))


def _target(inputs: DeviceInputs, stored: VirtualMachineInstanceDevices | None) -> tuple[MigrationTarget | None, tuple[Event, ...]]:
    """The pod that the VMI migrates to, resolved by itself (K-10.5). Nothing is frozen: its guest doesn't run there yet."""
    pod = migration_target(inputs.vmi, inputs.pods)
    if pod is None:
        return None, ()
    record, events = _record(inputs.vmi, pod)
    options = replace(inputs.options, now=inputs.now, migration_target=True)
    devices = _subjects(inputs.vmi, pod, record)
    resolution = resolve(inputs.vmi, pod, inputs.claims.values(), inputs.published, options, devices)
    resolution = with_obstacles(resolution, inputs.vmi, pod, record, options.writers, running=False)
    known = device_report(resolution, ReportContext(rules=inputs.rules, pod=pod))
    return target_for(known, pod, record, stored), events


def _subjects(vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None) -> tuple[DeviceSubject, ...]:
    """All that is told of: DRA devices, devices of the device-plugin path, networks from claims."""
    claimed = dra_devices(vmi)
    plugins = _plugin_devices(vmi, pod, record, len(claimed))
    return (*claimed, *plugins, *network_devices(vmi, pod, len(claimed) + len(plugins)))


def _record(vmi: VirtualMachineInstance, pod: Pod | None) -> tuple[Integration | None, tuple[Event, ...]]:
    try:
        return (Integration.from_annotations(pod.metadata.annotations) if pod is not None else None), ()
    except AnnotationError as error:
        return Integration(), (warning(vmi, BAD_RECORD, shortened(f"pod {pod.name if pod is not None else ''}: {error}")),)


def _wanted_plugin_devices(vmi: VirtualMachineInstance, first: int) -> tuple[DeviceSubject, ...]:
    """Before there is a pod: those that the VMI's annotation names; none where it can't be used, which keeps the pod from being created."""
    try:
        wanted = read_device_claims(vmi.metadata.annotations)
        assigned = assign(vmi, wanted) if wanted else ()
    except AnnotationError:
        return ()
    return tuple(DeviceSubject(first + n, each.kind, each.name, each.entry.name, each.request) for n, each in enumerate(assigned))


def _plugin_devices(vmi: VirtualMachineInstance, pod: Pod | None, record: Integration | None, first: int) -> tuple[DeviceSubject, ...]:
    """The devices of the device-plugin path: those of the record that the VMI has. gpus first, in spec order."""
    if pod is None:
        return _wanted_plugin_devices(vmi, first)
    devices = vmi.spec.domain.devices
    recorded = {(device.kind, device.name, device.resource): device for device in (record.devices if record is not None else ())}
    found: list[DeviceSubject] = []
    for kind, entries in (("gpus", devices.gpus), ("hostDevices", devices.host_devices)):
        for entry in entries:
            device = recorded.get(("gpus" if kind == "gpus" else "hostDevices", entry.name, entry.device_name or ""))
            if device is not None and entry.is_plugin:
                found.append(DeviceSubject(first + len(found), device.kind, entry.name, device.claim, device.request))
    return tuple(found)


def with_shared(resolution: DeviceResolution, inputs: DeviceInputs) -> DeviceResolution:
    """With a warning for each device whose address a VMI that comes before this one publishes on the same node (K-5.13)."""
    node = inputs.pod.spec.node_name if inputs.pod is not None else None
    warnings: list[DeviceWarning] = []
    for outcome in resolution.outcomes if node else ():
        if isinstance(outcome, ResolvedDevice) and node and outcome.addresses.given:
            earlier = [
                key
                for key in inputs.holders.get(address_on(node, outcome.addresses.pci, outcome.addresses.mdev), ())
                if key < inputs.vmi.key
            ]
            if earlier:
                # Names of another namespace are none of its business.
                own = [key for key in earlier if key.startswith(f"{inputs.vmi.namespace}/")]
                message = (
                    f"{outcome.addresses.identity} on node {node} is also a device of {f'VMI {own[0]}' if own else 'another namespace'}; "
                    "only a driver that shares the device makes this work"
                )
                warnings.append(DeviceWarning(outcome.subject, SHARED_ADDRESS, message))
    return replace(resolution, warnings=(*resolution.warnings, *warnings)) if warnings else resolution


def _annotation(vmi: VirtualMachineInstance, status: DeviceStatus | None) -> Sequence[PatchAnnotations]:
    """The deviceStatus on the VMI, from when a device has an address. A value that isn't ours (K-4.2) is corrected or removed."""
    wanted = annotation_value(status)
    if vmi.metadata.annotations.get(DEVICE_STATUS_ANNOTATION) == wanted:
        return ()
    return (PatchAnnotations.of(vmi, {DEVICE_STATUS_ANNOTATION: wanted}),)


def annotation_value(status: DeviceStatus | None) -> str | None:
    """JSON with keys in a fixed order, or None before any device has an address."""
    entries = (*status.gpu_statuses, *status.host_device_statuses) if status is not None else ()
    known = [entry.device_resource_claim_status for entry in entries]
    addressed = any(each is not None and each.attributes is not None for each in known)
    return json.dumps(status.to_wire(), sort_keys=True, separators=(",", ":")) if status is not None and addressed else None
