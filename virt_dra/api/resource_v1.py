"""resource.k8s.io/v1 as of Kubernetes 1.37 (and v1alpha3 ResourcePoolStatusRequest): every kind, every field.

Shapes only: ``validation`` checks them, ``defaults`` fills them in, ``conversion`` reads older versions.
``tests/api/fields-v0.37.2.json`` (taken from the Go types) proves that no field is missing.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

from pydantic import Field, model_validator

from virt_dra.api.core_v1 import NodeSelector
from virt_dra.api.meta import Condition, ObjectMeta, TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.reading.interning import TemplateTable, share_members
from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Int32, List, Map, Str, Wire

GROUP = "resource.k8s.io"
API_VERSION = f"{GROUP}/v1"

EXACT_COUNT = "ExactCount"
ALL = "All"

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Set by the scheduler before an allocation is written, removed by the claim controller (C-1.8)."""
EXTENDED_RESOURCE_CLAIM_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
"""With the value ``true`` on the claim that the scheduler makes for a pod's extended resources (C-1.9)."""
POD_CLAIM_NAME_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a generated claim: the entry of pod.spec.resourceClaims that it serves (C-1.9)."""
ADMIN_ACCESS_LABEL = "resource.kubernetes.io/admin-access"
"""Namespace label that permits admin access (C-1.9)."""

ZERO = Quantity("0")
"""The value of an absent quantity where Kubernetes has no pointer."""

# --- ResourceSlice ------------------------------------------------------------------------------------------------


class DeviceAttribute(Wire):
    """One attribute value; exactly one field is set (A-21.2 gives the precedence for readers)."""

    int_value: Int | None = Field(default=None, alias="int")
    bool_value: Bool | None = Field(default=None, alias="bool")
    string: Str | None = None
    version: Str | None = None
    ints: tuple[Int, ...] | None = None
    bools: tuple[Bool, ...] | None = None
    strings: tuple[Str, ...] | None = None
    versions: tuple[Str, ...] | None = None


class CapacityRequestPolicyRange(Wire):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Wire):
    default: Quantity | None = None
    valid_values: List[Quantity] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(Wire):
    value: Quantity = ZERO
    request_policy: CapacityRequestPolicy | None = None


class Counter(Wire):
    value: Quantity = ZERO


class CounterSet(Wire):
    name: Str = ""
    counters: Map[Counter] = EMPTY_MAP


class DeviceCounterConsumption(Wire):
    counter_set: Str = ""
    counters: Map[Counter] = EMPTY_MAP
    compatibility_groups: List[Str] = ()


class DeviceTaint(Wire):
    key: Str = ""
    value: Str = ""
    effect: Str = ""
    time_added: Str | None = None


class NodeAllocatableMapping(Wire):
    capacity_key: Str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None


class NodeAllocatableOverhead(Wire):
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResource(Wire):
    mapping: NodeAllocatableMapping | None = None
    overhead: NodeAllocatableOverhead | None = None


class Device(Wire):
    name: Str = ""
    attributes: Map[DeviceAttribute] = EMPTY_MAP
    capacity: Map[DeviceCapacity] = EMPTY_MAP
    consumes_counters: List[DeviceCounterConsumption] = ()
    node_name: Str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Bool | None = None
    taints: List[DeviceTaint] = ()
    binds_to_node: Bool | None = None
    binding_conditions: List[Str] = ()
    binding_failure_conditions: List[Str] = ()
    allow_multiple_allocations: Bool | None = None
    node_allocatable_resources: Map[NodeAllocatableResource] = EMPTY_MAP


class ResourcePool(Wire):
    name: Str = ""
    generation: Int = 0
    resource_slice_count: Int = 0


class ResourceSliceSpec(Wire):
    driver: Str = ""
    pool: ResourcePool = ResourcePool.empty()
    node_name: Str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: Bool | None = None
    per_device_node_selection: Bool | None = None
    devices: List[Device] = ()
    shared_counters: List[CounterSet] = ()
    partition_type_attribute: Str | None = None
    skip_node_operations: List[Str] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, raw: object) -> object:
        """Read null as absent: a slice's validity depends on which of two lists is present, even if empty (C-14.4)."""
        if isinstance(raw, dict) and (raw.get("devices", ()) is None or raw.get("sharedCounters", ()) is None):
            return {
                key: value
                for key, value in raw.items()
                if value is not None or key not in ("devices", "sharedCounters")
            }
        return raw


