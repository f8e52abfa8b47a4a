"""kubevirt.io/v1: the parts of VirtualMachine, VirtualMachineInstance and KubeVirt that devices touch (K-1). The rest
is kept.

Claim references are read in both spellings (K-1.7, K-1.8): the design's ``claim: {name, request}`` becomes
``claimName``/``requestName``, which is what is written. Giving both with different values is an error.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import AliasChoices, Field, model_validator

from virt_dra.api.core_v1 import FINISHED, PodResourceClaim, Toleration, TopologySpreadConstraint
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Json, List, Map, Str, Wire

GROUP = "kubevirt.io"
API_VERSION = f"{GROUP}/v1"
LAUNCHER_LABEL = "kubevirt.io"
LAUNCHER = "virt-launcher"
"""The value of that label on launcher pods."""
VM_NAME_LABEL = "vm.kubevirt.io/name"
"""On a launcher pod: the host name of its VM."""


class RamFB(Wire):
    enabled: Bool | None = None


class VGPUDisplayOptions(Wire):
    enabled: Bool | None = None
    ram_fb: RamFB | None = Field(default=None, alias="ramFB")


class VGPUOptions(Wire):
    display: VGPUDisplayOptions | None = None


class DeviceEntry(Wire):
    """What a ``gpus[]`` and a ``hostDevices[]`` entry have in common: a name and where the device comes from.

    ``claim_name`` names an entry of ``spec.resourceClaims``, not an object; ``request_name`` a request of that claim
    (K-1.4).
    """

    name: Str = ""
    device_name: Str | None = None
    claim_name: Str | None = None
    request_name: Str | None = None
    tag: Str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_the_designs_spelling(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or "claim" not in raw:
            return raw
        claim = raw["claim"]
        rest = {key: value for key, value in raw.items() if key != "claim"}
        if claim is None:
            return rest
        if not isinstance(claim, Mapping):
            raise ValueError("claim must be an object with name and request")
        if not {"name", "request"} & claim.keys():
            rest.setdefault("claimName", None)  # an empty reference counts as one
        for spelling, upstream in (("name", "claimName"), ("request", "requestName")):
            if spelling not in claim:
                continue
            value = claim[spelling]
            if rest.get(upstream) is None:
                rest[upstream] = value
            elif value is not None and rest[upstream] != value:
                raise ValueError(
                    f"claim.{spelling} {value!r} and {upstream} {rest[upstream]!r} differ; give only one of them"
                )
        return rest

    @property
    def is_plugin(self) -> bool:
        """Served by a device plugin (K-1.3)."""
        return bool(self.device_name)

    @property
    def is_dra(self) -> bool:
        """Served by a ResourceClaim: no device name, and a claim or request key is present, even if empty (K-1.3)."""
        return not self.is_plugin and self.names_claim

    @property
    def names_claim(self) -> bool:
        """True if a claim or request key is present, even if empty."""
        given = self.__pydantic_fields_set__
        return "claim_name" in given or "request_name" in given


class GPU(DeviceEntry):
    virtual_gpu_options: VGPUOptions | None = Field(default=None, alias="virtualGPUOptions")


class HostDevice(DeviceEntry):
    pass


class Disk(Wire):
    name: Str = ""


class Interface(Wire):
    name: Str = ""
    sriov: Json | None = None
    bridge: Json | None = None
    masquerade: Json | None = None
    binding: Json | None = None
    mac_address: Str | None = None
    pci_address: Str | None = None
    boot_order: Int | None = None
    tag: Str | None = None


class Devices(Wire):
    """``autoattachPodInterface``: False for no pod network where none is listed (K-2.37)."""

    autoattach_pod_interface: Bool | None = None
    gpus: List[GPU] = ()
    host_devices: List[HostDevice] = ()
    interfaces: List[Interface] = ()
    disks: List[Disk] = ()


class NUMA(Wire):
    guest_mapping_passthrough: Json | None = None


class CPU(Wire):
    cores: Int | None = None
    sockets: Int | None = None
    threads: Int | None = None
    model: Str | None = None
    dedicated_cpu_placement: Bool | None = None
    isolate_emulator_thread: Bool | None = None
    numa: NUMA | None = None


class ReservedOverhead(Wire):
    mem_lock: Str | None = None
    added_overhead: Quantity | None = None


class Memory(Wire):
    guest: Quantity | None = None
    hugepages: Json | None = None
    reserved_overhead: ReservedOverhead | None = None


class Machine(Wire):
    type: Str = ""


class DomainResources(Wire):
    requests: Map[Quantity] = EMPTY_MAP
    limits: Map[Quantity] = EMPTY_MAP


class DomainSpec(Wire):
    devices: Devices = Devices.empty()
    cpu: CPU | None = None
    memory: Memory | None = None
    machine: Machine | None = None
    resources: DomainResources = DomainResources.empty()


class ClaimRequest(Wire):
    claim_name: Str | None = None
    request_name: Str | None = None


class Network(Wire):
    name: Str = ""
    pod: Json | None = None
    multus: Json | None = None
    resource_claim: ClaimRequest | None = None


class DeviceAttributes(Wire):
    """The identity of a device (K-5.12). ``mdevUUID`` (the design) is read, ``mDevUUID`` (KubeVirt) is written."""

    pci_address: Str | None = None
    mdev_uuid: Str | None = Field(
        default=None, validation_alias=AliasChoices("mDevUUID", "mdevUUID", "mdev_uuid"), serialization_alias="mDevUUID"
    )

    @model_validator(mode="before")
    @classmethod
    def _prefer_the_spelling_with_a_value(cls, raw: Any) -> Any:
        if isinstance(raw, Mapping) and raw.get("mdevUUID") and not raw.get("mDevUUID"):
            return {key: value for key, value in raw.items() if key != "mDevUUID"}
        return raw


class DeviceResourceClaimStatus(Wire):
    name: Str | None = None
    resource_claim_name: Str | None = None
    attributes: DeviceAttributes | None = None


class DeviceStatusInfo(Wire):
    name: Str = ""
    device_resource_claim_status: DeviceResourceClaimStatus | None = None

    @property
    def attributes(self) -> DeviceAttributes | None:
        claim_status = self.device_resource_claim_status
        return claim_status.attributes if claim_status is not None else None


class DeviceStatus(Wire):
    gpu_statuses: List[DeviceStatusInfo] = ()
    host_device_statuses: List[DeviceStatusInfo] = ()

    @property
    def entries(self) -> tuple[DeviceStatusInfo, ...]:
        return (*self.gpu_statuses, *self.host_device_statuses)


class VirtualMachineInstanceSpec(Wire):
    domain: DomainSpec = DomainSpec.empty()
    resource_claims: List[PodResourceClaim] = ()
    networks: List[Network] = ()
    volumes: List[Json] = ()
    architecture: Str | None = None
    node_selector: Map[Str] = EMPTY_MAP
    affinity: Json | None = None
    tolerations: List[Toleration] = ()
    topology_spread_constraints: List[TopologySpreadConstraint] = ()
    termination_grace_period_seconds: Int | None = None


class VirtualMachineInstanceStatus(Wire):
    phase: Str | None = None
    reason: Str | None = None
    node_name: Str | None = None
    conditions: List[Json] = ()
    active_pods: Map[Str] = EMPTY_MAP
    device_status: DeviceStatus | None = None


class VirtualMachineInstance(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    HAS_STATUS: ClassVar[bool] = False

    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec.empty()
    status: VirtualMachineInstanceStatus = VirtualMachineInstanceStatus.empty()

    @property
    def finished(self) -> bool:
        """True if the guest has ended: this instance doesn't run again."""
        return self.status.phase in FINISHED


