"""The remedy for a failure of each hand-over, in one sentence; most are in advice.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from launcher import LauncherError
from virt_dra.allocator.explain import NO_DEVICES
from virt_dra.api.kubevirt_v1 import VirtualMachineInstanceSpec
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    Gates,
)
from virt_dra.scheduling.placement import Unplaced
from webhooks.vmi import Verdict

_MAX_REMEDIES: Final = 3


@cache
def remedies() -> Mapping[str, Mapping[str, str]]:
    """The remedies by reason: of refusals everywhere, by nodes, devices, their resolution (K-5), and the launcher."""
    text = files(__package__).joinpath("advice.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]  # a file of ours, which a test reads


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
        otherwise = "ask for less, or add a node with suitable devices"
        by_text = dict.fromkeys(remedies()["devices"].get(reason, otherwise) for reason in reasons)
        return "; or ".join(tuple(by_text)[:_MAX_REMEDIES])
    if outcome.nodes:
        codes = [reason.code for node in outcome.nodes for reason in node.node_reasons]
        return "; or ".join(dict.fromkeys(remedies()["nodes"].get(code, _ADMITTING) for code in codes or [""]))
    return remedies()["everywhere"].get(outcome.code, "correct what the message names")


_ADMITTING: Final = (
    "add or label a node so that the VM's nodeSelector, affinity and tolerations, and its allocated claims, admit it"
)


def device(reason: str) -> str:
    """The remedy for a device that can't be resolved. ``reason``: of K-5."""
    otherwise = "correct what the message names; the reasons are K-5 in docs/spec/kubevirt.md"
    return remedies()["resolution"].get(reason, otherwise)


def launcher(error: LauncherError) -> str:
    otherwise = "correct what the message names; the rules are K-7 in docs/spec/kubevirt.md"
    return remedies()["launcher"].get(error.reason, otherwise)
