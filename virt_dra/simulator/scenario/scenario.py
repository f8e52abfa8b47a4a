"""A scenario as values, and the kinds of objects that scenarios speak of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from virt_dra.api.feature_gates import PLAIN, FeatureGates
from virt_dra.api.wire import Json
from virt_dra.simulator.control_plane import CLASSIC_KINDS

PLAY: Final = "play"
"""The namespace of objects that name none."""
GIVEN: Final = "given"
END: Final = "end"
"""The label of the state after the last step."""

API_VERSIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("Pod", "Node", "Namespace", "ResourceQuota", "ConfigMap", "Secret", "Service", "ServiceAccount", "LimitRange"),
        "v1",
    ),
    **dict.fromkeys(
        ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass", "DeviceTaintRule"),
        "resource.k8s.io/v1",
    ),
    "ResourcePoolStatusRequest": "resource.k8s.io/v1alpha3",
    **dict.fromkeys(("PodGroup", "Workload"), "scheduling.k8s.io/v1beta1"),
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    **dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), "rbac.authorization.k8s.io/v1"),
}
"""Kind -> the version that is meant where an object names none."""
CLUSTER_SCOPED: Final = frozenset({
    "Node", "Namespace", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest",
    "PriorityClass", "ClusterRole", "ClusterRoleBinding", "ResourceClass",
})  # fmt: skip
COMPARED: Final = (
    "Pod", "ResourceClaim", "PodGroup", "DeviceTaintRule", "ResourcePoolStatusRequest", "ResourceQuota",
    "PodSchedulingContext", "PodScheduling",
)  # fmt: skip
"""The kinds whose objects are in a state, in the order of the normal form; the last two are of classic DRA."""
WITH_STATUS: Final = frozenset({
    "Pod", "Node", "ResourceQuota", "ResourceClaim", "DeviceTaintRule", "ResourcePoolStatusRequest", "PodGroup",
    "PodDisruptionBudget", "PodSchedulingContext", "PodScheduling",
})  # fmt: skip
"""Kinds whose status is a subresource that ``apply`` patches."""


class ObjectPlace(NamedTuple):
    """The object that a request is about. ``namespace``: "" for cluster-scoped kinds."""

    api_version: str
    kind: str
    name: str
    namespace: str


@dataclass(frozen=True)
class ActingUser:
    """The user of a request: by impersonation on a real cluster."""

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One step. ``fields`` holds what its ``do`` takes."""

    do: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    user: ActingUser | None = None
    namespace: str = PLAY


@dataclass(frozen=True)
class Compared:
    """The parts of an answer that are compared."""

    events: bool | tuple[str, ...] = True
    ignore: tuple[str, ...] = ()
    settled: bool = True
    interchangeable: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Names that may be swapped, and what stands for each of them."""


@dataclass(frozen=True)
class Scenario:
    """A scenario (docs/spec/scenarios.md). ``gate_texts``: the gates as they were written; ``timers`` in seconds."""

    name: str
    steps: tuple[Step, ...] = ()
    given: tuple[Json, ...] = ()
    rules: tuple[str, ...] = ()
    gates: FeatureGates = PLAIN
    gate_texts: Mapping[str, bool] = field(default_factory=dict)
    timers: Mapping[str, float] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    compare: Compared = Compared()
    long: bool = False
    note: str = ""
    kubernetes: str = ""
    """A release of classic DRA; "" for the present one."""
    drivers: Mapping[str, Json] = field(default_factory=dict)
    """Classic drivers: name -> settings."""

    @cached_property
    def api_versions(self) -> Mapping[str, str]:
        """Kind -> the version that is meant where an object names none."""
        return api_versions(self.kubernetes)

    @property
    def applied(self) -> Iterator[Json]:
        """All objects that are applied, in their order."""
        yield from self.given
        for step in self.steps:
            yield from step.fields.get("objects", ())

    @property
    def compared(self) -> tuple[str, ...]:
        """The kinds of the release whose objects are in a state."""
        return tuple(kind for kind in COMPARED if kind in self.api_versions)

    def api_version_of(self, raw: Mapping[str, Any]) -> str:
        """The object's apiVersion, or the obvious one of its kind."""
        return str(raw.get("apiVersion") or self.api_versions[str(raw["kind"])])


def api_versions(kubernetes: str) -> Mapping[str, str]:
    """Kind -> version, of a release of classic DRA or, with "", of the present one."""
    if not kubernetes:
        return API_VERSIONS
    others = {kind: version for kind, version in API_VERSIONS.items() if version == "v1" and kind != "ResourceQuota"}
    return {**others, "PriorityClass": API_VERSIONS["PriorityClass"], **CLASSIC_KINDS[kubernetes]}


def namespaces_made(scenario: Scenario) -> Sequence[str]:
    """The namespaces that the scenario makes besides ``play``."""
    return tuple(dict.fromkeys(obj["metadata"]["name"] for obj in scenario.applied if obj["kind"] == "Namespace"))
