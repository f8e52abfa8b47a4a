"""The remedy for a failure of each hand-over, in one sentence for the user."""

from __future__ import annotations

from collections.abc import Mapping

from launcher import LauncherError
from launcher import errors as launcher_errors
from virt_dra.allocator.errors import SELECTOR_ERROR
from virt_dra.allocator.explain import ELSEWHERE, NO_DEVICES, TOO_FEW, TOO_MANY
from virt_dra.allocator.features.attributes import MISSING
from virt_dra.allocator.features.capacity import EXHAUSTED
from virt_dra.allocator.features.compatibility_groups import INCOMPATIBLE
from virt_dra.allocator.features.consumption import POLICY, TOO_SMALL, UNKNOWN
from virt_dra.allocator.features.counters import INSUFFICIENT, UNKNOWN_USE
from virt_dra.allocator.features.distinct_attribute import REPEATED
from virt_dra.allocator.features.in_use import IN_USE, TAKEN
from virt_dra.allocator.features.match_attribute import DIFFERS
from virt_dra.allocator.features.node_operations import NOT_DECLARED
from virt_dra.allocator.features.per_device_nodes import NOT_ON_NODE
from virt_dra.allocator.features.selectors import MISMATCH
from virt_dra.allocator.features.static import FEATURE_OFF
from virt_dra.allocator.features.taints import TAINTED
from virt_dra.allocator.pools import INCOMPLETE, INVALID
from virt_dra.api.integration import attribute_keys
from virt_dra.api.kubevirt_v1 import VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    Gates,
)
from virt_dra.controllers.devices import outcomes as device_outcomes
from virt_dra.controllers.devices.delivery import NO_INTEGRATION_PATH
from virt_dra.scheduling.claim_checks import (
    CLAIM_DELETED,
    CLAIM_IN_FLIGHT,
    CLAIM_MISSING,
    CLAIM_NOT_CREATED,
    CLAIM_OF_OTHER,
    CLASS_MISSING,
    UNSUPPORTED,
)
from virt_dra.scheduling.filters.host_ports import PORT_TAKEN
from virt_dra.scheduling.filters.node_resources import INSUFFICIENT as INSUFFICIENT_ROOM
from virt_dra.scheduling.filters.pod_affinity import POD_AFFINITY
from virt_dra.scheduling.filters.topology_spread import SPREAD
from virt_dra.scheduling.placement import NO_NODE, Unplaced
from webhooks.vmi import Verdict


def admission(verdict: Verdict, gates_off: frozenset[str], gates: Gates) -> str:
    """The remedy for a VM that is refused. ``gates_off``: gates that the VM needs and that are off."""
    if gates_off and any("feature gate" in cause.message for cause in verdict.causes):
        wanted = "; ".join(gates.how_to_enable(gate) for gate in sorted(gates_off))
        choices = ",".join(f"{gate}=true" for gate in sorted(gates_off))
        return f"in the KubeVirt object, {wanted}; to try it here: --kubevirt-gates {choices}"
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
        return (
            f"create the ResourceClaimTemplate in namespace {namespace}, or correct "
            "spec.resourceClaims[].resourceClaimTemplateName"
        )
    return "correct the ResourceClaimTemplate as the message says"


def placement(outcome: Unplaced) -> str:
    if codes := [reason.code for node in outcome.nodes for reason in node.device_reasons]:
        # what other nodes lack is better advice than that a node has no devices
        reasons = [code for code in codes if code != NO_DEVICES] or [NO_DEVICES]
        remedies = dict.fromkeys(
            _DEVICES.get(reason, "ask for less, or add a node with suitable devices") for reason in reasons
        )
        return "; or ".join(tuple(remedies)[:_MAX_REMEDIES])
    if outcome.nodes:
        codes = [reason.code for node in outcome.nodes for reason in node.node_reasons]
        return "; or ".join(dict.fromkeys(_NODES.get(code, _ADMITTING) for code in codes or [""]))
    return _EVERYWHERE.get(outcome.code, "correct what the message names")


