"""The types of documents and lines that one command writes and that have no other room. Commands import them for the
type checker alone, so that none is slower to start by another's types."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from virt_dra.api.wire import Json
from virt_dra.cli.allocate.report import ExplanationJson
from virt_dra.installation.plan import ObjectNameJson
from virt_dra.simulator.explaining.answer import ExplainedAnswerJson

# --- explain -------------------------------------------------------------------------------------------------------


class ReasonPageJson(TypedDict):
    """The page of a finding, a reason or an alert."""

    name: str
    page: str
    """Markdown."""


class ExplanationListJson(TypedDict):
    """Why each VM, VMI and pod that has no place gets none."""

    subjects: list[ExplainedAnswerJson]
    leftOut: int
    """How many more weren't explained."""


# --- install, uninstall, release -----------------------------------------------------------------------------------


class InstalledObjectJson(ObjectNameJson):
    """An object that was applied."""

    result: str


class InstallationJson(TypedDict):
    """What an installation did."""

    overlay: str
    namespace: str
    objects: list[InstalledObjectJson]
    waitingFor: list[str]
    """What doesn't run yet."""


class RemovalJson(TypedDict):
    """What a removal did."""

    namespace: str | None
    planned: list[ObjectNameJson]
    removed: list[ObjectNameJson]
    kept: list[str]
    waitingFor: list[str]
    """What isn't gone yet."""


class ReleasedClaimJson(TypedDict):
    """A claim of a stopped VM."""

    claim: str
    namespace: str
    devices: str
    asked: bool
    """True if the keeper was asked to release them."""


class ReleaseListJson(TypedDict):
    """The claims of a stopped VM that keeps its devices."""

    items: list[ReleasedClaimJson]


# --- scenario ------------------------------------------------------------------------------------------------------


class ScenarioAnswerJson(TypedDict):
    """The answer of a scenario, by docs/spec/scenarios.md, or an error."""

    name: str | None
    refusals: NotRequired[list[Json]]
    states: NotRequired[Json]
    """Label of an observation -> kind -> symbol -> what is compared of the object."""
    unsettled: NotRequired[bool]
    error: NotRequired[str]
    differences: NotRequired[list[str]]
    """From the answer that was expected."""


class ScenarioReportJson(TypedDict):
    """What became of scenarios."""

    scenarios: list[ScenarioAnswerJson]


# --- get -w --------------------------------------------------------------------------------------------------------


class RowChangeJson(TypedDict):
    """A row that is new, different or gone, as a watch of Kubernetes says it."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Json
    """A row of the schema inventory."""


# --- answers to JSON lines, beside the id of the request ----------------------------------------------------------


class WarnedJson(TypedDict):
    """What answers have of unknown members of the request."""

    warnings: NotRequired[list[str]]


class AdmissionCauseJson(TypedDict):
    """Why an object is refused."""

    type: str
    message: str
    field: str
    by: str
    """api-server or kubevirt"""


class AdmitAnswerJson(TypedDict):
    """The verdict on a VMI or VM."""

    allowed: bool
    causes: list[AdmissionCauseJson]
    warnings: list[str]
    error: NotRequired[str]
    """Why the request can't be understood."""


class ContainerDevicesJson(TypedDict):
    """The device part of a container."""

    name: str
    claims: list[Json]
    """ResourceClaims of the core API's v1."""
    limits: dict[str, str]
    requests: dict[str, str]


class RenderAnswerJson(WarnedJson):
    """The device part of a launcher pod."""

    resourceClaims: list[Json]
    """PodResourceClaims of the core API's v1."""
    containers: list[ContainerDevicesJson]
    error: str | None
    """Why there is none."""


class UnresolvedDeviceJson(TypedDict):
    """A device entry without an address, or one that is to be remarked on."""

    device: str
    """gpus/NAME or hostDevices/NAME"""
    reason: str
    message: str


class DeviceStatusAnswerJson(TypedDict):
    """The addresses of a VMI's devices."""

    deviceStatus: Json | None
    """As in the status of a VMI."""
    unresolved: list[UnresolvedDeviceJson]
    warnings: NotRequired[list[UnresolvedDeviceJson | str]]
    error: NotRequired[str]


class HostdevJson(TypedDict):
    """An element of a domain."""

    device: str
    source: str
    """Where its address was found: status, metadata or environment."""
    xml: str


class DomainAnswerJson(WarnedJson):
    """The domain of a VMI."""

    hostdevs: list[HostdevJson]
    domain: str | None
    error: str | None


class AllocationAnswerJson(WarnedJson):
    """The answer to an allocation problem."""

    results: list[Json] | None
    """AllocationResults of resource.k8s.io/v1, in the order of the claims; null if there are none."""
    error: str | None
    node_error: bool
    """True if the error is one of the node alone."""
    elapsed_us: float
    explanation: NotRequired[ExplanationJson | None]
    """Where the request asks for it."""


class SelectorAnswerJson(WarnedJson):
    """The result of an expression for a device."""

    compile_error: str | None
    cost_estimate: int | None
    result: bool | Json | None
    """Of a derived attribute a DeviceAttribute of resource.k8s.io/v1."""
    error: str | None
    cost: int | None


class StayJson(TypedDict):
    """Where a VM ran in a simulation."""

    policy: str
    seed: int
    size: int | None
    vm: str
    vmKind: str
    """Of the description."""
    arrived: float
    started: float
    ended: float | None
    """null: it runs at the end."""
    evicted: bool
    node: str
    devices: list[str]
    """driver/pool/device"""


# --- the program ---------------------------------------------------------------------------------------------------


class VersionJson(TypedDict):
    """Which version this is."""

    version: str
    newestKubeVirt: str
    """The newest release that it knows."""


class OptionDefaultJson(TypedDict):
    """A default of an option."""

    command: str | None
    """null for all commands."""
    option: str
    value: str | list[str]
    source: str
    """The variable or file that it is from."""


class ConfigurationJson(TypedDict):
    """The user's own defaults of options."""

    file: str
    options: list[OptionDefaultJson]
