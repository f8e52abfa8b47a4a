"""Which kinds of objects each capability reads: the one table for ``--live``, informers and permissions.

A test compares it with the rules of every role in virt_dra/manifests, and with the informers that are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.instancetypes import names
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.policies.storage_v1 import PersistentVolume, PersistentVolumeClaim, StorageClass
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices

Kinds = tuple[type[TypedObject], ...]

INSTANCETYPES: Final = tuple(unknown_kind(names.API_VERSION, kind) for kind in names.KINDS)
REVISIONS: Final = unknown_kind("apps/v1", names.REVISION)
"""What instancetypes were when a VM was started."""

OFTEN_NOT_SERVED: Final = frozenset({
    VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceDevices, KubeVirt, DeviceTaintRule, DeviceProfile,
    KeepPolicy,
    *INSTANCETYPES,
})  # fmt: skip
"""Kinds that a cluster may not serve (yet): then it has no object of them."""
UNMISSED: Final = frozenset({DeviceProfile, KeepPolicy})
"""Kinds that a cluster without virt-dra or its keeper doesn't serve, where no VM can ask for them: not worth a note."""
LABELS: Final[Mapping[type[TypedObject], str]] = {REVISIONS: names.REVISED}
"""Label selectors of kinds of which most objects are of no interest."""


@dataclass(frozen=True)
class ReadKinds:
    """The kinds that a command or process reads. ``required``: kinds without which there is no answer; ``optional``:
    left out, and named, where they can't be read; ``one_of``: those of which one must be readable."""

    required: Kinds = ()
    optional: Kinds = ()
    one_of: Kinds = ()

    @property
    def all(self) -> Kinds:
        return tuple(dict.fromkeys((*self.required, *self.optional)))

    def __or__(self, other: ReadKinds) -> ReadKinds:
        """What both read; what one of them requires is required of both."""
        return ReadKinds(
            tuple(dict.fromkeys((*self.required, *other.required))),
            tuple(dict.fromkeys((*self.optional, *other.optional))),
            self.one_of or other.one_of,
        )


_VMS: Final = (VirtualMachine, VirtualMachineInstance)
_USE: Final = (ResourceSlice, ResourceClaim, Pod, DeviceTaintRule)
_VOLUMES: Final = (PersistentVolumeClaim, PersistentVolume, StorageClass)
_ALLOCATION: Final = (Node, ResourceSlice, DeviceClass, DeviceTaintRule, ResourceClaim)
_PLACEMENT: Final = ReadKinds(
    optional=(*_ALLOCATION, Pod, ResourceClaimTemplate, KubeVirt, *_VMS, DeviceProfile, KeepPolicy, *_VOLUMES)
)
_ROWS: Final[Mapping[str, ReadKinds]] = {
    "get vms": ReadKinds(
        optional=(*_VMS, *_USE, DeviceClass, VirtualMachineInstanceDevices, DeviceProfile),
        one_of=(*_VMS, Pod, ResourceClaim),
    ),
    "get devices": ReadKinds(optional=(*_USE, VirtualMachine, KeepPolicy), one_of=(ResourceSlice,)),
    "get claims": ReadKinds(optional=(*_USE, VirtualMachine, KeepPolicy), one_of=(ResourceClaim,)),
    "get pools": ReadKinds(optional=_USE, one_of=(ResourceSlice,)),
    "get drivers": ReadKinds(optional=(*_USE, DeviceClass), one_of=(ResourceSlice,)),
}  # fmt: skip
_REPORT: Final = _ROWS["get vms"] | _ROWS["get drivers"] | _PLACEMENT
_WEBHOOK: Final = (
    ResourceClaimTemplate, ResourceClaim, DeviceClass, ResourceSlice, Node, DeviceTaintRule, *_VMS, KubeVirt,
)  # fmt: skip
_SIZES: Final = (*INSTANCETYPES, REVISIONS)
"""What VMs name for their size."""
_PROFILES: Final = (DeviceProfile, Namespace, ResourceClaimTemplate)
"""What a VM's line of profiles stands for, and what is made for it."""
_OPERATOR: Final = (*_ALLOCATION, Pod, *_VMS, VirtualMachineInstanceDevices, *_PROFILES)

READ: Final[Mapping[str, ReadKinds]] = {
    **_ROWS,
    **{f"describe {rows.removeprefix('get ')}": kinds | _ROWS["get drivers"] for rows, kinds in _ROWS.items()},
    "describe vms": _ROWS["get vms"] | _ROWS["get drivers"] | _ROWS["get claims"],
    "topology": _ROWS["get devices"]
    | ReadKinds(optional=(*_VMS, Node, DeviceClass, ResourceClaimTemplate, DeviceProfile, *_VOLUMES)),
    "report": _REPORT | ReadKinds(optional=_SIZES),
    "report-server": ReadKinds(required=(*_REPORT.all, *_SIZES)),
    "explain": _PLACEMENT | ReadKinds(optional=(Namespace, *_SIZES)),
    "plan": _PLACEMENT | ReadKinds(optional=(Namespace, *_SIZES)),
    "run": _PLACEMENT | ReadKinds(optional=(Namespace, *_SIZES)),
    "lint": ReadKinds(required=_WEBHOOK, optional=(*_SIZES, DeviceProfile, Namespace, KeepPolicy, *_VOLUMES)),
    "allocate": ReadKinds(optional=(*_ALLOCATION, ResourceClaimTemplate)),
    "cel": ReadKinds(optional=(ResourceSlice,)),
    "simulate": ReadKinds(optional=(*_ALLOCATION, Pod, Namespace, *_VOLUMES)),
    "webhook": ReadKinds(required=(*_WEBHOOK, DeviceProfile, Namespace)),
    "operator beside-kubevirt": ReadKinds(required=_OPERATOR),
    "operator standalone": ReadKinds(required=(*_OPERATOR, KubeVirt)),
    "keeper": ReadKinds(
        required=(Node, ResourceSlice, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, *_VMS, KeepPolicy)
    ),
    "extender": ReadKinds(required=(*_ALLOCATION, Pod, Namespace)),
    "doctor": ReadKinds(optional=(KubeVirt, VirtualMachine, ResourceSlice, DeviceClass, Node)),
}
"""By command, with the kind of rows or the mode where these read differently. ``top`` reads what ``report`` reads."""
