"""scheduling.k8s.io: v1's PriorityClass, v1beta1's PodGroup and Workload (gate GenericWorkload).

Also policy/v1's PodDisruptionBudget, as far as it says which pods may be disrupted now.
CompositePodGroups exist in v1alpha3 only; the templates of a Workload for them are kept as given.
"""

from __future__ import annotations

from typing import ClassVar, Final

from virt_dra.api.core_v1 import LabelSelector, Pod
from virt_dra.api.meta import Condition, TypedObject
from virt_dra.api.wire import EMPTY_MAP, Bool, Int, Int32, Json, List, Map, Str, Wire

GROUP: Final = "scheduling.k8s.io"
API_VERSION: Final = f"{GROUP}/v1beta1"
POD_GROUP_FINALIZER: Final = f"{GROUP}/podgroup-protection"
"""Keeps a PodGroup that is being deleted until its last pod has finished or gone."""
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition of a PodGroup that stays True once its pods could be scheduled."""


class BasicSchedulingPolicy(Wire):
    """The policy of a group whose pods are scheduled as if they were in none."""


class GangSchedulingPolicy(Wire):
    """The policy of a group of which at least ``min_count`` pods are scheduled at once, or none."""

    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Wire):
    """Exactly one of both."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Wire):
    key: Str = ""


class PodGroupSchedulingConstraints(Wire):
    topology: List[TopologyConstraint] = ()


class PodGroupResourceClaim(Wire):
    """A claim that pods of the group share if their own entry has the same three values (C-3.5); exactly one source."""

    name: Str = ""
    resource_claim_name: Str | None = None
    resource_claim_template_name: Str | None = None


class PodGroupResourceClaimStatus(Wire):
    name: Str = ""
    resource_claim_name: Str | None = None


class DisruptionMode(Wire):
    """How a group's pods may be disrupted: each on its own, or ``all`` together. Exactly one of both."""

    single: Json | None = None
    all: Json | None = None


class WorkloadReference(Wire):
    workload_name: Str = ""
    template_name: Str = ""


class PodGroupSpec(Wire):
    parent_composite_pod_group_name: Str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy.empty()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: List[PodGroupResourceClaim] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: Str = ""
    priority: Int32 | None = None
    preemption_policy: Str | None = None


class PodGroupStatus(Wire):
    conditions: List[Condition] = ()
    resource_claim_statuses: List[PodGroupResourceClaimStatus] = ()


class PodGroup(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION

    spec: PodGroupSpec = PodGroupSpec.empty()
    status: PodGroupStatus = PodGroupStatus.empty()


class PodGroupTemplate(Wire):
    name: Str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy.empty()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: List[PodGroupResourceClaim] = ()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: Str = ""
    priority: Int32 | None = None
    preemption_policy: Str | None = None


class TypedLocalObjectReference(Wire):
    api_group: Str = ""
    kind: Str = ""
    name: Str = ""


class WorkloadSpec(Wire):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: List[PodGroupTemplate] = ()
    composite_pod_group_templates: List[Json] = ()


class Workload(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    HAS_STATUS: ClassVar[bool] = False

    spec: WorkloadSpec = WorkloadSpec.empty()


class PriorityClass(TypedObject):
    """How important the pods are that name the class; the larger ``value`` comes first."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    value: Int32 = 0
    global_default: Bool | None = None
    description: Str = ""
    preemption_policy: Str | None = None


# --- policy/v1 ----------------------------------------------------------------------------------------------------


class PodDisruptionBudgetSpec(Wire):
    selector: LabelSelector | None = None
    """Absent: no pod."""


class PodDisruptionBudgetStatus(Wire):
    observed_generation: Int | None = None
    disrupted_pods: Map[Str] = EMPTY_MAP
    """Pods that are being disrupted already, by name; the value is since when."""
    disruptions_allowed: Int32 = 0


class PodDisruptionBudget(TypedObject):
    API_VERSION: ClassVar[str] = "policy/v1"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec.empty()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus.empty()

    def concerns(self, pod: Pod) -> bool:
        """Whether disrupting the pod counts. One that is being disrupted already has been counted."""
        selector = self.spec.selector
        return (
            selector is not None
            and pod.namespace == self.namespace
            and pod.name not in self.status.disrupted_pods
            and selector.matches(pod.metadata.labels)
        )
