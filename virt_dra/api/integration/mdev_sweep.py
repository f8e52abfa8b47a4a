"""virt-handler's sweep of mediated devices (D-60): up to and including KubeVirt 1.9.0 it removes, at each heartbeat,
every mdev whose type its configuration doesn't name. The guest loses its device while the VM seems to run. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.integration.known_drivers import PASSTHROUGH_DRIVER
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import V1_9_0, KubeVirtVersion, ObservedVersion
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.resource_v1 import Device, ResourceSlice
from virt_dra.api.wire import Json

SWEEP_GATE: Final = "DisableMDEVConfiguration"
"""The gate of KubeVirt that turns the sweep off, and with it mdevs that KubeVirt makes."""
_V1_9: Final = KubeVirtVersion.parse("1.9")


MdevTypeNames = frozenset[str]
"""The id and the name of one type, as far as they are known."""


def made_mdev_types(
    published: Iterable[ResourceSlice], policies: Iterable[VirtDraNodePolicy] = ()
) -> set[MdevTypeNames]:
    """The types of mdevs that a node's driver offers, which it makes when a claim is prepared, or that a policy tells
    it to."""
    named = {
        frozenset((wanted.type,))
        for policy in policies
        for device_set in policy.spec.device_sets
        for wanted in device_set.mdev_types
    }
    slices = (obj for obj in published if obj.spec.driver == PASSTHROUGH_DRIVER)
    return named | {_type_names(device) for obj in slices for device in obj.spec.devices if _is_mdev(device)}


def is_swept(kubevirt: KubeVirt, version: KubeVirtVersion, types: Iterable[MdevTypeNames]) -> bool:
    """True if this KubeVirt removes mdevs of one of the types that others make: all but those that it knows as somebody
    else's. 1.9 without a patch level may be 1.9.0."""
    configuration = kubevirt.spec.configuration
    gates = configuration.developer_configuration
    if version > V1_9_0 and version != _V1_9:
        return False
    if SWEEP_GATE in gates.feature_gates and SWEEP_GATE not in gates.disabled_feature_gates:
        return False
    permitted = configuration.permitted_host_devices
    external = {
        _compared(device.mdev_name_selector)
        for device in (permitted.mediated_devices if permitted is not None else ())
        if device.external_resource_provider
    }
    return any(external.isdisjoint(map(_compared, names)) for names in types)


def patch_against_sweep(kubevirt: KubeVirt) -> Json:
    """The merge patch of the KubeVirt object that turns the sweep off."""
    configuration = kubevirt.spec.configuration.developer_configuration
    patched: Json = {"featureGates": [*configuration.feature_gates, SWEEP_GATE]}
    if SWEEP_GATE in configuration.feature_gates:
        del patched["featureGates"]
    if SWEEP_GATE in configuration.disabled_feature_gates:
        patched["disabledFeatureGates"] = [gate for gate in configuration.disabled_feature_gates if gate != SWEEP_GATE]
    return {"spec": {"configuration": {"developerConfiguration": patched}}}


def sweep_finding(
    kubevirt: KubeVirt, named: KubeVirtVersion | None, types: Iterable[MdevTypeNames]
) -> CheckFinding | None:
    """The error about a KubeVirt that removes mdevs of these types of others, with the patch. ``named``: overrides its
    version."""
    version = named or ObservedVersion.parse(kubevirt.status.observed_kube_virt_version or "").version
    if not is_swept(kubevirt, version, types):
        return None
    message = f"virt-handler of KubeVirt {version} removes mdevs that the node driver makes, also those that VMs use"
    patch = json.dumps(patch_against_sweep(kubevirt))
    namespace = f" -n {kubevirt.namespace}" if kubevirt.namespace else ""
    advice = f"kubectl patch kubevirt{namespace} {kubevirt.name} --type merge -p '{patch}'"
    return CheckSubject("mdev-sweep", f"KubeVirt {kubevirt.key}").error(message, advice)


def _is_mdev(device: Device) -> bool:
    return _attribute(device, "kind") == "mdev"


def _type_names(device: Device) -> MdevTypeNames:
    return frozenset(filter(None, (_attribute(device, name) for name in ("mdevType", "mdevTypeName"))))


def _attribute(device: Device, name: str) -> str:
    attribute = device.attributes.get(name) or device.attributes.get(f"{PASSTHROUGH_DRIVER}/{name}")
    return (attribute.string if attribute is not None else None) or ""


def _compared(name: str) -> str:
    """A type's name as virt-handler compares it."""
    return name.strip().replace(" ", "_")
