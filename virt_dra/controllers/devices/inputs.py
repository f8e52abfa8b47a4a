"""Everything that plans for the devices of one VMI are made from, gathered from the sources (K-5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import Addresses, addresses
from virt_dra.api.integration.known_drivers import ALWAYS_WRITE
from virt_dra.api.kubevirt_v1 import DeviceStatus, VirtualMachineInstance
from virt_dra.api.resource_v1 import DeviceTaintRule, ResourceClaim
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.devices.options import DEFAULTS, ResolutionOptions, missed_at, overdue_at
from virt_dra.controllers.devices.outcomes import SHARED_ADDRESS, DeviceResolution, DeviceWarning, ResolvedDevice
from virt_dra.controllers.pods.current_pod import current_pod, launcher_pods_of
from virt_dra.controllers.sources import Sources, address_on, ends, pools_of
from virt_dra.model.published import PublishedDevices, PublishedPool


@dataclass(frozen=True)
class DeviceInputs:
    """Everything that plans for one VMI depend on. ``pods``: its unfinished launcher pods; ``pod``: the current one.
    ``claims``: those that the pods name; ``published``: the pools that their allocations name. ``holders``: address
    (:func:`address_on`) -> the keys of VMIs that publish it. ``writers``: the drivers that write metadata files."""

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
    writers: frozenset[str] = ALWAYS_WRITE


Holding = Callable[[Sources, str], Iterable[str]]
"""An address (:func:`address_on`) -> the keys of VMIs that have it."""


def gather(
    sources: Sources, key: str, now: datetime, options: ResolutionOptions = DEFAULTS, holding: Holding | None = None
) -> DeviceInputs | None:
    """The inputs of a VMI (``namespace/name``); None if it doesn't exist, terminates or has finished. ``holding``:
    finds the VMIs that have an address; by default those that publish it in an object of ours."""
    vmi = sources.vmi(key)
    if vmi is None or not vmi.metadata.uid or ends(vmi):
        return None
    pods = tuple(pod for pod in launcher_pods_of(vmi, sources.pods_of(vmi)) if not pod.finished)
    named = {name: sources.claim(name) for pod in pods for name in pod.claim_keys}
    claims = {name: claim for name, claim in named.items() if claim is not None}
    pools: dict[tuple[str, str], PublishedPool] = {}
    for driver, name in dict.fromkeys(pair for claim in claims.values() for pair in pools_of(claim)):
        pool = sources.pool(driver, name)
        if pool is not None:
            pools[driver, name] = pool
    current = current_pod(vmi, pods)
    published = PublishedDevices(pools)
    held = {
        address: tuple(sorted(holder for holder in (holding or _publishing)(sources, address) if holder != key))
        for address in allocated_addresses(current, claims, published, options)
    }
    rules = tuple(rule for rule in sources.taint_rules() if _may_concern(rule, pools))
    stored, writers = sources.devices(key), sources.writers()
    return DeviceInputs(vmi, pods, current, claims, published, rules, stored, held, now, options, writers)


def _publishing(sources: Sources, address: str) -> Iterable[str]:
    return (holder.key for holder in sources.holders(address) if still_holds(holder, sources.vmi(holder.key)))


def still_holds(devices: VirtualMachineInstanceDevices, vmi: VirtualMachineInstance | None) -> bool:
    """True if the devices are still those of the VMI: those of a terminating one may be allocated again already."""
    return vmi is not None and not ends(vmi) and devices.is_controlled_by(vmi)


def allocated_addresses(
    pod: Pod | None, claims: Mapping[str, ResourceClaim], published: PublishedDevices, options: ResolutionOptions
) -> set[str]:
    """The addresses of all allocated devices of the pod's claims."""
    on_node: set[str] = set()
    node = pod.spec.node_name if pod is not None else None
    if pod is None or not node:
        return on_node
    for key in pod.claim_keys:
        for result in claims[key].results if key in claims else ():
            pool = published.pool(result.driver, result.pool)
            for device in pool.devices(result.device) if pool is not None else ():
                resolved = addresses(result.driver, device.device.attributes, options.keys)
                if isinstance(resolved, Addresses):
                    on_node.add(address_on(node, resolved.pci, resolved.mdev))
    return on_node


def _may_concern(rule: DeviceTaintRule, pools: Mapping[tuple[str, str], PublishedPool]) -> bool:
    selector = rule.spec.device_selector
    return selector is not None and any(
        selector.driver in (None, driver) and selector.pool in (None, pool) for driver, pool in pools
    )


def with_shared(resolution: DeviceResolution, inputs: DeviceInputs) -> DeviceResolution:
    """The resolution with a warning for each device whose address an earlier VMI publishes on the same node
    (K-5.13)."""
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
                # Don't disclose names of another namespace.
                own = [key for key in earlier if key.startswith(f"{inputs.vmi.namespace}/")]
                message = (
                    f"{outcome.addresses.identity} on node {node} is also a device of "
                    f"{f'VMI {own[0]}' if own else 'another namespace'}; "
                    "only a driver that shares the device makes this work"
                )
                warnings.append(DeviceWarning(outcome.subject, SHARED_ADDRESS, message))
    return replace(resolution, warnings=(*resolution.warnings, *warnings)) if warnings else resolution


def annotation_value(status: DeviceStatus | None) -> str | None:
    """JSON with keys in a fixed order, or None before any device has an address."""
    if status is None or all(entry.attributes is None for entry in status.entries):
        return None
    return json.dumps(status.to_wire(), sort_keys=True, separators=(",", ":"))


def requeue_at(inputs: DeviceInputs) -> datetime | None:
    """The end of the first grace period: of an unpublished device (K-5.9) or of a claim that the informer lacks
    (K-5.4)."""
    published, options = inputs.published, inputs.options
    unpublished = (claim for claim in inputs.claims.values() if not _is_published(claim, published))
    incomplete = (pod for pod in inputs.pods if not inputs.claims.keys() >= set(pod.claim_keys))
    moments = (*(overdue_at(claim, options) for claim in unpublished), *(missed_at(pod, options) for pod in incomplete))
    return min((moment for moment in moments if moment is not None and moment > inputs.now), default=None)


def _is_published(claim: ResourceClaim, published: PublishedDevices) -> bool:
    pools = ((published.pool(result.driver, result.pool), result.device) for result in claim.results)
    return all(pool is not None and bool(pool.devices(device)) for pool, device in pools)
