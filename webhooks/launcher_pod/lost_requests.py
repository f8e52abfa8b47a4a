"""Requests of a claim that an old KubeVirt leaves out of the launcher pod (K-4.5). Pure.

KubeVirt 1.6 to 1.8.2 lists a claim in the container compute once, with the request of its first device. 1.8.0 to 1.8.2
look for each device's metadata by claim and request (K-7.11), so that the other devices work as soon as the container
uses their requests, too.
"""

from __future__ import annotations

from collections.abc import Collection

from virt_dra.api import names
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, V1_8_0, V1_8_3, Gates, KubeVirtVersion


def loses_requests(version: KubeVirtVersion) -> bool:
    """True if requests may be missing that can be added. KubeVirt reads their metadata since 1.8.0."""
    return V1_8_0 <= version < V1_8_3


def lost_requests(
    vmi: VirtualMachineInstance, gates: Gates, used: Collection[ClaimRequestPair]
) -> tuple[ClaimRequestPair, ...]:
    """The requests that the VMI's devices need and compute lacks, of claims of which it uses another one. ``used``:
    those of compute.

    Devices whose gate is off aren't in the pod, and claims that compute uses as a whole are complete.
    """
    devices = vmi.spec.domain.devices
    kinds = ((GPUS_WITH_DRA, devices.gpus), (HOST_DEVICES_WITH_DRA, devices.host_devices))
    claimed = [device for gate, entries in kinds if gate in gates for device in entries if device.is_dra]
    wanted = dict.fromkeys(ClaimRequestPair(device.claim_name or "", device.request_name or "") for device in claimed)
    partly = {pair.claim for pair in used if pair.request} - {pair.claim for pair in used if not pair.request}
    return tuple(
        pair for pair in wanted if pair.claim in partly and pair not in used and not names.dns1123_label(pair.request)
    )
