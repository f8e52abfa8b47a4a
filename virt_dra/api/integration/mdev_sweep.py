"""virt-handler's sweep of mediated devices (D-60): up to and including KubeVirt 1.9.0 it removes, at each heartbeat,
every mdev whose type its configuration doesn't name for that node. The guest loses its device while the VM seems to
run. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.integration.known_drivers import PASSTHROUGH_DRIVER
from virt_dra.api.kubevirt_v1 import KubeVirt, MediatedDevicesConfiguration, NodeMediatedDeviceTypesConfig
from virt_dra.api.kubevirt_versions import V1_9_0, KubeVirtVersion, ObservedVersion
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.resource_v1 import Device, ResourceSlice
from virt_dra.api.wire import Json

SWEEP_GATE: Final = "DisableMDEVConfiguration"
"""The gate of KubeVirt that turns the sweep off, and with it mdevs that KubeVirt makes."""
_V1_9: Final = KubeVirtVersion.parse("1.9")


MdevTypeNames = frozenset[str]
"""The id and the name of one type, as far as they are known."""
NodeLabels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MadeMdevType:
    """A type of mdevs that the driver makes on a node. ``labels``: the node's; None where they aren't known."""

    names: MdevTypeNames
    labels: NodeLabels | None


def made_mdev_types(
    published: Iterable[ResourceSlice], nodes: Mapping[str, NodeLabels], policies: Iterable[VirtDraNodePolicy] = ()
) -> list[MadeMdevType]:
    """The types of mdevs that a node's driver offers, which it makes when a claim is prepared, or that a policy tells
    it to. ``nodes``: the labels of those that are known."""
    by_node = {
        (_type_names(device), obj.spec.node_name)
        for obj in published
        if obj.spec.driver == PASSTHROUGH_DRIVER
        for device in obj.spec.devices
        if _is_mdev(device)
    }
    offered = [MadeMdevType(names, nodes.get(node or "")) for names, node in by_node]
    named = [
        MadeMdevType(frozenset((wanted.type,)), labels)
        for policy in policies
        for device_set in policy.spec.device_sets
        for wanted in device_set.mdev_types
        for labels in _nodes_of(policy, nodes.values())
    ]
    return offered + named


def _nodes_of(policy: VirtDraNodePolicy, nodes: Collection[NodeLabels]) -> Iterable[NodeLabels | None]:
    """The labels of the nodes that a policy is for; unknown ones where no node is known."""
    selector = policy.spec.node_selector
    return [labels for labels in nodes if selector is None or selector.matches(labels)] if nodes else (None,)


def is_swept(kubevirt: KubeVirt, version: KubeVirtVersion, types: Iterable[MadeMdevType]) -> bool:
    """True if this KubeVirt removes mdevs of one of the types that others make: all but those that it knows as somebody
    else's, and those that it makes itself on that node. Of a node whose labels aren't known, what it makes on some
    nodes is taken for left alone. 1.9 without a patch level may be 1.9.0."""
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
    made = configuration.mediated_devices_configuration or MediatedDevicesConfiguration.empty()
    return any(
        (external | _kubevirts_types(made, made_type.labels)).isdisjoint(map(_compared, made_type.names))
        for made_type in types
    )


def _kubevirts_types(configuration: MediatedDevicesConfiguration, labels: NodeLabels | None) -> frozenset[str]:
    """The types that virt-handler makes on a node: those of all selectors that match, or else the general ones. It
    compares them as they are written, without replacing spaces (KubeVirt's ClusterConfig.GetDesiredMDEVTypes)."""
    general = frozenset(configuration.mediated_device_types or configuration.mediated_devices_types)
    by_node = configuration.node_mediated_device_types
    if labels is None:
        return general.union(*map(_written_types, by_node))
    selected = (entry for entry in by_node if entry.node_selector.items() <= labels.items())
    return frozenset[str]().union(*map(_written_types, selected)) or general


def _written_types(entry: NodeMediatedDeviceTypesConfig) -> tuple[str, ...]:
    return entry.mediated_device_types or entry.mediated_devices_types


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
    kubevirt: KubeVirt, named: KubeVirtVersion | None, types: Iterable[MadeMdevType]
) -> CheckFinding | None:
    """The error about a KubeVirt that removes others' such mdevs, with the patch. ``named``: overrides its version."""
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
    return name.replace(" ", "_").strip()
