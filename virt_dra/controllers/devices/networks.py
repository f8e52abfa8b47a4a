"""Networks of a VMI whose devices come from claims (K-5.32; KubeVirt 1.9 and newer, gate NetworkDevicesWithDRA)."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.attribute_keys import Need
from virt_dra.api.integration.paths import ClaimRequestPair
from virt_dra.api.kubevirt_v1 import VirtualMachineInstance
from virt_dra.controllers.devices.subjects import DeviceSubject
from virt_dra.controllers.pods.launcher_pods import COMPUTE


def network_devices(vmi: VirtualMachineInstance, pod: Pod | None, first: int = 0) -> tuple[DeviceSubject, ...]:
    """The networks with a claim whose interface is an SR-IOV function or a binding plugin's, in spec order, counted
    from ``first``; of a pod only those whose devices it gets, which depends on KubeVirt's version and gates (K-4.5)."""
    interfaces = {interface.name: interface for interface in reversed(vmi.spec.domain.devices.interfaces)}
    used = used_pairs(pod) if pod is not None else None
    devices: list[DeviceSubject] = []
    for network in vmi.spec.networks:
        source, interface = network.resource_claim, interfaces.get(network.name)
        if source is None or interface is None or (interface.sriov is None and interface.binding is None):
            continue
        pair = ClaimRequestPair(source.claim_name or "", source.request_name or "")
        if used is None or pair in used or ClaimRequestPair(pair.claim, "") in used:
            needs: Need = "pci" if interface.sriov is not None else "none"
            devices.append(
                DeviceSubject(first + len(devices), "networks", network.name, pair.claim, pair.request, needs)
            )
    return tuple(devices)


def used_pairs(pod: Pod) -> frozenset[ClaimRequestPair]:
    """The pairs of claim and request that the container ``compute`` uses."""
    compute = next((container for container in pod.spec.containers if container.name == COMPUTE), None)
    claims = compute.resources.claims if compute is not None else ()
    return frozenset(ClaimRequestPair(claim.name, claim.request or "") for claim in claims)
