"""The plan that fills in what the pod webhook left open: metadata files and addresses, as annotations of launcher pods
(K-11, 0012). Pure.

What is written holds data of drivers and tenants only as JSON strings, or as addresses of a checked syntax. It is
written once a pair's claim is allocated and reserved for the pod (K-5.4), and never chooses among devices (K-5.8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import Addresses
from virt_dra.api.integration.paths import (
    ADDRESSES_READY,
    ADDRESSES_READY_ANNOTATION,
    ANNOTATIONS_LIMIT,
    DEVICE_PLUGIN,
    MDEV_PREFIX,
    METADATA_SHIM,
    PCI_PREFIX,
    ClaimRequestPair,
    Layout,
    address_annotation,
    resource_variable,
)
from virt_dra.api.integration.record import Integration, RecordedDevice
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.names import byte_length
from virt_dra.api.reading.json_annotations import AnnotationError
from virt_dra.controllers.beside_kubevirt.current_devices import BAD_RECORD
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.metadata_files import (
    Filled,
    FillInProblem,
    frozen_addresses,
    metadata_files,
    resolved_in,
)
from virt_dra.controllers.devices.networks import used_pairs
from virt_dra.controllers.devices.outcomes import ResolvedDevice, UnresolvedDevice
from virt_dra.controllers.devices.subjects import DeviceSubject, device_entries
from virt_dra.controllers.events import shortened
from virt_dra.controllers.transforms import REST, rest_of
from virt_dra.controllers.writes import PatchAnnotations

NOT_THE_PODS: Final = "NotThePodsClaim"
"""The record names a claim and request that the pod's container ``compute`` doesn't have."""
NOT_THE_VMIS: Final = "NotTheVmisDevice"
"""The record names a device that the VMI doesn't have, or for another resource."""
MIXED_ADDRESSES: Final = "MixedAddresses"
"""Devices of one resource have PCI addresses and mdev UUIDs: KubeVirt would give one device to two entries (K-7.3)."""
SHARED_VARIABLE: Final = "SharedVariable"
"""Gpus and hostDevices share a variable: KubeVirt would give the same device to both (K-7.3)."""
TOO_LARGE: Final = "AnnotationsTooLarge"
"""The pod's annotations would be larger than Kubernetes allows."""


NOTHING: Final = Filled({})


@dataclass(frozen=True)
class FillInPlan:
    """What is written into a VMI's pods. ``problems``: of all pods; ``current``: of the current pod."""

    actions: tuple[PatchAnnotations, ...] = ()
    problems: tuple[FillInProblem, ...] = ()
    current: tuple[FillInProblem, ...] = ()


def plan(inputs: DeviceInputs) -> FillInPlan:
    """One patch for each launcher pod that lacks something: the current one, and a migration's target (K-10.5)."""
    actions: list[PatchAnnotations] = []
    problems: list[FillInProblem] = []
    current: tuple[FillInProblem, ...] = ()
    for pod in inputs.pods:
        before = len(problems)
        if pod.metadata.deletion_timestamp is not None:
            continue
        filled = fill_in(inputs, pod)
        if not _fits(pod, filled.annotations):
            filled = fill_in(inputs, pod, addresses_only=True)
        problems += filled.problems
        changes = {
            key: value for key, value in filled.annotations.items() if pod.metadata.annotations.get(key) != value
        }
        if changes and _fits(pod, changes):
            actions.append(PatchAnnotations.on(pod, changes, unchanged=True))
        elif changes:
            message = f"the annotations would have more than {ANNOTATIONS_LIMIT // 1024} KiB"
            problems.append(FillInProblem(TOO_LARGE, pod.key, message))
        if inputs.pod is not None and pod.metadata.uid == inputs.pod.metadata.uid:
            current = tuple(problems[before:])
    return FillInPlan(tuple(actions), tuple(problems), current)


def fill_in(inputs: DeviceInputs, pod: Pod, *, addresses_only: bool = False) -> Filled:
    """The annotations that a pod's record asks for, as far as known. ``addresses_only``: what KubeVirt reads of
    them."""
    try:
        record = Integration.from_annotations(pod.metadata.annotations)
    except AnnotationError as error:
        return Filled({}, (FillInProblem(BAD_RECORD, pod.key, shortened(str(error))),))
    if record is None:
        return NOTHING
    parts = (_metadata(inputs, pod, record, addresses_only), _addresses(inputs, pod, record))
    return Filled(
        {key: value for part in parts for key, value in part.annotations.items()},
        tuple(problem for part in parts for problem in part.problems),
        tuple(outcome for part in parts for outcome in part.waiting),
    )


def _fits(pod: Pod, changes: Mapping[str, str | None]) -> bool:
    """True if the annotations stay within the API's limit (K-12.2), also counted by the size of those that were
    dropped."""
    after = {key: value for key, value in {**pod.metadata.annotations, **changes}.items() if value is not None}
    size = sum(byte_length(key) + byte_length(value) for key, value in after.items() if key != REST)
    return size + rest_of(after) <= ANNOTATIONS_LIMIT


