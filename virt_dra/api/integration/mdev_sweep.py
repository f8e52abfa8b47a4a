"""virt-handler's sweep of mediated devices (D-60): up to and including KubeVirt 1.9.0 it removes, at each heartbeat,
every mdev whose type its configuration doesn't name. The guest loses its device while the VM seems to run. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import V1_9_0, KubeVirtVersion, ObservedVersion
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.resource_v1 import Device, ResourceSlice
from virt_dra.api.wire import Json

PASSTHROUGH_DRIVER: Final = "passthrough.virt-dra.io"
"""The name of the project's own driver for devices that are passed through."""
SWEEP_GATE: Final = "DisableMDEVConfiguration"
"""The gate of KubeVirt that turns the sweep off, and with it mdevs that KubeVirt makes."""
_V1_9: Final = KubeVirtVersion.parse("1.9")


def makes_mdevs(published: Iterable[ResourceSlice], policies: Iterable[VirtDraNodePolicy] = ()) -> bool:
    """True if a node's driver offers mdevs, which it makes when a claim is prepared, or a policy tells it to."""
    return any(device_set.mdev_types for policy in policies for device_set in policy.spec.device_sets) or any(
        obj.spec.driver == PASSTHROUGH_DRIVER and any(map(_is_mdev, obj.spec.devices)) for obj in published
    )


def is_swept(kubevirt: KubeVirt, version: KubeVirtVersion) -> bool:
    """True if this KubeVirt removes mdevs that others make; 1.9 without a patch level may be 1.9.0."""
    configuration = kubevirt.spec.configuration.developer_configuration
    on = SWEEP_GATE in configuration.feature_gates and SWEEP_GATE not in configuration.disabled_feature_gates
    return (version <= V1_9_0 or version == _V1_9) and not on


def patch_against_sweep(kubevirt: KubeVirt) -> Json:
    """The merge patch of the KubeVirt object that turns the sweep off."""
    configuration = kubevirt.spec.configuration.developer_configuration
    patched: Json = {"featureGates": [*configuration.feature_gates, SWEEP_GATE]}
    if SWEEP_GATE in configuration.feature_gates:
        del patched["featureGates"]
    if SWEEP_GATE in configuration.disabled_feature_gates:
        patched["disabledFeatureGates"] = [gate for gate in configuration.disabled_feature_gates if gate != SWEEP_GATE]
    return {"spec": {"configuration": {"developerConfiguration": patched}}}


def sweep_finding(kubevirt: KubeVirt, named: KubeVirtVersion | None) -> CheckFinding | None:
    """The error about a KubeVirt that removes mdevs of others, with the patch. ``named``: overrides its version."""
    version = named or ObservedVersion.parse(kubevirt.status.observed_kube_virt_version or "").version
    if not is_swept(kubevirt, version):
        return None
    message = f"virt-handler of KubeVirt {version} removes mdevs that the node driver makes, also those that VMs use"
    patch = json.dumps(patch_against_sweep(kubevirt))
    namespace = f" -n {kubevirt.namespace}" if kubevirt.namespace else ""
    advice = f"kubectl patch kubevirt{namespace} {kubevirt.name} --type merge -p '{patch}'"
    return CheckSubject("mdev-sweep", f"KubeVirt {kubevirt.key}").error(message, advice)


def _is_mdev(device: Device) -> bool:
    kind = device.attributes.get("kind") or device.attributes.get(f"{PASSTHROUGH_DRIVER}/kind")
    return kind is not None and kind.string == "mdev"
