"""The feature set of the allocator (A-2). What "off" means differs per feature; see its module."""

from __future__ import annotations

from dataclasses import dataclass, fields

from virt_dra.api.feature_gates import FeatureGates


@dataclass(frozen=True)
class Features:
    """The features that are on, by default those of a plain Kubernetes 1.37 (table of A-2)."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False

    @property
    def experimental(self) -> bool:
        """True if some alpha feature is on, which makes upstream pick its experimental variant (A-2.1, A-2.3)."""
        return (
            self.list_type_attributes
            or self.optional_node_operations
            or self.derived_attributes
            or self.compatibility_groups
        )

    @classmethod
    def from_gates(cls, gates: FeatureGates) -> Features:
        """The features of a scheduler with these gates."""
        return cls(
            admin_access=gates.admin_access,
            prioritized_list=gates.prioritized_list,
            partitionable_devices=gates.partitionable_devices,
            device_taints=gates.device_taints,
            device_binding_and_status=gates.device_binding_conditions and gates.device_status,
            consumable_capacity=gates.consumable_capacity,
            fractional_capacity_range=gates.fractional_capacity_range,
            list_type_attributes=gates.list_type_attributes,
            optional_node_operations=gates.optional_node_operations,
            derived_attributes=gates.derived_attributes,
            compatibility_groups=gates.device_compatibility_groups,
        )

    @classmethod
    def all(cls) -> Features:
        """Every feature on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def none(cls) -> Features:
        """Every feature off."""
        return cls(**{field.name: False for field in fields(cls)})


DEFAULT = Features()
