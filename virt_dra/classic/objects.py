"""The objects of classic DRA, in the shape of v1alpha2 (C-18.1); :mod:`.versions` reads and writes the other versions.
Of v1alpha3 it carries what has no older form: the ``controller`` and ``devices`` of a claim and of its allocation."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from virt_dra.api.core_v1 import NodeSelector
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import (
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceSelector,
    ResourceClaimConsumerReference,
)
from virt_dra.api.wire import Bool, Int, Json, List, Str, Wire

GROUP: Final = "resource.k8s.io"
V1ALPHA2: Final = f"{GROUP}/v1alpha2"
V1ALPHA3: Final = f"{GROUP}/v1alpha3"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
IMMEDIATE: Final = "Immediate"

BUILTIN_FINALIZER: Final = "dra.k8s.io/delete-protection"
"""Of claims that the scheduler allocated by structured parameters (C-18.2)."""

HANDLES_MAX: Final = 32
HANDLE_BYTES: Final = 16 * 1024
RESERVED_FOR_MAX: Final = 32
NODES_MAX: Final = 128
"""Of ``potentialNodes`` and ``unsuitableNodes``."""


def driver_finalizer(driver: str) -> str:
    """The finalizer that a driver's controller keeps on claims which it allocates (C-18.2)."""
    return f"{driver}/deletion-protection"


class ParametersReference(Wire):
    """Where a class's or a claim's parameters are. A claim's has no namespace of its own: it is the claim's."""

    api_group: Str = ""
    kind: Str = ""
    name: Str = ""
    namespace: Str = ""


class ResourceClass(TypedObject):
    """Which driver serves claims, with which parameters, for which nodes. Mutable."""

    API_VERSION: ClassVar[str] = V1ALPHA2
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    driver_name: Str = ""
    parameters_ref: ParametersReference | None = None
    suitable_nodes: NodeSelector | None = None
    structured_parameters: Bool | None = None


class ClassicDeviceClassSpec(Wire):
    suitable_nodes: NodeSelector | None = None


class ClassicDeviceClass(TypedObject):
    """The class of a claim with a ``controller`` in v1alpha3: of the DeviceClass only ``suitableNodes`` is read."""

    API_VERSION: ClassVar[str] = V1ALPHA3
    KIND: ClassVar[str] = "DeviceClass"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    spec: ClassicDeviceClassSpec = ClassicDeviceClassSpec()


class ClassicDeviceRequest(Wire):
    """A request of a claim of v1alpha3."""

    name: Str = ""
    device_class_name: Str = ""
    selectors: List[DeviceSelector] = ()
    allocation_mode: Str = ""
    count: Int = 0
    admin_access: Bool | None = None


class ClassicDeviceClaim(Wire):
    """The ``devices`` of a claim of v1alpha3."""

    requests: List[ClassicDeviceRequest] = ()
    constraints: List[DeviceConstraint] = ()
    config: List[DeviceClaimConfiguration] = ()


class ClassicClaimSpec(Wire):
    """v1alpha3 has ``controller`` (a driver's name), ``devices`` instead of ``resourceClassName``,
    ``parametersRef``."""

    resource_class_name: Str = ""
    parameters_ref: ParametersReference | None = None
    allocation_mode: Str = ""
    controller: Str | None = None
    devices: ClassicDeviceClaim | None = None


class NamedResourcesResult(Wire):
    name: Str = ""


class StructuredResult(Wire):
    vendor_request_parameters: Json | None = None
    named_resources: NamedResourcesResult | None = None


class StructuredHandle(Wire):
    """What the scheduler allocated from structured parameters (1.30)."""

    vendor_class_parameters: Json | None = None
    vendor_claim_parameters: Json | None = None
    node_name: Str = ""
    results: List[StructuredResult] = ()


class ResourceHandle(Wire):
    """``data`` is the driver's own and handed to its kubelet plugin unread."""

    driver_name: Str = ""
    data: Str = ""
    structured_data: StructuredHandle | None = None


class ClassicAllocation(Wire):
    """``available_on_nodes``: None for all nodes. ``devices``: v1alpha3's, where there are no handles."""

    resource_handles: List[ResourceHandle] = ()
    available_on_nodes: NodeSelector | None = None
    shareable: Bool | None = None
    devices: Json | None = None


class ClassicClaimStatus(Wire):
    driver_name: Str = ""
    allocation: ClassicAllocation | None = None
    reserved_for: List[ResourceClaimConsumerReference] = ()
    deallocation_requested: Bool | None = None


