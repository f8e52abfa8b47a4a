"""The kinds of objects that the page shows: what is followed, and what a viewer must be allowed to list."""

from __future__ import annotations

from typing import Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices

OPTIONAL: Final[tuple[type[TypedObject], ...]] = (
    VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceDevices, KubeVirt, DeviceTaintRule,
)  # fmt: skip
"""Kinds that a cluster may not serve (yet)."""
KINDS: Final[tuple[type[TypedObject], ...]] = (
    Node, Pod, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, *OPTIONAL,
)  # fmt: skip
"""All of them: what a report is made of. Listed here so that the serving process needn't load what makes one."""