class ResourceSlice(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    spec: ResourceSliceSpec = ResourceSliceSpec.empty()

    @property
    def pool_key(self) -> tuple[str, str]:
        """Driver and name of its pool."""
        return self.spec.driver, self.spec.pool.name

    @classmethod
    def _read(cls, raw: object) -> Self:
        """Read equal parts of devices once, in this slice and others."""
        spec = raw.get("spec") if isinstance(raw, dict) else None
        devices = spec.get("devices") if isinstance(spec, dict) else None
        if isinstance(raw, dict) and isinstance(spec, dict) and isinstance(devices, list):
            raw = {**raw, "spec": {**spec, "devices": [_DEVICES.read(device) for device in devices]}}
        read = super()._read(raw)
        share_members(read, read.metadata, read.spec, read.spec.pool)
        return read


_DEVICES: Final = TemplateTable(Device, name="name", parts="attributes", part=DeviceAttribute)

# --- requests -----------------------------------------------------------------------------------------------------


class CELDeviceSelector(Wire):
    expression: Str = ""


class DeviceSelector(Wire):
    cel: CELDeviceSelector | None = None


class DeviceToleration(Wire):
    key: Str = ""
    operator: Str = ""
    value: Str = ""
    effect: Str = ""
    toleration_seconds: Int | None = None


class CapacityRequirements(Wire):
    requests: Map[Quantity] = EMPTY_MAP


class DeviceDerivedAttribute(Wire):
    name: Str = ""
    expression: Str = ""


class DeviceSubRequest(Wire):
    """One alternative of ``firstAvailable``. It has no admin access (A-11.5)."""

    name: Str = ""
    device_class_name: Str = ""
    selectors: List[DeviceSelector] = ()
    allocation_mode: Str = ""
    count: Int = 0
    tolerations: List[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: List[DeviceDerivedAttribute] = ()


class ExactDeviceRequest(Wire):
    device_class_name: Str = ""
    selectors: List[DeviceSelector] = ()
    allocation_mode: Str = ""
    count: Int = 0
    admin_access: Bool | None = None
    tolerations: List[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: List[DeviceDerivedAttribute] = ()


class DeviceRequest(Wire):
    name: Str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: List[DeviceSubRequest] = ()


class DeviceConstraint(Wire):
    requests: List[Str] = ()
    match_attribute: Str | None = None
    distinct_attribute: Str | None = None


class OpaqueDeviceConfiguration(Wire):
    driver: Str = ""
    parameters: Any = None


class DeviceClaimConfiguration(Wire):
    requests: List[Str] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Wire):
    requests: List[DeviceRequest] = ()
    constraints: List[DeviceConstraint] = ()
    config: List[DeviceClaimConfiguration] = ()


class ResourceClaimSpec(Wire):
    devices: DeviceClaim = DeviceClaim.empty()


# --- allocation ---------------------------------------------------------------------------------------------------


class DeviceRequestAllocationResult(Wire):
    request: Str = ""
    driver: Str = ""
    pool: Str = ""
    device: Str = ""
    admin_access: Bool | None = None
    tolerations: List[DeviceToleration] = ()
    binding_conditions: List[Str] = ()
    binding_failure_conditions: List[Str] = ()
    share_id: Str | None = Field(default=None, alias="shareID")
    consumed_capacity: Map[Quantity] = Field(default_factory=dict)  # a default object would be copied for every result
    skip_node_operations: List[Str] = ()


class DeviceAllocationConfiguration(Wire):
    source: Str = ""
    requests: List[Str] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Wire):
    results: List[DeviceRequestAllocationResult] = ()
    config: List[DeviceAllocationConfiguration] = ()


class AllocationResult(Wire):
    devices: DeviceAllocationResult = DeviceAllocationResult.empty()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Str | None = None


class ResourceClaimConsumerReference(Wire):
    api_group: Str = ""
    resource: Str = ""
    name: Str = ""
    uid: Str = ""


class NetworkDeviceData(Wire):
    interface_name: Str = ""
    ips: List[Str] = ()
    hardware_address: Str = ""


class AllocatedDeviceStatus(Wire):
    driver: Str = ""
    pool: Str = ""
    device: Str = ""
    share_id: Str | None = Field(default=None, alias="shareID")
    conditions: List[Condition] = ()
    data: Any = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Wire):
    allocation: AllocationResult | None = None
    reserved_for: List[ResourceClaimConsumerReference] = ()
    devices: List[AllocatedDeviceStatus] = ()


