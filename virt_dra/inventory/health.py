"""Devices that their drivers reported as unhealthy: as the kubelet wrote it into the status of pods (KEP-4680), or as
the operator read it there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from virt_dra.allocator.model import DeviceId
from virt_dra.api.core_v1 import Pod, ResourceStatus
from virt_dra.api.resource_v1 import DeviceRequestAllocationResult, ResourceClaim
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.controllers.devices.resolution import results_for
from virt_dra.model.cluster import ClusterModel, derived

_UNHEALTHY: Final = "Unhealthy"
_CLAIM: Final = "claim:"


@derived(Pod, ResourceClaim, VirtualMachineInstanceDevices)
def unhealthy_devices(model: ClusterModel) -> dict[DeviceId, str]:
    """Device -> its driver's words. Finished pods don't count."""
    unhealthy: dict[DeviceId, str] = {}
    for pod in model.of(Pod):
        if not pod.finished:
            for container in pod.status.container_statuses:
                for status in container.allocated_resources_status:
                    unhealthy.update(_of_status(pod, status, model.claims))
    for obj in model.of(VirtualMachineInstanceDevices):
        for device in obj.status.devices:
            health = device.health
            if health is not None and health.status == _UNHEALTHY and device.driver and device.pool and device.device:
                unhealthy.setdefault(DeviceId(device.driver, device.pool, device.device), health.message or "")
    return unhealthy


def _of_status(pod: Pod, status: ResourceStatus, claims: Mapping[str, ResourceClaim]) -> Iterator[tuple[DeviceId, str]]:
    unhealthy = [health for health in status.resources if health.health == _UNHEALTHY]
    if not unhealthy or not status.name.startswith(_CLAIM):
        return
    results = [
        DeviceId(result.driver, result.pool, result.device)
        for result in _results(pod, status.name.removeprefix(_CLAIM), claims)
    ]
    for health in unhealthy:
        parts = health.resource_id.split("/")
        named = DeviceId(*parts) if len(parts) == 3 else None
        if named is not None and (not results or named in results):
            yield named, health.message or ""
        elif len(results) == len(status.resources) == 1:  # the kubelet may name a device by its CDI id
            yield results[0], health.message or ""


def _results(pod: Pod, name: str, claims: Mapping[str, ResourceClaim]) -> tuple[DeviceRequestAllocationResult, ...]:
    """What was allocated for ``<entry>/<request>``, or for all requests of an entry."""
    entry, _, request = name.partition("/")
    claim = claims.get(f"{pod.namespace}/{pod.claim_names.get(entry, '')}")
    if claim is None or claim.status.allocation is None:
        return ()
    results = claim.status.allocation.devices.results
    return results_for(request, results) if request else results