# --- metadata files ---


def _metadata(inputs: DeviceInputs, pod: Pod, record: Integration, addresses_only: bool) -> Filled:
    used = used_pairs(pod)
    entries = {entry.name for entry in pod.spec.resource_claims}
    wanted: dict[ClaimRequestPair, Layout] = {}
    problems: list[FillInProblem] = []
    for recorded in record.pairs:
        if recorded.path != METADATA_SHIM or recorded.layout is None:
            continue
        if recorded.pair in used and recorded.claim in entries and recorded.request:
            wanted.setdefault(recorded.pair, recorded.layout)
        else:
            problems.append(_not_the_pods(recorded.pair))
    return replace(metadata_files(inputs, pod, wanted, addresses_only=addresses_only), problems=tuple(problems))


def _not_the_pods(pair: ClaimRequestPair) -> FillInProblem:
    message = "the pod's container compute doesn't use this request of a claim of the pod"
    return FillInProblem(NOT_THE_PODS, str(pair), message)


# --- variables ---


def _addresses(inputs: DeviceInputs, pod: Pod, record: Integration) -> Filled:
    """The variables of the device-plugin path: all of them, or none yet, as the container reads them once."""
    if not record.devices:
        return NOTHING
    devices, problems = _checked(inputs.vmi, pod, record)
    if problems:
        return Filled({}, problems)
    subjects = tuple(DeviceSubject(position, d.kind, d.name, d.claim, d.request) for position, d in enumerate(devices))
    outcomes = resolved_in(inputs, pod, subjects)
    waiting = tuple(outcome for outcome in outcomes if isinstance(outcome, UnresolvedDevice))
    if waiting:
        return Filled({}, (), waiting)
    values: dict[str, list[tuple[RecordedDevice, Addresses]]] = defaultdict(list)
    for device, outcome in zip(devices, outcomes, strict=True):
        if isinstance(outcome, ResolvedDevice):
            values[_suffix(device.resource)].append(
                (device, frozen_addresses(inputs, pod, outcome) or outcome.addresses)
            )
    annotations: dict[str, str | None] = {ADDRESSES_READY_ANNOTATION: ADDRESSES_READY}
    mixed: list[FillInProblem] = []
    for suffix, members in values.items():
        mdevs = [addresses.mdev for _, addresses in members if addresses.mdev is not None]
        pcis = [addresses.pci for _, addresses in members if addresses.mdev is None and addresses.pci is not None]
        if mdevs and pcis:
            message = (
                f"devices of resource {members[0][0].resource} have PCI addresses and "
                "mdev UUIDs; give each kind a resource of its own"
            )
            mixed.append(FillInProblem(MIXED_ADDRESSES, members[0][0].name, message))
        # KubeVirt ignores an empty variable, so both may be set.
        annotations[address_annotation(f"{PCI_PREFIX}{suffix}")] = ",".join(pcis) or None
        annotations[address_annotation(f"{MDEV_PREFIX}{suffix}")] = ",".join(mdevs) or None
    return Filled({}, tuple(mixed)) if mixed else Filled(annotations)


def _suffix(resource: str) -> str:
    """The common suffix of a resource's variables; resources may share it (K-7.3)."""
    return resource_variable("", resource)


def _checked(
    vmi: VirtualMachineInstance, pod: Pod, record: Integration
) -> tuple[tuple[RecordedDevice, ...], tuple[FillInProblem, ...]]:
    """The devices of the record in the VMI's order, in which KubeVirt takes addresses; or the problems with them."""
    used, problems = used_pairs(pod), list[FillInProblem]()
    plugins = ((kind, entry.name, entry.device_name or "") for kind, entry in device_entries(vmi) if entry.is_plugin)
    order: dict[tuple[str, str, str], int] = {plugin: position for position, plugin in enumerate(plugins)}
    kinds: dict[str, set[str]] = defaultdict(set)
    for device in record.devices:
        if (device.kind, device.name, device.resource) not in order:
            message = f"the VMI has no {device.kind} entry of that name with resource {device.resource}"
            problems.append(FillInProblem(NOT_THE_VMIS, device.name, message))
        pair = ClaimRequestPair(device.claim, device.request)
        if pair not in used or record.path_of(pair) != DEVICE_PLUGIN:
            problems.append(_not_the_pods(pair))
        kinds[_suffix(device.resource)].add(device.kind)
    message = "gpus and hostDevices have resources that share this variable"
    shared = (suffix for suffix, used_by in kinds.items() if len(used_by) > 1)
    problems += [FillInProblem(SHARED_VARIABLE, f"{PCI_PREFIX}{suffix}", message) for suffix in shared]
    if problems:
        return (), tuple(problems)
    return tuple(sorted(record.devices, key=lambda d: order[d.kind, d.name, d.resource])), ()
