"""core/v1: the part of Pod, Node, Namespace and friends that device allocation reads or writes. The rest is kept as
given."""

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple, Self

from pydantic import Field

from virt_dra.api.meta import TypedObject
from virt_dra.api.quantity import Quantity
from virt_dra.api.reading.interning import share_members
from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Json, List, Map, Str, Wire


class NodeSelectorRequirement(Wire):
    key: Str = ""
    operator: Str = ""
    values: List[Str] = ()


class NodeSelectorTerm(Wire):
    match_expressions: List[NodeSelectorRequirement] = ()
    match_fields: List[NodeSelectorRequirement] = ()


class NodeSelector(Wire):
    node_selector_terms: List[NodeSelectorTerm] = ()


class LabelSelector(Wire):
    """All requirements must hold. An empty one selects everything; what an absent one means depends on the field."""

    match_labels: Map[Str] = EMPTY_MAP
    match_expressions: List[NodeSelectorRequirement] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """An unknown operator matches nothing."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _holds(requirement, labels) for requirement in self.match_expressions
        )

    @property
    def selects_everything(self) -> bool:
        return not self.match_labels and not self.match_expressions


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class ObjectReference(Wire):
    api_version: Str = ""
    kind: Str = ""
    namespace: Str = ""
    name: Str = ""
    uid: Str = ""
    resource_version: Str = ""
    field_path: Str = ""


def reference_to(obj: TypedObject) -> ObjectReference:
    """The object as the subject of an Event."""
    return ObjectReference(
        api_version=obj.API_VERSION, kind=obj.KIND, namespace=obj.namespace, name=obj.name, uid=obj.metadata.uid
    )


class ResourceClaimReference(Wire):
    """``containers[].resources.claims[]``: one request (or all) of one pod-level claim."""

    name: Str = ""
    request: Str | None = None


class ResourceRequirements(Wire):
    limits: Map[Quantity] = EMPTY_MAP
    requests: Map[Quantity] = EMPTY_MAP
    claims: List[ResourceClaimReference] = ()


class EnvVar(Wire):
    name: Str = ""
    value: Str | None = None
    value_from: Json | None = None


class VolumeMount(Wire):
    name: Str = ""
    mount_path: Str = ""
    sub_path: Str | None = None
    read_only: Bool | None = None


class ContainerPort(Wire):
    name: Str = ""
    container_port: Int = 0
    protocol: Str = ""
    host_port: Int = 0
    host_ip: Str = Field("", alias="hostIP")


class Container(Wire):
    name: Str = ""
    image: Str | None = None
    command: List[Str] = ()
    args: List[Str] = ()
    env: List[EnvVar] = ()
    ports: List[ContainerPort] = ()
    resources: ResourceRequirements = ResourceRequirements.empty()
    restart_policy: Str | None = None
    volume_mounts: List[VolumeMount] = ()
    readiness_probe: Json | None = None
    termination_message_path: Str | None = None
    security_context: Json | None = None


class PodResourceClaim(Wire):
    """``spec.resourceClaims[]`` of a Pod: an entry under a pod-local name, with exactly one source (K-3.1)."""

    name: Str = ""
    resource_claim_name: Str | None = None
    resource_claim_template_name: Str | None = None


class Volume(Wire):
    """A volume under a pod-local name. Sources that nothing here creates or reads are kept as given."""

    name: Str = ""
    downward_api: Json | None = Field(default=None, alias="downwardAPI")
    empty_dir: Json | None = None
    persistent_volume_claim: Json | None = None
    ephemeral: Json | None = None


class PreferredSchedulingTerm(Wire):
    weight: Int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm.empty()


class NodeAffinity(Wire):
    required: NodeSelector | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: List[PreferredSchedulingTerm] = Field((), alias="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Wire):
    """Pods that are (or aren't) to be in the same topology domain (value of the node label ``topology_key``)."""

    label_selector: LabelSelector | None = None
    """Absent: no pod."""
    namespaces: List[Str] = ()
    namespace_selector: LabelSelector | None = None
    """Absent: no namespace beside ``namespaces``."""
    topology_key: Str = ""
    match_label_keys: List[Str] = ()
    mismatch_label_keys: List[Str] = ()


class WeightedPodAffinityTerm(Wire):
    weight: Int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm.empty()


class PodAffinity(Wire):
    """The terms of affinity, or of anti-affinity."""

    required: List[PodAffinityTerm] = Field((), alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: List[WeightedPodAffinityTerm] = Field((), alias="preferredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire):
    max_skew: Int = 0
    topology_key: Str = ""
    when_unsatisfiable: Str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int | None = None
    node_affinity_policy: Str | None = None
    node_taints_policy: Str | None = None
    match_label_keys: List[Str] = ()


class Toleration(Wire):
    key: Str = ""
    operator: Str = ""
    value: Str = ""
    effect: Str = ""
    toleration_seconds: Int | None = None


class PodReadinessGate(Wire):
    condition_type: Str = ""


class PodSchedulingGate(Wire):
    """While a pod has one, no scheduler looks at it."""

    name: Str = ""


class PodSchedulingGroup(Wire):
    pod_group_name: Str | None = None


class PodSpec(Wire):
    containers: List[Container] = ()
    init_containers: List[Container] = ()
    volumes: List[Volume] = ()
    node_name: Str | None = None
    node_selector: Map[Str] = EMPTY_MAP
    affinity: Affinity | None = None
    tolerations: List[Toleration] = ()
    topology_spread_constraints: List[TopologySpreadConstraint] = ()
    resource_claims: List[PodResourceClaim] = ()
    scheduling_group: PodSchedulingGroup | None = None
    restart_policy: Str | None = None
    enable_service_links: Bool | None = None
    automount_service_account_token: Bool | None = None
    readiness_gates: List[PodReadinessGate] = ()
    hostname: Str | None = None
    termination_grace_period_seconds: Int | None = None
    security_context: Json | None = None
    scheduler_name: Str | None = None
    priority: Int | None = None
    preemption_policy: Str | None = None
    scheduling_gates: List[PodSchedulingGate] = ()
    overhead: Map[Quantity] = EMPTY_MAP
    resources: ResourceRequirements = ResourceRequirements.empty()


class PodResourceClaimStatus(Wire):
    name: Str = ""
    resource_claim_name: Str | None = None


class ContainerExtendedResourceRequest(Wire):
    """The request of the special claim that stands for an extended resource of a container (C-7.5)."""

    container_name: Str = ""
    resource_name: Str = ""
    request_name: Str = ""


class PodExtendedResourceClaimStatus(Wire):
    request_mappings: List[ContainerExtendedResourceRequest] = ()
    resource_claim_name: Str = ""


class NodeAllocatableMappedResources(Wire):
    name: Str = ""
    quantity: Quantity | None = None


class NodeAllocatableOverheadResources(Wire):
    name: Str = ""
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableResourceClaimStatus(Wire):
    """The node's own resources that a claim of the pod uses (C-8)."""

    resource_claim_name: Str = ""
    containers: List[Str] = ()
    mapping: List[NodeAllocatableMappedResources] = ()
    overhead: List[NodeAllocatableOverheadResources] = ()


class PodCondition(Wire):
    type: Str = ""
    status: Str = ""
    reason: Str | None = None
    message: Str | None = None
    last_transition_time: Str | None = None


class ResourceHealth(Wire):
    """The health of one device. ``health``: Healthy, Unhealthy or Unknown. ``resource_id`` of a DRA device is
    ``driver/pool/device`` by the API's word; the kubelet of 1.37 puts the first CDI device ID there instead, if there
    is one."""

    resource_id: Str = Field(default="", alias="resourceID")
    health: Str = ""
    message: Str | None = None


class ResourceStatus(Wire):
    """Health of a resource of a container (KEP-4680). ``name`` of a claim's: ``claim:<entry>[/<request>]``."""

    name: Str = ""
    resources: List[ResourceHealth] = ()


class ContainerStateTerminated(Wire):
    exit_code: Int | None = None
    reason: Str = ""
    message: Str = ""


class ContainerStateWaiting(Wire):
    reason: Str = ""
    message: Str = ""


class ContainerState(Wire):
    waiting: ContainerStateWaiting | None = None
    running: Json | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Wire):
    name: Str = ""
    ready: Bool | None = None
    state: ContainerState = ContainerState.empty()
    allocated_resources_status: List[ResourceStatus] = ()


SCHEDULER_NAME: Final = "default-scheduler"
"""The scheduler of pods that name none (``schedulerName``)."""
FINISHED: Final = ("Succeeded", "Failed")
"""The last phases of a pod, and of a VirtualMachineInstance."""


class PodStatus(Wire):
    phase: Str | None = None
    reason: Str | None = None
    message: Str | None = None
    nominated_node_name: Str | None = None
    conditions: List[PodCondition] = ()
    container_statuses: List[ContainerStatus] = ()
    resource_claim_statuses: List[PodResourceClaimStatus] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: List[NodeAllocatableResourceClaimStatus] = ()


class PodVolumeClaim(NamedTuple):
    """A PersistentVolumeClaim that a pod uses, by ``namespace/name``. ``generated``: the control plane makes it for the
    pod."""

    key: str
    generated: bool


class Pod(TypedObject):
    API_VERSION: ClassVar[str] = "v1"

    spec: PodSpec = PodSpec.empty()
    status: PodStatus = PodStatus.empty()

    @property
    def finished(self) -> bool:
        """True if the pod's containers have ended and won't be started again."""
        return self.status.phase in FINISHED

    @property
    def priority(self) -> int:
        """The pod's priority; 0 where it has none, as for the scheduler."""
        return self.spec.priority or 0

    @property
    def takes_room(self) -> bool:
        """True if the pod is bound to a node and hasn't finished: what it asks for is in use there."""
        return bool(self.spec.node_name) and not self.finished

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of a type; None if the pod doesn't have it."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    @property
    def volume_claims(self) -> tuple[PodVolumeClaim, ...]:
        """The PersistentVolumeClaims of its volumes, in their order."""
        claims: list[PodVolumeClaim] = []
        for volume in self.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.get("claimName")
                claims.append(PodVolumeClaim(f"{self.namespace}/{name}", generated=False))
            elif volume.ephemeral is not None:
                claims.append(PodVolumeClaim(f"{self.namespace}/{self.name}-{volume.name}", generated=True))
        return tuple(claims)

    @property
    def claim_names(self) -> dict[str, str]:
        """The claim of each entry of ``spec.resourceClaims``: the one that it names, or else that was generated for it.
        Entries without a claim are left out; whether the claim is the pod's own isn't checked (C-3.2)."""
        generated = {status.name: status.resource_claim_name for status in self.status.resource_claim_statuses}
        names = (
            (entry.name, entry.resource_claim_name or generated.get(entry.name)) for entry in self.spec.resource_claims
        )
        return {entry: name for entry, name in names if name}

    @property
    def claim_keys(self) -> tuple[str, ...]:
        """The keys of the claims that the pod's entries may lead to: named directly, and generated from templates."""
        direct = (entry.resource_claim_name for entry in self.spec.resource_claims)
        recorded = (status.resource_claim_name for status in self.status.resource_claim_statuses)
        return tuple(dict.fromkeys(f"{self.namespace}/{name}" for name in (*direct, *recorded) if name))


class Taint(Wire):
    key: Str = ""
    value: Str = ""
    effect: Str = ""
    time_added: Str | None = None


class NodeSpec(Wire):
    unschedulable: Bool | None = None
    taints: List[Taint] = ()


class NodeStatus(Wire):
    allocatable: Map[Quantity] = EMPTY_MAP
    capacity: Map[Quantity] = EMPTY_MAP
    declared_features: List[Str] = ()


class Node(TypedObject):
    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec.empty()
    status: NodeStatus = NodeStatus.empty()

    @classmethod
    def _read(cls, raw: object) -> Self:
        read = super()._read(raw)
        share_members(read, read.metadata, read.spec, read.status)
        return read


class Namespace(TypedObject):
    API_VERSION: ClassVar[str] = "v1"
    NAMESPACED: ClassVar[bool] = False
