"""The metadata file of a claim's request, by what its driver publishes, as an annotation of a pod (K-7.8). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from virt_dra.api.core_v1 import Pod, PodResourceClaim
from virt_dra.api.integration.attribute_keys import Addresses
from virt_dra.api.integration.device_metadata import MDEV_UUID, METADATA_KIND, METADATA_VERSION, PCI_BUS_ID
from virt_dra.api.integration.paths import ClaimRequestPair, Layout, metadata_annotation
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from virt_dra.controllers.devices.inputs import DeviceInputs
from virt_dra.controllers.devices.networks import network_devices
from virt_dra.controllers.devices.outcomes import ResolvedDevice, UnresolvedDevice
from virt_dra.controllers.devices.resolution import resolve
from virt_dra.controllers.devices.subjects import DeviceSubject, dra_devices

_ATTRIBUTES = 32
"""The limit of a device's attributes in a metadata file."""


@dataclass(frozen=True)
class FillInProblem:
    """Why an annotation of a pod isn't filled in. ``subject``: the pair or device. Waiting is no problem."""

    reason: str
    subject: str
    message: str


@dataclass(frozen=True)
class Filled:
    """The annotations to set on a pod; None removes one. Others stay unchanged."""

    annotations: Mapping[str, str | None]
    problems: tuple[FillInProblem, ...] = ()
    waiting: tuple[UnresolvedDevice, ...] = ()


def resolved_in(
    inputs: DeviceInputs, pod: Pod, subjects: tuple[DeviceSubject, ...]
) -> Sequence[ResolvedDevice | UnresolvedDevice]:
    options = replace(inputs.options, now=inputs.now, migration_target=True, spread=False)
    return resolve(inputs.vmi, pod, inputs.claims.values(), inputs.published, options, subjects).outcomes


def metadata_files(
    inputs: DeviceInputs, pod: Pod, wanted: Mapping[ClaimRequestPair, Layout], *, addresses_only: bool
) -> Filled:
    """The files of pairs that the pod has, each as an annotation, as far as they are known now."""
    entries = {entry.name: entry for entry in pod.spec.resource_claims}
    subjects = tuple(_subject(inputs.vmi, pod, position, pair) for position, pair in enumerate(wanted))
    outcomes = dict(zip(wanted, resolved_in(inputs, pod, subjects), strict=True))
    devices = {
        pair: _device(inputs, pod, outcome, addresses_only)
        for pair, outcome in outcomes.items()
        if isinstance(outcome, ResolvedDevice)
    }
    annotations: dict[str, str | None] = {}
    for pair in devices:
        # KubeVirt 1.8.0 may look for a request in another request's file of the claim.
        others = (
            [other for other in devices if other.claim == pair.claim and other != pair]
            if wanted[pair] == "KubeVirt-1.8.0"
            else []
        )
        outcome = outcomes[pair]
        claim = inputs.claims[f"{pod.namespace}/{outcome.claim}"]
        requests = [_request(of_pair, devices[of_pair]) for of_pair in (pair, *others)]
        annotations[metadata_annotation(pair.claim, pair.request)] = _file(entries[pair.claim], claim, requests)
    return Filled(annotations, waiting=tuple(o for o in outcomes.values() if isinstance(o, UnresolvedDevice)))


def _subject(vmi: VirtualMachineInstance, pod: Pod, position: int, pair: ClaimRequestPair) -> DeviceSubject:
    """The device entry or network that takes the pair, else the pair itself."""
    for subject in (*dra_devices(vmi), *network_devices(vmi, pod)):
        if (subject.claim_name, subject.request_name) == (pair.claim, pair.request):
            return replace(subject, position=position)
    return DeviceSubject(position, "hostDevices", str(pair), pair.claim, pair.request)


def _file(entry: PodResourceClaim, claim: ResourceClaim, requests: Sequence[Json]) -> str:
    """The file's content (K-7.8), one object. A driver counts its rewrites in ``generation``; ours is always 1."""
    metadata: Json = {"name": claim.name, "namespace": claim.namespace, "uid": claim.metadata.uid, "generation": 1}
    content: Json = {
        "kind": METADATA_KIND,
        "apiVersion": METADATA_VERSION,
        "metadata": metadata,
        "requests": list(requests),
    }
    if not entry.resource_claim_name:
        content["podClaimName"] = entry.name
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def _request(pair: ClaimRequestPair, device: Json) -> Json:
    """The request as the VMI asks for it, so that an alternative that firstAvailable chose is found too (K-7.12)."""
    return {"name": pair.request, "devices": [device]}


def _device(inputs: DeviceInputs, pod: Pod, outcome: ResolvedDevice, addresses_only: bool) -> Json:
    result, published = outcome.result, outcome.published.device.attributes
    resolved = frozen_addresses(inputs, pod, outcome) or outcome.addresses
    own: Json = {MDEV_UUID: {"string": resolved.mdev}} if resolved.mdev is not None else {}
    own |= {PCI_BUS_ID: {"string": resolved.pci}} if resolved.pci is not None else {}
    # The two attributes that KubeVirt reads hold the resolved address, or are absent (K-7.9).
    rest = () if addresses_only else (key for key in published if key not in (MDEV_UUID, PCI_BUS_ID))
    others = sorted(rest)[: _ATTRIBUTES - len(own)]
    device: Json = {
        "driver": result.driver,
        "pool": result.pool,
        "name": result.device,
        "attributes": {key: published[key].to_wire() for key in others} | own,
    }
    claim = inputs.claims[f"{pod.namespace}/{outcome.claim}"]
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (
            result.driver,
            result.pool,
            result.device,
        ) and status.network_data is not None:
            device["networkData"] = status.network_data.to_wire()
    return device


def frozen_addresses(inputs: DeviceInputs, pod: Pod, outcome: ResolvedDevice) -> Addresses | None:
    """The addresses that a running VMI was started with (K-5.14)."""
    stored = inputs.stored
    if inputs.vmi.status.phase != "Running" or stored is None or not stored.is_controlled_by(inputs.vmi):
        return None
    if stored.status.pod_uid != pod.metadata.uid:
        return None
    pair = (outcome.subject.claim_name, outcome.subject.request_name)
    for device in stored.status.devices:
        if (device.claim_name, device.request_name) == pair and (device.pci_address or device.mdev_uuid):
            return Addresses(device.pci_address, device.mdev_uuid)
    return None
