"""The feature set of the allocator (A-2). Off means something different for each; the feature's file says what."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Features:
    """Which features are on. Defaults are those of Kubernetes 1.37 (table of A-2)."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False

    @property
    def experimental(self) -> bool:
        """Whether some alpha feature is on, which makes upstream pick its experimental variant (A-2.1, A-2.3)."""
        return self.list_type_attributes or self.optional_node_operations or self.derived_attributes or self.compatibility_groups

    @classmethod
    def all(cls) -> Features:
        """Every feature on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def none(cls) -> Features:
        """Every feature off."""
        return cls(**{field.name: False for field in fields(cls)})


DEFAULT = Features()
