"""Conflicts of a VM with permittedHostDevices of the KubeVirt object (K-4.8, K-1.12, K-15.3), and of that object
with the node driver (D-60)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.core_v1 import Node
from virt_dra.api.go_text import quoted
from virt_dra.api.integration.mdev_sweep import made_mdev_types, sweep_finding
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, V1_6_0, V1_9_0
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.node_policy_v1alpha1 import VirtDraNodePolicy
from virt_dra.api.resource_v1 import ResourceSlice
from webhooks.lint.inputs import LintInputs
from webhooks.lint.linted import Linted
from webhooks.rules.reviewed_spec import DEVICE_LISTS, GPUS, HOST_DEVICES
from webhooks.verdict import FieldIssue

PERMITTED = "spec.configuration.permittedHostDevices"


def permitted_host_devices(linted: Linted) -> Iterator[FieldIssue]:
    """Devices for which KubeVirt refuses to render the launcher pod, because permittedHostDevices doesn't list them."""
    permitted, version = linted.inputs.configuration.permitted, linted.version
    if permitted is None:
        return
    kinds = (permitted.pci_host_devices, permitted.mediated_devices, permitted.usb)
    listed = {device.resource_name for of_kind in kinds for device in of_kind}
    # K-15.3: switches the check off for every GPU
    skipped = version < V1_9_0 and GPUS_WITH_DRA in linted.inputs.configuration.gates
    for kind in DEVICE_LISTS:
        for index, device in enumerate(kind.devices(linted.reviewed.spec)):
            field = linted.path(f"{kind.field}[{index}]")
            if device.is_plugin and device.device_name not in listed and not (kind is GPUS and skipped):
                yield FieldIssue(
                    f"{field}.deviceName",
                    f"{quoted(device.device_name or '')} is not a resourceName in {PERMITTED} of the KubeVirt object, "
                    f"so KubeVirt {version} refuses to create the VM's pod. Add it there, or correct the name",
                )
            elif device.is_dra and kind is HOST_DEVICES and V1_6_0 <= version < V1_9_0:
                yield FieldIssue(
                    field,
                    f"KubeVirt {version} checks host devices from claims against {PERMITTED}, which can't list them, "
                    "and refuses to create the VM's pod. Remove permittedHostDevices, write the device under gpus, or "
                    "use KubeVirt 1.9",
                )


def device_served_twice(linted: Linted) -> Iterator[FieldIssue]:
    """Devices that both KubeVirt's own device plugin (by vendor and product) and a DRA driver allocate, neither knowing
    of the other."""
    permitted = linted.inputs.configuration.permitted
    if permitted is None:
        return
    own = {
        device.pci_vendor_selector.upper(): device.resource_name
        for device in permitted.pci_host_devices
        if not device.external_resource_provider
    }
    for use in linted.uses:
        for product, device in linted.candidates(use).products.items():
            if product in own:
                yield FieldIssue(
                    use.request_field,
                    f"the device {device} that request {quoted(use.request_name)} may get "
                    f"is a {product}, and KubeVirt's own device plugin "
                    f"allocates such devices as {own[product]}: two VMs may get the same device. Remove {product} from "
                    f"{PERMITTED}.pciHostDevices, or set externalResourceProvider: true there",
                )


def mdev_sweep(obj: TypedObject, inputs: LintInputs) -> Iterator[FieldIssue]:
    """KubeVirt objects whose virt-handler removes the mdevs that the node driver makes (D-60)."""
    if not isinstance(obj, KubeVirt):
        return
    nodes = {node.name: node.metadata.labels for node in inputs.model.of(Node)}
    types = made_mdev_types(inputs.model.of(ResourceSlice), nodes, inputs.model.of(VirtDraNodePolicy))
    if sweep := sweep_finding(obj, inputs.configuration.version, types):
        field = "spec.configuration.developerConfiguration.featureGates"
        yield FieldIssue(field, f"{sweep.message}: {sweep.advice}")
