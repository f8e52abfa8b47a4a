"""Features that the KubeVirt at hand lacks or has disabled: versions and gates (K-1.11, K-5.15, K-7.11, K-2.31)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.integration.paths import AUTO, BY_CHOICE, PATH_ANNOTATION
from virt_dra.api.kubevirt_versions import (
    HOST_DEVICES,
    MULTI_ARCHITECTURE,
    NETWORK_DEVICES_WITH_DRA,
    RESERVED_OVERHEAD_MEMLOCK,
    SIDECAR,
    V1_6_0,
    V1_8_0,
    V1_8_3,
    V1_9_0,
)
from webhooks.lint.linted import Linted
from webhooks.rules.features import HOOK_SIDECARS, another_architecture
from webhooks.rules.reviewed_spec import DEVICE_LISTS
from webhooks.verdict import FieldIssue


def feature_gate_off(linted: Linted) -> Iterator[FieldIssue]:
    """Feature gates that the VM needs and that are disabled. 1.6 and 1.7 admit such host devices, but the VM never
    starts (K-2.30)."""
    spec, version, gates = linted.reviewed.spec, linted.version, linted.inputs.configuration.gates
    for kind in DEVICE_LISTS:
        if version >= V1_6_0 and kind.gate not in gates and any(device.is_dra for device in kind.devices(spec)):
            yield _off(linted, linted.path(kind.field), kind.gate, f"{kind.plural} from claims")
    if spec.domain.devices.host_devices and HOST_DEVICES not in gates:
        field = linted.path("domain.devices.hostDevices")
        yield _off(linted, field, HOST_DEVICES, "any host device, from a claim or not,")
    from_claims = any(network.resource_claim is not None for network in spec.networks)
    if version >= V1_9_0 and NETWORK_DEVICES_WITH_DRA not in gates and from_claims:
        yield _off(linted, linted.path("networks"), NETWORK_DEVICES_WITH_DRA, "networks from claims")
    reserved = spec.domain.memory and spec.domain.memory.reserved_overhead
    if version >= V1_8_0 and RESERVED_OVERHEAD_MEMLOCK not in gates and reserved is not None:
        yield _off(linted, linted.path("domain.memory.reservedOverhead"), RESERVED_OVERHEAD_MEMLOCK, "reservedOverhead")
    if version < V1_8_0 and MULTI_ARCHITECTURE not in gates and another_architecture(spec, gates):
        subject = f"architecture {spec.architecture} on a control plane of {gates.architecture}"
        yield _off(linted, linted.path("architecture"), MULTI_ARCHITECTURE, subject)
    if linted.reviewed.annotations.get(HOOK_SIDECARS) and SIDECAR not in gates:
        yield _off(linted, f"{linted.reviewed.metadata}.annotations[{HOOK_SIDECARS}]", SIDECAR, "a hook sidecar")


def _off(linted: Linted, field: str, gate: str, subject: str) -> FieldIssue:
    need = "need" if subject.endswith("s") or "s from" in subject else "needs"
    text = f"{subject} {need} the feature gate {gate}, which is off in KubeVirt {linted.version}"
    cure = linted.inputs.configuration.gates.how_to_enable(gate)
    return FieldIssue(field, f"{text}. In the KubeVirt object, {cure}")


def kubevirt_too_old(linted: Linted) -> Iterator[FieldIssue]:
    """Devices from claims on a KubeVirt that doesn't know them (K-2.31)."""
    if linted.version >= V1_6_0:
        return
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(linted.reviewed.spec)):
            if device.is_dra:
                yield FieldIssue(
                    linted.path(f"{kind.field}[{index}]"),
                    f"KubeVirt {linted.version} can't give a VM a device from a claim. Use KubeVirt 1.8.3 or newer, or "
                    "name the device with deviceName and let virt-dra stand in for the device plugin",
                )


def metadata_path(linted: Linted) -> Iterator[FieldIssue]:
    """VMs on KubeVirt 1.8.0 to 1.8.2, which reads metadata from another path than drivers write it to (K-7.11)."""
    if V1_8_0 <= linted.version < V1_8_3 and any(
        use.kind != "networks" and not linted.shimmed(use) for use in linted.uses
    ):
        yield FieldIssue(
            linted.path("resourceClaims"),
            f"KubeVirt {linted.version} reads the addresses of devices below /var/run/dra-device-attributes, and "
            "drivers write them below /var/run/kubernetes.io/dra-device-attributes. Use KubeVirt 1.8.3 or newer, or "
            "the metadata shim of virt-dra, which also writes to the old path",
        )


def path_does_not_work(linted: Linted) -> Iterator[FieldIssue]:
    """An integration path that is asked for and with which the VM never starts (K-11)."""
    return _chosen_paths(linted, fails=True)


def path_may_not_work(linted: Linted) -> Iterator[FieldIssue]:
    """An integration path that is asked for and isn't known to go together with the drivers (K-11)."""
    return _chosen_paths(linted, fails=False)


def _chosen_paths(linted: Linted, *, fails: bool) -> Iterator[FieldIssue]:
    field = f"{linted.reviewed.metadata}.annotations[{PATH_ANNOTATION}]"
    if linted.reviewed.annotations.get(PATH_ANNOTATION, "") in ("", AUTO):
        return  # which drivers may serve a request takes evaluating selectors
    for use in linted.uses:
        decision = linted.path_of(use)
        if decision is not None and decision.reason in BY_CHOICE and decision.warning and decision.fails == fails:
            yield FieldIssue(field, f"request {quoted(use.request_name)}: {decision.message}")


def direct_claim_unresolved(linted: Linted) -> Iterator[FieldIssue]:
    """Direct claims on KubeVirt 1.6 and 1.7, which wait for a status entry that only claims from templates have
    (K-5.15)."""
    if V1_6_0 <= linted.version < V1_8_0 and any(use.kind != "networks" for use in linted.uses):
        for claim in linted.claims:
            if claim.direct:
                yield FieldIssue(
                    claim.field,
                    f"KubeVirt {linted.version} never finds the devices of a VM that names a ResourceClaim directly, "
                    f"here {quoted(claim.name)}: it waits for a status that Kubernetes gives to claims from templates "
                    "only. Use a template, or KubeVirt 1.8.3 or newer",
                )
