"""virt-dra.io/v1alpha1: which devices of its nodes the node driver publishes (D-39, docs/spec/driver.md).

Nothing is published that no policy names. A :class:`VirtDraNodePolicy` is cluster-scoped; a node without a cluster
reads it from a file.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from virt_dra.api.core_v1 import LabelSelector
from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Bool, Int32, List, Str, Wire

API_VERSION: Final = "virt-dra.io/v1alpha1"

TOGETHER: Final = "together"
EACH: Final = "each"


class VfIndexRange(Wire):
    """Virtual functions of a physical function by index, both ends included. ``last`` absent: all from ``first``."""

    first: Int32 = 0
    last: Int32 | None = None


class FunctionSelector(Wire):
    """PCI functions for which all given fields hold; an empty one selects every function.

    Ids are hexadecimal digits: ``10de``, a class of 2, 4 or 6 digits. ``address``: of the function itself, or the name
    of another parent of mediated devices; ``physicalFunction``: the address of a virtual function's PF. ``driver``: the
    one that it is bound to now, ``""`` for none.
    """

    vendor: Str | None = None
    device: Str | None = None
    subsystem_vendor: Str | None = None
    subsystem_device: Str | None = None
    class_code: Str | None = Field(default=None, alias="class")
    address: Str | None = None
    physical_function: Str | None = None
    vf_indexes: VfIndexRange | None = None
    driver: Str | None = None
    numa_node: Int32 | None = None


class PolicyMdevType(Wire):
    """A type of mediated devices by its id (``nvidia-35``) or name (``GRID T4-1Q``). ``max``: per parent."""

    type: Str = ""
    max: Int32 | None = None


class PolicyVgpuProfile(Wire):
    """A vGPU profile by its id (``557``) or name (``NVIDIA L40S-8Q``). ``max``: per card."""

    profile: Str = ""
    max: Int32 | None = None


class PolicyDeviceSet(Wire):
    """Functions that any of ``select`` selects, and how they are published.

    ``iommuGroups``: a group is one device (``together``, the default), or each selected function of it. ``cards``: each
    function is a device (``each``, the default), or all functions of a slot are one (``together``). ``driver``: what
    functions are bound to; absent: what the kernel's own table says (D-64). ``numVFs``: the virtual functions that each
    selected PF gets; they are published in its place. ``mdevTypes``, ``vgpuProfiles``: publish these of the selected
    cards, not the cards. ``mixedProfiles``: a card may have several types or profiles at a time.
    """

    name: Str = ""
    select: List[FunctionSelector] = ()
    iommu_groups: Str | None = None
    cards: Str | None = None
    driver: Str | None = None
    sanitize: Str | None = None
    num_vfs: Int32 | None = Field(default=None, alias="numVFs")
    mdev_types: List[PolicyMdevType] = ()
    vgpu_profiles: List[PolicyVgpuProfile] = ()
    mixed_profiles: Bool | None = None


class NodePolicySpec(Wire):
    """The devices that are published of nodes. ``nodeSelector``: the nodes it is for, all without it.
    ``listAttributes``: publish lists where they say more, which needs the cluster's gate DRAListTypeAttributes
    (D-59)."""

    node_selector: LabelSelector | None = None
    list_attributes: Bool | None = None
    device_sets: List[PolicyDeviceSet] = ()


class VirtDraNodePolicy(TypedObject):
    API_VERSION: ClassVar[str] = API_VERSION
    PLURAL: ClassVar[str] = "virtdranodepolicies"
    NAMESPACED: ClassVar[bool] = False
    HAS_STATUS: ClassVar[bool] = False

    spec: NodePolicySpec = NodePolicySpec.empty()
