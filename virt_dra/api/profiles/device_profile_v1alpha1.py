"""virt-dra.io/v1alpha1: a named set of devices that VMs ask for by the profile's name."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from virt_dra.api.core_v1 import LabelSelector
from virt_dra.api.kubevirt_v1 import VGPUOptions
from virt_dra.api.meta import Condition, TypedObject
from virt_dra.api.resource_v1 import (
    CapacityRequirements,
    DeviceClaimConfiguration,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
)
from virt_dra.api.wire import Int32, List, Str, Wire

API_VERSION: Final = "virt-dra.io/v1alpha1"

GPU_TYPE: Final = "GPU"
HOST_DEVICE_TYPE: Final = "HostDevice"
NETWORK_TYPE: Final = "Network"
DEVICE_TYPES: Final = (GPU_TYPE, HOST_DEVICE_TYPE, NETWORK_TYPE)

PCIE_ROOT: Final = "pcieRoot"
NUMA_NODE: Final = "numaNode"
STANDARD_ATTRIBUTES: Final = {
    PCIE_ROOT: f"resource.kubernetes.io/{PCIE_ROOT}",
    NUMA_NODE: f"resource.kubernetes.io/{NUMA_NODE}",
}
"""Attributes of Kubernetes (A-27.1) that ``align`` may name without their domain."""

REQUIRED: Final = "Required"
PREFERRED: Final = "Preferred"
ALIGNMENT_MODES: Final = (REQUIRED, PREFERRED)


class ProfileDevice(Wire):
    """A device of a profile, ``count`` times (1 without it): what is asked for, as in a request of a claim, and the
    VM's list that gets it.

    ``type``: ``GPU`` (the default), ``HostDevice`` or ``Network``, an SR-IOV interface. ``virtualGPUOptions``: of GPUs.
    """

    name: Str = ""
    type: Str | None = None
    count: Int32 | None = None
    device_class_name: Str = ""
    selectors: List[DeviceSelector] = ()
    tolerations: List[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    first_available: List[DeviceSubRequest] = ()
    tag: Str | None = None
    virtual_gpu_options: VGPUOptions | None = Field(default=None, alias="virtualGPUOptions")

    @property
    def copies(self) -> int:
        return 1 if self.count is None else self.count

    @property
    def listed_as(self) -> str:
        """The list of the device in a VM, one of :data:`DEVICE_TYPES` in a valid profile."""
        return GPU_TYPE if self.type is None else self.type


class ProfileAlignment(Wire):
    """Devices of the profile (all of it without names) that have an attribute in common: ``pcieRoot``, ``numaNode``, or
    a driver's with its domain. ``mode``: ``Required`` (the default), or ``Preferred``: where a node can."""

    devices: List[Str] = ()
    attribute: Str = ""
    mode: Str | None = None

    @property
    def is_required(self) -> bool:
        return self.mode is None or self.mode == REQUIRED

    @property
    def qualified_attribute(self) -> str:
        return STANDARD_ATTRIBUTES.get(self.attribute, self.attribute)


class ProfileKeep(Wire):
    """How long a VM keeps its devices while it is stopped, if it doesn't say otherwise itself. ``stoppedFor``: for how
    long at most. ``onNodeLoss``: after how long without its node it may start elsewhere, or ``never``."""

    stopped_for: Str | None = None
    on_node_loss: Str | None = None


class DeviceProfileSpec(Wire):
    """The devices of a profile, and who may ask for them. ``namespaceSelector``: the namespaces whose VMs may ask for
    it, all without it. ``config``: of the claim that is made; its requests are names of the profile's devices."""

    namespace_selector: LabelSelector | None = None
    devices: List[ProfileDevice] = ()
    align: List[ProfileAlignment] = ()
    config: List[DeviceClaimConfiguration] = ()
    keep: ProfileKeep | None = None


class DeviceProfileStatus(Wire):
    """The use of a profile. ``vms``: the VMs that ask for the profile. ``fittingNodes``: the nodes on which a VM with
    it would fit now; if none, ``reason`` and ``message`` say why."""

    vms: Int32 | None = None
    fitting_nodes: Int32 | None = None
    reason: Str | None = None
    message: Str | None = None
    conditions: List[Condition] = ()


class DeviceProfile(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    NAMESPACED: ClassVar[bool] = False

    spec: DeviceProfileSpec = DeviceProfileSpec.empty()
    status: DeviceProfileStatus = DeviceProfileStatus.empty()
