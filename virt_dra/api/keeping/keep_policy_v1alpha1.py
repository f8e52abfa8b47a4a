"""virt-dra.io/v1alpha1: how many devices the stopped VMs of a namespace may keep, and for how long."""

from __future__ import annotations

from typing import ClassVar, Final

from virt_dra.api.meta import TypedObject
from virt_dra.api.wire import Int32, List, Str, Wire

API_VERSION: Final = "virt-dra.io/v1alpha1"


class ClassKeepLimit(Wire):
    """The limit for one DeviceClass. ``devices``: how many of the class stopped VMs keep at most."""

    device_class_name: Str = ""
    devices: Int32 | None = None


class KeepPolicySpec(Wire):
    """The limits of a policy. ``stoppedFor``: the longest time for which a stopped VM keeps its devices. ``devices``:
    how many stopped VMs keep at most. ``classes``: the same for single DeviceClasses. What isn't given isn't
    limited."""

    stopped_for: Str | None = None
    devices: Int32 | None = None
    classes: List[ClassKeepLimit] = ()


class KeepPolicy(TypedObject):
    """A policy of its namespace, where all policies hold."""

    API_VERSION: ClassVar[str] = API_VERSION
    HAS_STATUS: ClassVar[bool] = False

    spec: KeepPolicySpec = KeepPolicySpec.empty()
