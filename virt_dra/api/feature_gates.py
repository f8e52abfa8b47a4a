"""The feature gates of Kubernetes 1.37 that decide about DRA: which fields a cluster knows, and what its loops do (A-2,
C-2.1, C-2.2).

``FeatureGates()`` is a plain 1.37 cluster. What an API server does about a gate that is off:
:mod:`virt_dra.api.schemas.field_dropping`. The gates of KubeVirt are others (:mod:`virt_dra.api.kubevirt_versions`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


class FeatureGateError(ValueError):
    """A setting that no component would start with. ``problems`` has one sentence for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True)
class FeatureGates:
    """The feature gates, each on or off. The defaults are those of Kubernetes 1.37.1 (C-2.1).

    DRAFractionalCapacityRange is declared on for a minimum compatibility version of 1.37, else off; a component started
    without ``--min-compatibility-version`` is compatible with the version before its own, so a plain 1.37 has it off.
    """

    admin_access: bool = True
    prioritized_list: bool = True
    device_status: bool = True
    extended_resource: bool = True
    device_taints: bool = True
    device_taint_rules: bool = True
    consumable_capacity: bool = True
    device_binding_conditions: bool = True
    partitionable_devices: bool = True
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    node_allocatable_resources: bool = False
    resource_pool_status: bool = False
    derived_attributes: bool = False
    device_compatibility_groups: bool = False
    optional_node_operations: bool = False
    partitionable_devices_type: bool = False
    scheduler_filter_timeout: bool = True
    granular_status_authorization: bool = True
    resource_health_status: bool = True
    resource_health_status_message: bool = True
    generic_workload: bool = False
    workload_resource_claims: bool = False
    topology_aware_workload_scheduling: bool = False
    pod_group_preemption_policy: bool = False
    composite_pod_group: bool = False

    @classmethod
    def all(cls) -> FeatureGates:
        """Every gate on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def parse(cls, text: str) -> FeatureGates:
        """``DRADeviceTaints=false,DRAListTypeAttributes=true`` as ``--feature-gates`` takes it, applied to the
        defaults.

        White space around names and values is ignored, of a name that is given twice the last value counts. Raises
        :class:`FeatureGateError` for an unknown gate, a value that is not a boolean, a gate that can't be switched any
        more and one that is on without the gates it needs (C-2.2).
        """
        chosen: dict[str, bool] = {}
        problems = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals:
                problems.append(f"missing bool value for {name}")
            elif name not in _FIELDS:
                problems.append(f"unrecognized feature gate: {name}; known are {', '.join(_FIELDS)}")
            elif (parsed := _BOOLEANS.get(value)) is None:
                problems.append(f"invalid value of {name}={value}: write true or false")
            elif name in LOCKED and not parsed:
                problems.append(f"cannot set feature gate {name} to false, feature is locked to true")
            else:
                chosen[_FIELDS[name]] = parsed
        gates = replace(cls(), **chosen)
        problems += gates.missing_dependencies()
        if problems:
            raise FeatureGateError(tuple(problems))
        return gates

    def missing_dependencies(self) -> tuple[str, ...]:
        """The errors with which a component refuses to start (C-2.2): a gate is on while one that it needs is off."""
        errors = []
        for name, needed in _NEEDS.items():
            off = [other for other in needed if not getattr(self, _FIELDS[other])]
            if getattr(self, _FIELDS[name]) and off:
                errors.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]")
        return tuple(errors)

    def __str__(self) -> str:
        """Every gate with its value, in the form :meth:`parse` reads."""
        return ",".join(f"{name}={str(getattr(self, field)).lower()}" for name, field in _FIELDS.items())


PLAIN = FeatureGates()
"""The gates of a 1.37 cluster without --feature-gates."""

_FIELDS = {
    "DRAAdminAccess": "admin_access",
    "DRAPrioritizedList": "prioritized_list",
    "DRAResourceClaimDeviceStatus": "device_status",
    "DRAExtendedResource": "extended_resource",
    "DRADeviceTaints": "device_taints",
    "DRADeviceTaintRules": "device_taint_rules",
    "DRAConsumableCapacity": "consumable_capacity",
    "DRADeviceBindingConditions": "device_binding_conditions",
    "DRAPartitionableDevices": "partitionable_devices",
    "DRAFractionalCapacityRange": "fractional_capacity_range",
    "DRAListTypeAttributes": "list_type_attributes",
    "DRANodeAllocatableResources": "node_allocatable_resources",
    "DRAResourcePoolStatus": "resource_pool_status",
    "DRADerivedAttributes": "derived_attributes",
    "DRADeviceCompatibilityGroups": "device_compatibility_groups",
    "DRAOptionalNodeOperations": "optional_node_operations",
    "DRAPartitionableDevicesType": "partitionable_devices_type",
    "DRASchedulerFilterTimeout": "scheduler_filter_timeout",
    "DRAResourceClaimGranularStatusAuthorization": "granular_status_authorization",
    "ResourceHealthStatus": "resource_health_status",
    "ResourceHealthStatusMessage": "resource_health_status_message",
    "GenericWorkload": "generic_workload",
    "DRAWorkloadResourceClaims": "workload_resource_claims",
    "TopologyAwareWorkloadScheduling": "topology_aware_workload_scheduling",
    "PodGroupPreemptionPolicy": "pod_group_preemption_policy",
    "CompositePodGroup": "composite_pod_group",
}

LOCKED = frozenset({"DRAAdminAccess", "DRAPrioritizedList", "DRAResourceClaimDeviceStatus", "DRAExtendedResource"})
"""Gates that a 1.37 refuses to switch off."""

_NEEDS: dict[str, tuple[str, ...]] = {
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRAPartitionableDevicesType": ("DRAPartitionableDevices", "DRAResourcePoolStatus"),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
}
"""Hard dependencies among these gates."""

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
