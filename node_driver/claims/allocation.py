"""What a claim has been allocated of this node's devices (D-12, D-14). Pure.

Each name that later becomes part of a path, a CDI name or a file's content is checked here, though the API server has
checked it: the driver is root.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from node_driver.claims.parameters import network_settings
from node_driver.claims.refusals import ClaimRefusal, ClaimRefusalReason
from node_driver.wire.service import ClaimName
from virt_dra.api.go_text import quoted
from virt_dra.api.names import dns1123_label, dns1123_subdomain
from virt_dra.api.resource_v1 import DeviceAllocationConfiguration, DeviceRequestAllocationResult, ResourceClaim

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of claims that a template made: the pod's own name for the claim (D-34)."""
FROM_CLASS: Final = "FromClass"
UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """``request``: with the subrequest, if one was chosen. ``network``: settings as JSON, "" for none."""

    request: str
    device: str
    admin_access: bool
    share_id: str
    network: str


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    uid: str
    namespace: str
    name: str
    pods: tuple[str, ...]
    pod_claim_name: str
    devices: tuple[AllocatedDevice, ...]


def check_name(name: ClaimName) -> None:
    """Raises :class:`ClaimRefusal` for a name that no claim can have."""
    _check("claim UID", name.uid, UID.fullmatch(name.uid) is not None)
    _check("namespace", name.namespace, not dns1123_label(name.namespace))
    _check("claim name", name.name, not dns1123_subdomain(name.name))


def allocated_claim(claim: ResourceClaim, name: ClaimName, driver: str, pool: str) -> NodeAllocation:
    """Raises :class:`ClaimRefusal`, too, where another claim has the name now, or nothing is allocated of this node."""
    check_name(name)
    subject = f"ResourceClaim {name.namespace}/{name.name}"
    if claim.metadata.uid != name.uid:
        uid = f"its UID is {quoted(claim.metadata.uid)}, not {name.uid}"
        message = f"{subject} was replaced: {uid}; the pod must be created again"
        raise ClaimRefusal(ClaimRefusalReason.CLAIM_REPLACED, message)
    allocation = claim.status.allocation
    if allocation is None:
        raise ClaimRefusal(ClaimRefusalReason.NOT_ALLOCATED, f"{subject} isn't allocated (any more)")
    pod_claim_name = claim.metadata.annotations.get(POD_CLAIM_NAME, "")
    if pod_claim_name:
        _check(f"annotation {POD_CLAIM_NAME}", pod_claim_name, not dns1123_label(pod_claim_name))
    results = [result for result in allocation.devices.results if result.driver == driver]
    devices = tuple(_device(result, allocation.devices.config, driver, pool) for result in results)
    if not devices:
        raise ClaimRefusal(ClaimRefusalReason.NOT_ALLOCATED, f"{subject} has no device of {driver}")
    pods = tuple(sorted(consumer.uid for consumer in claim.status.reserved_for if consumer.resource == "pods"))
    return NodeAllocation(name.uid, name.namespace, name.name, pods, pod_claim_name, devices)


def _device(
    result: DeviceRequestAllocationResult, configs: Sequence[DeviceAllocationConfiguration], driver: str, pool: str
) -> AllocatedDevice:
    for part in result.request.split("/"):
        _check("request", result.request, not dns1123_label(part))
    _check("device", result.device, not dns1123_label(result.device))
    share_id = result.share_id or ""
    _check("share ID", share_id, not share_id or UID.fullmatch(share_id) is not None)
    if result.pool != pool:
        message = f"device {result.device} is of pool {quoted(result.pool)}; this node's pool is {pool}"
        raise ClaimRefusal(ClaimRefusalReason.NOT_PUBLISHED, message)
    network = _network(result.request, configs, driver)
    return AllocatedDevice(result.request, result.device, bool(result.admin_access), share_id, network)


def _network(request: str, configs: Sequence[DeviceAllocationConfiguration], driver: str) -> str:
    """Of the last configuration for the request; the claim's come after the class's."""
    in_order = sorted(enumerate(configs), key=lambda entry: (entry[1].source != FROM_CLASS, entry[0]))
    settings = ""
    for index, config in in_order:
        if config.opaque is None or config.opaque.driver != driver:
            continue
        if not config.requests or {request, request.partition("/")[0]} & set(config.requests):
            path = f"status.allocation.devices.config[{index}].opaque.parameters"
            settings = network_settings(config.opaque.parameters, path)
    return settings


def _check(subject: str, text: str, fits: bool) -> None:
    if not fits:
        raise ClaimRefusal(ClaimRefusalReason.BAD_NAME, f"{subject} {quoted(text[:100])} isn't a valid name")