class ClassicClaim(TypedObject):
    API_VERSION: ClassVar[str] = V1ALPHA2
    KIND: ClassVar[str] = "ResourceClaim"

    spec: ClassicClaimSpec = ClassicClaimSpec()
    status: ClassicClaimStatus = ClassicClaimStatus()

    @property
    def delayed(self) -> bool:
        """Whether it is allocated for its first consumer only. Always so in v1alpha3."""
        return self.spec.allocation_mode != IMMEDIATE

    @property
    def deallocating(self) -> bool:
        return bool(self.status.deallocation_requested)


class ClassicClaimTemplateSpec(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClassicClaimSpec = ClassicClaimSpec()


class ClassicClaimTemplate(TypedObject):
    API_VERSION: ClassVar[str] = V1ALPHA2
    KIND: ClassVar[str] = "ResourceClaimTemplate"
    HAS_STATUS: ClassVar[bool] = False

    spec: ClassicClaimTemplateSpec = ClassicClaimTemplateSpec()


class SchedulingContextSpec(Wire):
    """The scheduler's side: the node that it chose, and those that it considers."""

    selected_node: Str = ""
    potential_nodes: List[Str] = ()


class ClaimSchedulingStatus(Wire):
    """A driver's answer about one claim of the pod; ``name`` is that of the pod's claim entry."""

    name: Str = ""
    unsuitable_nodes: List[Str] = ()


class SchedulingContextStatus(Wire):
    resource_claims: List[ClaimSchedulingStatus] = ()


class PodSchedulingContext(TypedObject):
    """What the scheduler and the drivers of a pod's pending claims exchange; it has the pod's name."""

    API_VERSION: ClassVar[str] = V1ALPHA2

    spec: SchedulingContextSpec = SchedulingContextSpec()
    status: SchedulingContextStatus = SchedulingContextStatus()

    def unsuitable(self, entry: str) -> frozenset[str] | None:
        """The nodes that the driver of a pod's claim entry excludes; None if it hasn't answered."""
        answer = next((status for status in self.status.resource_claims if status.name == entry), None)
        return None if answer is None else frozenset(answer.unsuitable_nodes)


# --- structured parameters of 1.30 ---


class NamedResourcesInts(Wire):
    ints: List[Int] = ()


class NamedResourcesStrings(Wire):
    strings: List[Str] = ()


class NamedResourcesAttribute(Wire):
    """A named value of exactly one type."""

    name: Str = ""
    quantity: Quantity | None = None
    bool_value: Bool | None = Field(default=None, alias="bool")
    int_value: Int | None = Field(default=None, alias="int")
    int_slice: NamedResourcesInts | None = None
    string: Str | None = None
    string_slice: NamedResourcesStrings | None = None
    version: Str | None = None


class NamedResourcesInstance(Wire):
    name: Str = ""
    attributes: List[NamedResourcesAttribute] = ()


class NamedResourcesInstances(Wire):
    instances: List[NamedResourcesInstance] = ()


class NamedResourcesSlice(TypedObject):
    """The ResourceSlice of v1alpha2: a driver's instances on a node."""

    API_VERSION: ClassVar[str] = V1ALPHA2
    KIND: ClassVar[str] = "ResourceSlice"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    node_name: Str = ""
    driver_name: Str = ""
    named_resources: NamedResourcesInstances | None = None


class NamedResourcesSelector(Wire):
    """A CEL expression over ``attributes``; as a filter of a class or as one request of a claim."""

    selector: Str = ""


class VendorParameters(Wire):
    driver_name: Str = ""
    parameters: Json | None = None


class ResourceFilter(Wire):
    driver_name: Str = ""
    named_resources: NamedResourcesSelector | None = None


class ResourceClassParameters(TypedObject):
    API_VERSION: ClassVar[str] = V1ALPHA2
    PLURAL: ClassVar[str] = "resourceclassparameters"
    HAS_STATUS: ClassVar[bool] = False

    generated_from: ParametersReference | None = None
    vendor_parameters: List[VendorParameters] = ()
    filters: List[ResourceFilter] = ()


class StructuredRequest(Wire):
    vendor_parameters: Json | None = None
    named_resources: NamedResourcesSelector | None = None


class DriverRequests(Wire):
    driver_name: Str = ""
    vendor_parameters: Json | None = None
    requests: List[StructuredRequest] = ()


class ResourceClaimParameters(TypedObject):
    API_VERSION: ClassVar[str] = V1ALPHA2
    PLURAL: ClassVar[str] = "resourceclaimparameters"
    HAS_STATUS: ClassVar[bool] = False

    generated_from: ParametersReference | None = None
    shareable: Bool | None = None
    driver_requests: List[DriverRequests] = ()


KINDS: Final[tuple[type[TypedObject], ...]] = (
    ResourceClass, ClassicClaim, ClassicClaimTemplate, PodSchedulingContext, NamedResourcesSlice,
    ResourceClassParameters, ResourceClaimParameters, ClassicDeviceClass,
)  # fmt: skip
"""All kinds of classic DRA as the embedded cluster stores them."""
