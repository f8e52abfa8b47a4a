"""Warnings about faults that KubeVirt admits, as far as the VMI and the gates show them (K-2.27, K-12.3).

The ids are the lint's; :mod:`webhooks.lint` also checks whether claims, templates, classes and requests exist, which
needs the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_versions import V1_6_0, V1_8_0, V1_8_3, V1_9_0
from virt_dra.api.names import dns1123_label
from webhooks.rules.reviewed_spec import DEVICE_LISTS, GPUS, ReviewedSpec
from webhooks.verdict import FieldIssue

Warner = Callable[[ReviewedSpec], Iterator[FieldIssue]]


def unknown_to_this_version(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Fields that the API server of this KubeVirt prunes (K-2.31, K-1.2)."""
    version = subject.gates.version
    if version < V1_6_0 and subject.spec.resource_claims:
        yield _pruned(subject, "resourceClaims", "1.6")
    if version < V1_6_0:
        for kind in DEVICE_LISTS:
            for index, device in enumerate(kind.devices(subject.spec)):
                if device.names_claim:
                    yield _pruned(subject, f"{kind.field}[{index}]", "1.6", part="claim reference")
    if version < V1_9_0:
        for index, network in enumerate(subject.spec.networks):
            if network.resource_claim is not None:
                yield _pruned(subject, f"networks[{index}].resourceClaim", "1.9")
    memory = subject.spec.domain.memory
    if version < V1_8_0 and memory is not None and memory.reserved_overhead is not None:
        yield _pruned(subject, "domain.memory.reservedOverhead", "1.8")


def _pruned(subject: ReviewedSpec, field: str, since: str, part: str = "field") -> FieldIssue:
    text = f"KubeVirt {subject.gates.version} does not know this {part} and drops it; it exists since KubeVirt {since}"
    return FieldIssue(subject.path(field), text)


def unchecked_host_devices(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Host devices from claims, which 1.6 and 1.7 admit unchecked (K-2.30)."""
    version = subject.gates.version
    if not V1_6_0 <= version < V1_8_0:
        return
    text = "a missing claim or feature gate shows only when the VM does not start"
    for index, device in enumerate(subject.spec.domain.devices.host_devices):
        if device.is_dra:
            field = subject.path(f"domain.devices.hostDevices[{index}]")
            yield FieldIssue(field, f"KubeVirt {version} does not check the claim of a host device; {text}")


def missing_names(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Devices without a name, which KubeVirt's mutator makes an empty one (K-2.36) and its validators admit."""
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(subject.spec)):
            if not device.name:
                text = "KubeVirt admits a device without a name, but its status and libvirt distinguish devices by it"
                yield FieldIssue(f"{subject.path(kind.field)}[{index}].name", text)


def duplicate_device_names(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Devices with the same libvirt alias, which is made from list, source and name (K-7.17)."""
    for kind in DEVICE_LISTS:
        names = Counter((device.is_dra, device.name) for device in kind.devices(subject.spec) if device.name)
        for (_, name), count in names.items():
            if count > 1:
                text = "libvirt refuses a domain with the same device alias twice"
                yield FieldIssue(subject.path(kind.field), f"{count} devices are named {quoted(name)}; {text}")


def request_names(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Request names that the API server will refuse in the launcher pod, although KubeVirt admits them (K-3.2)."""
    for field, request in _requests(subject):
        if details := dns1123_label(request):
            advice = "; name the request itself, not one of its alternatives" if "/" in request else ""
            text = f"is no DNS label, so the API server will refuse the launcher pod: {', '.join(details)}{advice}"
            yield FieldIssue(field, f"{quoted(request)} {text}")


def _requests(subject: ReviewedSpec) -> Iterator[tuple[str, str]]:
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(subject.spec)):
            if device.is_dra and device.request_name:
                yield f"{subject.path(kind.field)}[{index}].requestName", device.request_name
    for index, network in enumerate(subject.spec.networks):
        if network.resource_claim is not None and network.resource_claim.request_name:
            yield f"{subject.path('networks')}[{index}].resourceClaim.requestName", network.resource_claim.request_name


def unused_claims(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Claims that no device of the VM uses, which are allocated all the same (K-4.4). An instancetype may use them
    (K-1.6)."""
    if subject.instancetype:
        return
    used = {device.claim_name for kind in DEVICE_LISTS for device in kind.devices(subject.spec) if device.is_dra}
    used |= {network.resource_claim.claim_name for network in subject.spec.networks if network.resource_claim}
    for index, entry in enumerate(subject.spec.resource_claims):
        if entry.name and entry.name not in used:
            text = f"no gpu, hostDevice or network uses the claim {quoted(entry.name)}"
            field = subject.path(f"resourceClaims[{index}]")
            yield FieldIssue(field, f"{text}; its devices are allocated, but not given to the VM")


def several_requests_of_a_claim(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Claims of which the VM uses several requests; 1.6 to 1.8.2 keep only one (K-4.5)."""
    if not V1_6_0 <= subject.gates.version < V1_8_3:
        return
    requests: dict[str, set[str]] = {}
    for kind in DEVICE_LISTS:
        for device in kind.devices(subject.spec):
            if device.is_dra and device.claim_name:
                requests.setdefault(device.claim_name, set()).add(device.request_name or "")
    for claim, names in requests.items():
        if len(names) > 1:
            yield FieldIssue(
                subject.path("resourceClaims"),
                f"KubeVirt {subject.gates.version} gives the VM only one request per claim; the further requests of "
                f"{quoted(claim)} are lost. Use one claim per device, or KubeVirt 1.8.3 or newer",
            )


def tags_without_effect(subject: ReviewedSpec) -> Iterator[FieldIssue]:
    """Tags that don't get to the guest: only those of interfaces and plugin host devices do (K-7.24)."""
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(subject.spec)):
            if device.tag and (kind is GPUS or device.is_dra):
                noun = "a GPU" if kind is GPUS else "a host device from a claim"
                field = subject.path(f"{kind.field}[{index}].tag")
                yield FieldIssue(field, f"KubeVirt does not show the tag of {noun} to the guest")


WARNERS: Mapping[str, Warner] = MappingProxyType(
    {
        "unknown-field": unknown_to_this_version,
        "device-name-missing": missing_names,
        "unchecked-host-device": unchecked_host_devices,
        "lost-request": several_requests_of_a_claim,
        "request-name": request_names,
        "duplicate-device-name": duplicate_device_names,
        "unused-claim": unused_claims,
        "tag-without-effect": tags_without_effect,
    }
)
"""The warnings by id (docs/lint), in their order."""
