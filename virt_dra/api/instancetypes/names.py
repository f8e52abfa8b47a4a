"""The kinds of instancetypes and preferences, by name."""

from __future__ import annotations

from typing import Final

GROUP: Final = "instancetype.kubevirt.io"
API_VERSION: Final = f"{GROUP}/v1beta1"
INSTANCETYPE: Final = "VirtualMachineInstancetype"
CLUSTER_INSTANCETYPE: Final = "VirtualMachineClusterInstancetype"
PREFERENCE: Final = "VirtualMachinePreference"
CLUSTER_PREFERENCE: Final = "VirtualMachineClusterPreference"
REVISION: Final = "ControllerRevision"
KINDS: Final = (INSTANCETYPE, CLUSTER_INSTANCETYPE, PREFERENCE, CLUSTER_PREFERENCE)
NAMESPACED_KINDS: Final = (INSTANCETYPE, PREFERENCE)

REVISED: Final = f"{GROUP}/object-name"
"""Label of a ControllerRevision: which object it holds."""
