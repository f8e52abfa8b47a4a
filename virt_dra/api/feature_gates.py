"""The feature gates of Kubernetes 1.37 that decide about DRA: which fields a cluster knows, and what its loops do (A-2,
C-2.1, C-2.2).

``FeatureGates()`` is a plain 1.37 cluster. What an API server does about a gate that is off:
:mod:`virt_dra.api.schemas.field_dropping`. The gates of KubeVirt are others (:mod:`virt_dra.api.kubevirt_versions`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final


class FeatureGateError(ValueError):
    """A setting that no component would start with. ``problems`` has one sentence for each fault."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


def _gate(name: str, *, default: bool = True) -> Any:
    """The field of a gate, with its name in Kubernetes."""
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True)
class FeatureGates:
    """The feature gates, each on or off. The defaults are those of Kubernetes 1.37.1 (C-2.1).

    DRAFractionalCapacityRange is declared on for a minimum compatibility version of 1.37, else off; a component started
    without ``--min-compatibility-version`` is compatible with the version before its own, so a plain 1.37 has it off.
    """

    admin_access: bool = _gate("DRAAdminAccess")
    prioritized_list: bool = _gate("DRAPrioritizedList")
    device_status: bool = _gate("DRAResourceClaimDeviceStatus")
    extended_resource: bool = _gate("DRAExtendedResource")
    device_taints: bool = _gate("DRADeviceTaints")
    device_taint_rules: bool = _gate("DRADeviceTaintRules")
    consumable_capacity: bool = _gate("DRAConsumableCapacity")
    device_binding_conditions: bool = _gate("DRADeviceBindingConditions")
    partitionable_devices: bool = _gate("DRAPartitionableDevices")
    fractional_capacity_range: bool = _gate("DRAFractionalCapacityRange", default=False)
    list_type_attributes: bool = _gate("DRAListTypeAttributes", default=False)
    node_allocatable_resources: bool = _gate("DRANodeAllocatableResources", default=False)
    resource_pool_status: bool = _gate("DRAResourcePoolStatus", default=False)
    derived_attributes: bool = _gate("DRADerivedAttributes", default=False)
    device_compatibility_groups: bool = _gate("DRADeviceCompatibilityGroups", default=False)
    optional_node_operations: bool = _gate("DRAOptionalNodeOperations", default=False)
    partitionable_devices_type: bool = _gate("DRAPartitionableDevicesType", default=False)
    scheduler_filter_timeout: bool = _gate("DRASchedulerFilterTimeout")
    granular_status_authorization: bool = _gate("DRAResourceClaimGranularStatusAuthorization")
    resource_health_status: bool = _gate("ResourceHealthStatus")
    resource_health_status_message: bool = _gate("ResourceHealthStatusMessage")
    generic_workload: bool = _gate("GenericWorkload", default=False)
    workload_resource_claims: bool = _gate("DRAWorkloadResourceClaims", default=False)
    topology_aware_workload_scheduling: bool = _gate("TopologyAwareWorkloadScheduling", default=False)
    pod_group_preemption_policy: bool = _gate("PodGroupPreemptionPolicy", default=False)
    composite_pod_group: bool = _gate("CompositePodGroup", default=False)

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

_FIELDS: Final[dict[str, str]] = {gate.metadata["name"]: gate.name for gate in fields(FeatureGates)}
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