class ResourceClaim(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION

    spec: ResourceClaimSpec = ResourceClaimSpec.empty()
    status: ResourceClaimStatus = ResourceClaimStatus.empty()

    @property
    def results(self) -> tuple[DeviceRequestAllocationResult, ...]:
        """The allocated devices; none without an allocation."""
        return self.status.allocation.devices.results if self.status.allocation is not None else ()


class ResourceClaimTemplateSpec(Wire):
    metadata: ObjectMeta = ObjectMeta.empty()
    spec: ResourceClaimSpec = ResourceClaimSpec.empty()


class ResourceClaimTemplate(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    HAS_STATUS: ClassVar[bool] = False

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec.empty()


# --- DeviceClass, DeviceTaintRule ---------------------------------------------------------------------------------


class DeviceClassConfiguration(Wire):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire):
    selectors: List[DeviceSelector] = ()
    config: List[DeviceClassConfiguration] = ()
    extended_resource_name: Str | None = None


class DeviceClass(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    spec: DeviceClassSpec = DeviceClassSpec.empty()


class DeviceTaintSelector(Wire):
    driver: Str | None = None
    pool: Str | None = None
    device: Str | None = None


class DeviceTaintRuleSpec(Wire):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint.empty()


class DeviceTaintRuleStatus(Wire):
    conditions: List[Condition] = ()


class DeviceTaintRule(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    NAMESPACED: ClassVar[bool] = False

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec.empty()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus.empty()


# --- ResourcePoolStatusRequest (v1alpha3 only) --------------------------------------------------------------------


class ResourcePoolStatusRequestSpec(Wire):
    driver: Str = ""
    pool_name: Str | None = None
    limit: Int32 | None = None
    default_partition_type_attribute: Str | None = None


class PartitionTypeStatus(Wire):
    attribute: Str = ""
    type: Str = ""
    total: Int32 = 0
    allocatable: Int32 = 0


class ShareableCapacityStatus(Wire):
    name: Str = ""
    total: Quantity | None = None
    consumed: Quantity | None = None
    available: Quantity | None = None


class ShareableSummaryStatus(Wire):
    fully_available_devices: Int32 | None = None
    partially_available_devices: Int32 | None = None
    capacity: List[ShareableCapacityStatus] = ()


class PoolStatus(Wire):
    driver: Str = ""
    pool_name: Str = ""
    generation: Int = 0
    resource_slice_count: Int32 | None = None
    total_devices: Int32 | None = None
    allocated_devices: Int32 | None = None
    available_devices: Int32 | None = None
    unavailable_devices: Int32 | None = None
    node_name: Str | None = None
    validation_error: Str | None = None
    partition_summary: List[PartitionTypeStatus] = ()
    shareable_summary: ShareableSummaryStatus | None = None


class ResourcePoolStatusRequestStatus(Wire):
    pool_count: Int32 | None = None
    pools: List[PoolStatus] = ()
    conditions: List[Condition] = ()


class ResourcePoolStatusRequest(TypedObject):
    API_VERSION: ClassVar[str] = f"{GROUP}/v1alpha3"
    NAMESPACED: ClassVar[bool] = False

    spec: ResourcePoolStatusRequestSpec = ResourcePoolStatusRequestSpec.empty()
    status: ResourcePoolStatusRequestStatus | None = None
