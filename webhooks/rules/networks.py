"""Rules for networks from claims (K-2.18 to K-2.20).

KubeVirt runs its network validator twice and reports each cause twice; here each is reported once (K-2.21).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_v1 import ClaimRequest
from virt_dra.api.kubevirt_versions import NETWORK_DEVICES_WITH_DRA
from webhooks.rules.reviewed_spec import ReviewedSpec
from webhooks.verdict import DUPLICATE, INVALID, NOT_FOUND, REQUIRED, AdmissionCause


def claim_networks(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Networks from claims with the gate off (K-2.18) or beside Multus (K-2.19), each of which ends the check; then
    K-2.20."""
    networks = subject.spec.networks
    if not any(network.resource_claim is not None for network in networks):
        return
    if NETWORK_DEVICES_WITH_DRA not in subject.gates:
        text = "vmi.spec.networks contains DRA networks but NetworkDevicesWithDRA feature gate is not enabled"
        yield subject.cause(INVALID, "networks", text)
        return
    if any(network.multus is not None for network in networks):
        text = "mixing Multus and DRA resourceClaim networks in the same VMI is not supported"
        yield subject.cause(INVALID, "networks", text)
        return
    # The first interface of a name counts.
    interfaces = {interface.name: interface for interface in reversed(subject.spec.domain.devices.interfaces)}
    listed = subject.listed_claims()
    seen: set[str] = set()
    for index, network in enumerate(networks):
        if network.resource_claim is None:
            continue
        interface = interfaces.get(network.name)
        if interface is not None and interface.sriov is None and interface.binding is None:
            text = f"DRA network {quoted(network.name)} requires an SR-IOV or binding plugin interface"
            yield subject.cause(INVALID, "domain.devices.interfaces", text)
        yield from _claim(network.resource_claim, subject.path(f"networks[{index}]"), listed, seen)


def _claim(claim: ClaimRequest, field: str, listed: Collection[str], seen: set[str]) -> Iterator[AdmissionCause]:
    """What the claim reference of one network lacks. ``seen`` holds the pairs of earlier networks and gets this
    one's."""
    if not claim.claim_name:
        yield AdmissionCause(REQUIRED, "claimName is required for DRA network", f"{field}.resourceClaim.claimName")
    if not claim.request_name:
        yield AdmissionCause(REQUIRED, "requestName is required for DRA network", f"{field}.resourceClaim.requestName")
    if not claim.claim_name or not claim.request_name:
        return
    if claim.claim_name not in listed:
        text = f"references resourceClaim {quoted(claim.claim_name)} which is not defined in spec.resourceClaims"
        yield AdmissionCause(NOT_FOUND, f"network {text}", f"{field}.resourceClaim.claimName")
    pair = f"{claim.claim_name}/{claim.request_name}"
    if pair in seen:
        yield AdmissionCause(DUPLICATE, f"duplicate claimName/requestName combination {quoted(pair)}", field)
    seen.add(pair)