class VirtualMachineInstanceTemplate(Wire):
    metadata: ObjectMeta = ObjectMeta.empty()
    spec: VirtualMachineInstanceSpec = VirtualMachineInstanceSpec.empty()


class VirtualMachineSpec(Wire):
    running: Bool | None = None
    run_strategy: Str | None = None
    template: VirtualMachineInstanceTemplate = VirtualMachineInstanceTemplate.empty()


class VirtualMachine(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION

    spec: VirtualMachineSpec = VirtualMachineSpec.empty()
    status: Json = {}


def vm_or_vmi_kind(raw: Mapping[str, object]) -> object:
    """The kind of an object that is a VMI or a VM: what it says, else VM if its spec has a template, as only a VM's."""
    spec = raw.get("spec")
    implied = VirtualMachine if isinstance(spec, Mapping) and "template" in spec else VirtualMachineInstance
    return raw.get("kind") or implied.KIND


class DeveloperConfiguration(Wire):
    feature_gates: List[Str] = ()
    disabled_feature_gates: List[Str] = ()


class PciHostDevice(Wire):
    pci_vendor_selector: Str = ""
    resource_name: Str = ""
    external_resource_provider: Bool | None = None


class MediatedHostDevice(Wire):
    mdev_name_selector: Str = ""
    resource_name: Str = ""
    external_resource_provider: Bool | None = None


class USBHostDevice(Wire):
    resource_name: Str = ""
    selectors: List[Json] = ()
    external_resource_provider: Bool | None = None


class PermittedHostDevices(Wire):
    pci_host_devices: List[PciHostDevice] = ()
    mediated_devices: List[MediatedHostDevice] = ()
    usb: List[USBHostDevice] = ()


class NodeMediatedDeviceTypesConfig(Wire):
    node_selector: Map[Str] = EMPTY_MAP
    mediated_device_types: List[Str] = ()
    mediated_devices_types: List[Str] = ()


class MediatedDevicesConfiguration(Wire):
    """``mediated_devices_types``, here and by node, is the deprecated spelling, and counts if the other has none."""

    mediated_device_types: List[Str] = ()
    mediated_devices_types: List[Str] = ()
    node_mediated_device_types: List[NodeMediatedDeviceTypesConfig] = ()


class ArchitectureConfiguration(Wire):
    default_architecture: Str | None = None


class NetworkConfiguration(Wire):
    """How KubeVirt binds the pod network that it adds to a VM without networks (K-2.37)."""

    default_network_interface: Str | None = None


class KubeVirtConfiguration(Wire):
    architecture_configuration: ArchitectureConfiguration | None = None
    developer_configuration: DeveloperConfiguration = DeveloperConfiguration.empty()
    mediated_devices_configuration: MediatedDevicesConfiguration | None = None
    permitted_host_devices: PermittedHostDevices | None = None
    network: NetworkConfiguration = NetworkConfiguration.empty()


class KubeVirtSpec(Wire):
    configuration: KubeVirtConfiguration = KubeVirtConfiguration.empty()


class KubeVirtStatus(Wire):
    observed_kube_virt_version: Str | None = None
    default_architecture: Str | None = None


class KubeVirt(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION

    spec: KubeVirtSpec = KubeVirtSpec.empty()
    status: KubeVirtStatus = KubeVirtStatus.empty()
