"""What ``kubectl explain vmid`` says: a description of every field of the kinds that are ours alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devtools.crds.structural import Descriptions
from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api import virt_dra_v1alpha1 as ours
from virt_dra.api.meta import Condition
from virt_dra.api.resource_v1 import DeviceTaint
from virt_dra.api.wire import Wire

_READY: Final = "How many devices have an address that reaches the VM, of all: 1/2."

DESCRIPTIONS: Final[Mapping[type[Wire], Descriptions]] = {
    ours.VirtualMachineInstanceDevices: Descriptions(
        "The devices that a VirtualMachineInstance has from ResourceClaims: where "
        "they are, whether they are healthy, and what a VM waits "
        "for. It is named like the VirtualMachineInstance, which owns it. virt-dra's "
        "operator writes it; changes of others are undone.",
        {"status": "What is known of the devices."},
    ),
    ours.VirtualMachineInstanceDevicesStatus: Descriptions(
        "What is known of a VM's devices.",
        {
            "ready": _READY,
            "nodeName": "The node on which the launcher pod runs, or ran last.",
            "podName": "The launcher pod that the devices belong to.",
            "podUID": "The UID of that pod: a later pod may have the same name.",
            "integrationPaths": "The ways on which addresses reach KubeVirt, each once, "
            "comma-separated: see integrationPath of devices.",
            "deviceStatus": "The devices from claims in the form that KubeVirt's own status "
            "had for them: those that have an address.",
            "devices": "Every device and network of the VM that a claim serves, in the order of its spec.",
            "migrationTarget": "While the VM migrates: the pod that it migrates to, and the devices there.",
            "conditions": "DevicesResolved: whether every device has an address. "
            "DevicesHealthy: whether none has vanished, "
            "changed, been tainted or become unhealthy. Allocatable, while the "
            "pod waits for a node: whether its claims can be "
            "allocated, and if not, why.",
        },
    ),
    ours.VmiDevice: Descriptions(
        "A device or network of the VM that a claim serves.",
        {
            "name": "The name of the entry in the VM's spec.",
            "kind": "The list of the VM's spec that has the entry: gpus, hostDevices or networks.",
            "claimName": "The entry of the VM's spec.resourceClaims that serves it.",
            "requestName": "The request of that claim.",
            "resourceClaimName": "The ResourceClaim in the VM's namespace.",
            "driver": "The DRA driver of the allocated device.",
            "pool": "The driver's pool that the device is in; most often the name of a node.",
            "device": "The name of the device in its pool.",
            "pciAddress": "The device's PCI address on its node: domain, bus, slot and function in hex.",
            "mdevUUID": "The UUID of the mediated device on its node.",
            "integrationPath": "How the address reaches KubeVirt: native (the driver "
            "writes a metadata file), metadata-shim "
            "(virt-dra writes it), device-plugin (variables as of a device plugin), "
            "or none, where this KubeVirt can't be reached.",
            "state": "Resolved: its address reaches the VM. Pending: it will have "
            "one. Error: waiting won't help. Released: "
            "the VM has finished.",
            "reason": "Why it isn't resolved, or what is wrong with it, in one word.",
            "message": "The same in a sentence, with what to do.",
            "taints": "The taints that the device has now, from its driver or from DeviceTaintRules, tolerated or not.",
            "health": "What the driver reported to the kubelet about the device.",
        },
    ),
    ours.DeviceHealth: Descriptions(
        "A device's health, as its driver reported it to the kubelet.",
        {"status": "Healthy, Unhealthy or Unknown.", "message": "The driver's explanation."},
    ),
    ours.MigrationTarget: Descriptions(
        "The pod that a VM migrates to.",
        {
            "ready": _READY,
            "nodeName": "The node of the pod; absent until it has one.",
            "podName": "The pod.",
            "podUID": "The UID of the pod.",
            "devices": "The devices there, as the VM's devices above.",
        },
    ),
    kubevirt.DeviceStatus: Descriptions(
        "Devices by kind.",
        {
            "gpuStatuses": "Those of the VM's spec.domain.devices.gpus.",
            "hostDeviceStatuses": "Those of the VM's spec.domain.devices.hostDevices.",
        },
    ),
    kubevirt.DeviceStatusInfo: Descriptions(
        "One device.",
        {"name": "The name of the entry in the VM's spec.", "deviceResourceClaimStatus": "What its claim led to."},
    ),
    kubevirt.DeviceResourceClaimStatus: Descriptions(
        "An allocated device.",
        {
            "name": "The name of the device in its pool.",
            "resourceClaimName": "The ResourceClaim in the VM's namespace.",
            "attributes": "The addresses of the device on its node.",
        },
    ),
    kubevirt.DeviceAttributes: Descriptions(
        "The addresses of a device.",
        {"pciAddress": "Its PCI address.", "mDevUUID": "The UUID of a mediated device."},
    ),
    DeviceTaint: Descriptions(
        "A taint of a device.",
        {
            "key": "The key, by which claims tolerate it.",
            "value": "The value of the key, if it has one.",
            "effect": "None, NoSchedule (no new claims) or NoExecute (pods that use it are evicted, too).",
            "timeAdded": "Since when the device has it.",
        },
    ),
    Condition: Descriptions(
        "A condition.",
        {
            "type": "DevicesResolved, DevicesHealthy or Allocatable.",
            "status": "True, False or Unknown.",
            "observedGeneration": "Not used.",
            "lastTransitionTime": "Since when the status is what it is.",
            "reason": "Why, in one word.",
            "message": "Why, in a sentence.",
        },
    ),
}
