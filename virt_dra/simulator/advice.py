"""What to do about a failure of each hand-over, in one sentence for the user."""

from __future__ import annotations

from collections.abc import Mapping

from launcher import LauncherError
from launcher import errors as launcher_errors
from virt_dra.allocator.explain import NO_DEVICES
from virt_dra.api.integration import attribute_keys
from virt_dra.api.kubevirt_v1 import VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, HOST_DEVICES, HOST_DEVICES_WITH_DRA, NETWORK_DEVICES_WITH_DRA, Gates
from virt_dra.controllers.devices import outcomes as device_outcomes
from virt_dra.scheduling.placement import Unplaced
from webhooks.vmi import Verdict


def admission(verdict: Verdict, gates_off: frozenset[str], gates: Gates) -> str:
    """What to do about a VM that is refused. ``gates_off``: gates that the VM needs and that are off."""
    if gates_off and any("feature gate" in cause.message for cause in verdict.causes):
        wanted = "; ".join(gates.how_to_enable(gate) for gate in sorted(gates_off))
        choices = ",".join(f"{gate}=true" for gate in sorted(gates_off))
        return f"in the KubeVirt object, {wanted}; to try it here: --gates {choices}"
    return "change the named fields of the VM; the rules are K-2 in docs/spec/kubevirt.md"


def gates_needed(spec: VirtualMachineInstanceSpec) -> frozenset[str]:
    """The gates without which KubeVirt refuses devices like these (K-2.13, K-2.18, K-2.22)."""
    devices = spec.domain.devices
    needed = {
        GPUS_WITH_DRA: any(gpu.is_dra for gpu in devices.gpus),
        HOST_DEVICES: bool(devices.host_devices),
        HOST_DEVICES_WITH_DRA: any(device.is_dra for device in devices.host_devices),
        NETWORK_DEVICES_WITH_DRA: any(network.resource_claim is not None for network in spec.networks),
    }
    return frozenset(gate for gate, needs in needed.items() if needs)


def claims(message: str, namespace: str) -> str:
    if "template" in message:
        return f"create the ResourceClaimTemplate in namespace {namespace}, or correct spec.resourceClaims[].resourceClaimTemplateName"
    return "correct the ResourceClaimTemplate as the message says"


def placement(outcome: Unplaced) -> str:
    if outcome.nodes and not any(node.explanation for node in outcome.nodes):
        return "add or label a node so that the VM's nodeSelector, affinity and tolerations, and its allocated claims, admit it"
    if outcome.nodes and all(node.explanation and node.explanation.reason == NO_DEVICES for node in outcome.nodes):
        return "add the ResourceSlices of these nodes to the input (kubectl get resourceslices -o yaml): none of them offers a device"
    if outcome.nodes:
        return "free a device, add a node that has one, or ask for less; the lines above say what refused each device"
    if "CEL" in outcome.message:
        return "correct the selector's expression"
    if "device class" in outcome.message:
        return "create the DeviceClass, or correct deviceClassName in the claim"
    if "could not find ResourceClaim" in outcome.message:
        return "add the ResourceClaim to the input, or correct spec.resourceClaims[].resourceClaimName"
    if outcome.message.startswith('node "'):
        return "choose a node of the input, or add the Node"
    return "correct what the message names"


def device(reason: str) -> str:
    """What to do about a device that can't be resolved. ``reason``: of K-5."""
    return _DEVICE.get(reason, "correct what the message names; the reasons are K-5 in docs/spec/kubevirt.md")


_SLICES = "add the pool's missing ResourceSlices to the input (kubectl get resourceslices -o yaml), or look at the driver"
_DEVICE: Mapping[str, str] = {
    device_outcomes.REQUEST_NOT_IN_CLAIM: "correct requestName of the device, or add the request to the claim or its template",
    device_outcomes.TOO_MANY_DEVICES: "ask for one device a request in the claim or its template, and give each request a device entry",
    device_outcomes.ADMIN_ACCESS: "take adminAccess out of the claim's request",
    device_outcomes.POOL_INCOMPLETE: _SLICES,
    device_outcomes.DEVICE_NOT_PUBLISHED: _SLICES,
    device_outcomes.AMBIGUOUS_DEVICE: "report it to the driver: the names of a pool's devices must differ",
    attribute_keys.NO_ADDRESS: (
        "take a device of a driver that publishes addresses (select it in the claim or class), or report it to the driver; "
        "the keys are K-6 in docs/spec/kubevirt.md"
    ),
    attribute_keys.CONFLICTING_ATTRIBUTES: "report it to the driver: attributes for the same address must be equal",
}


def launcher(error: LauncherError) -> str:
    return _LAUNCHER.get(error.reason, "correct what the message names; the rules are K-7 in docs/spec/kubevirt.md")


_LAUNCHER: Mapping[str, str] = {
    launcher_errors.COUNT_MISMATCH: (
        "devices with deviceName come from a device plugin, which the embedded cluster does not have; "
        "give their variables to virt-dra domain-xml, or use a claim"
    ),
    launcher_errors.MALFORMED_ADDRESS: "the driver must publish an address that KubeVirt can read (K-7.4); report it to the driver",
    launcher_errors.DUPLICATE_ALIAS: "give the device entries different names",
    launcher_errors.UNWRITABLE_TEXT: "use letters, digits, - and . in names",
}
