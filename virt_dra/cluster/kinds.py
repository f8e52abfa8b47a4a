"""What an API server knows of a kind before it sees an object: its resource name, its scope and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.meta import TypedObject, UnknownObject
from virt_dra.api.reading.scheme import known_kind
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest, ResourceSlice
from virt_dra.api.scheduling_v1 import PodGroup, Workload


@dataclass(frozen=True)
class ApiResource:
    """One kind as the API server serves it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    has_status: bool
    counts_generation: bool
    """Whether ``metadata.generation`` counts the changes of everything but metadata and status."""
    keeps_status_on_create: bool
    """Nodes and kinds without the subresource may be created with a status."""
    unconditional_update: bool
    """Whether an update without resourceVersion is accepted (C-13.2)."""
    native: bool
    """Built into Kubernetes: stored without empty fields. False for custom resources, which are stored as given."""

    @property
    def group(self) -> str:
        return _group(self.api_version)

    @property
    def group_kind(self) -> str:
        """As in ``ResourceClaim.resource.k8s.io "x" is invalid``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        """As in ``resourceclaims.resource.k8s.io "x" not found``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def resource_of(subject: TypedObject | type[TypedObject]) -> ApiResource:
    """The resource of an object or of a kind; an :class:`UnknownObject` has its own ``apiVersion`` and ``kind``.

    Raises ValueError for the bare class UnknownObject (use :func:`unknown_kind`'s) and for an object that names no
    kind.
    """
    kind = subject if isinstance(subject, type) else type(subject)
    if kind.KIND:
        return _known(kind)
    if isinstance(subject, UnknownObject) and subject.api_version and subject.kind:
        return _known(unknown_kind(subject.api_version, subject.kind))
    raise ValueError("an object without a type of its own must name its apiVersion and kind; see unknown_kind()")


@lru_cache(maxsize=1024)
def _known(kind: type[TypedObject]) -> ApiResource:
    group = _group(kind.API_VERSION)
    native = "." not in group or group.endswith(".k8s.io")
    return ApiResource(
        api_version=kind.API_VERSION,
        kind=kind.KIND,
        plural=kind.PLURAL,
        namespaced=kind.NAMESPACED,
        has_status=kind.HAS_STATUS,
        counts_generation=_counts_generation(kind, native),
        keeps_status_on_create=not kind.HAS_STATUS or issubclass(kind, Node),
        unconditional_update=native
        and not issubclass(kind, (DeviceTaintRule, ResourcePoolStatusRequest, PodGroup, Workload)),
        native=native,
    )


def _counts_generation(kind: type[TypedObject], native: bool) -> bool:
    """C-13.1 for resource.k8s.io; pods and every custom resource count, other core kinds don't."""
    if known_kind(kind.API_VERSION, kind.KIND) is kind:
        return not native or issubclass(kind, (Pod, ResourceSlice, DeviceClass, DeviceTaintRule))
    return not native or _group(kind.API_VERSION) in ("apps", "batch", "policy")


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


NAMESPACE = resource_of(Namespace)