_ADMITTING = (
    "add or label a node so that the VM's nodeSelector, affinity and tolerations, and its allocated claims, admit it"
)
_EVERYWHERE: Mapping[str, str] = {
    SELECTOR_ERROR: "correct the selector's expression",
    CLASS_MISSING: "create the DeviceClass, or correct deviceClassName in the claim",
    CLAIM_MISSING: "add the ResourceClaim to the input, or correct spec.resourceClaims[].resourceClaimName",
    CLAIM_NOT_CREATED: "create the ResourceClaimTemplate, or correct spec.resourceClaims[].resourceClaimTemplateName",
    CLAIM_DELETED: "wait until the claim is gone, and create it anew",
    CLAIM_OF_OTHER: "delete the claim that has this name, or let the pod be created anew",
    CLAIM_IN_FLIGHT: "wait until the other pod that uses the claim has its place",
    UNSUPPORTED: "give the request exactly or firstAvailable, with a deviceClassName",
    FEATURE_OFF: "enable the feature gate that the message names",
    NO_NODE: "choose a node of the input, or add the Node",
}
"""The remedies of what refuses all nodes."""
_NODES: Mapping[str, str] = {
    INSUFFICIENT_ROOM: "ask for less, stop another VM there, or add a node with more room",
    PORT_TAKEN: "take another host port or none, stop the pod that has it, or add a node",
    SPREAD: "allow a larger maxSkew, or add a node to a domain with fewer pods",
    POD_AFFINITY: "relax the affinity between pods, or add a node in another domain",
}
"""The remedies of refusals by nodes themselves; for others it is that some node admits the VM."""
_MAX_REMEDIES = 3
_SLICES = "add the pool's missing ResourceSlices to the input (kubectl get resourceslices -o yaml), or check the driver"
_DEVICES: Mapping[str, str] = {
    NO_DEVICES: "add the ResourceSlices of these nodes to the input (kubectl get "
    "resourceslices -o yaml): none of them has a device",
    MISMATCH: "correct the selectors of the claim or its DeviceClass, or add a node with devices that match them",
    IN_USE: "stop a VM that uses such a device, or add a node with a free one",
    TAKEN: "ask for fewer devices, or add a node that has more",
    TOO_FEW: "ask for fewer devices, or add a node that has more",
    TOO_MANY: "ask for fewer devices in a claim, and use several claims",
    ELSEWHERE: "let the VM run on the node to which its claims are allocated, or create the claims anew",
    TAINTED: "remove the taint, or tolerate it in the claim's request",
    DIFFERS: "relax the claim's matchAttribute constraint, or add a node with enough devices of one value",
    REPEATED: "relax the claim's distinctAttribute constraint, or add a node with devices of more values",
    MISSING: "take devices that publish the attribute, or remove the claim's constraint on it",
    EXHAUSTED: "ask for less capacity, or stop a VM that uses some of it",
    TOO_SMALL: "ask for less capacity, or add a node with a larger device",
    POLICY: "ask for an amount that the device's request policy allows",
    UNKNOWN: "ask for a capacity that the device has",
    INSUFFICIENT: "stop a VM whose device uses the same counters, or ask for a smaller device",
    UNKNOWN_USE: "restore the ResourceSlice of the device that is in use but isn't "
    "published, or delete the claim that holds it",
    INCOMPATIBLE: "ask for devices of one compatibility group",
    NOT_DECLARED: "take a node whose kubelet declares the feature",
    NOT_ON_NODE: "add a node that can reach a matching device",
    FEATURE_OFF: "enable the feature gate that the details name",
    INCOMPLETE: _SLICES,
    INVALID: "report it to the driver: the details say what is wrong with its ResourceSlices",
}


def device(reason: str) -> str:
    """The remedy for a device that can't be resolved. ``reason``: of K-5."""
    return _DEVICE.get(reason, "correct what the message names; the reasons are K-5 in docs/spec/kubevirt.md")


_DEVICE: Mapping[str, str] = {
    device_outcomes.REQUEST_NOT_IN_CLAIM: "correct requestName of the device, or add the request "
    "to the claim or its template",
    device_outcomes.TOO_MANY_DEVICES: "ask for one device per request in the claim or its template, "
    "and give each request a device entry",
    device_outcomes.ADMIN_ACCESS: "take adminAccess out of the claim's request",
    device_outcomes.CLAIM_IN_USE: "stop the VM that uses the claim, or give each VM its own claim, from a template",
    device_outcomes.POOL_INCOMPLETE: _SLICES,
    device_outcomes.DEVICE_NOT_PUBLISHED: _SLICES,
    device_outcomes.AMBIGUOUS_DEVICE: "report it to the driver: the names of a pool's devices must differ",
    NO_INTEGRATION_PATH: "do what the message says; the path is chosen when the pod is made",
    attribute_keys.NO_ADDRESS: (
        "select a device of a driver that publishes addresses in the claim or class, or report it to the driver; "
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
    launcher_errors.MALFORMED_ADDRESS: "the driver must publish an address that KubeVirt can "
    "read (K-7.4); report it to the driver",
    launcher_errors.DUPLICATE_ALIAS: "give the device entries different names",
    launcher_errors.UNWRITABLE_TEXT: "use letters, digits, - and . in names",
}
