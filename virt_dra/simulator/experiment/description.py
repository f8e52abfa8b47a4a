"""Reads the description of an experiment (docs/guides/simulator.md): a cluster, kinds of VMs with their arrivals, and
events. All faults are reported at once, each with its field path, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from virt_dra.api.core_v1 import Node, Taint
from virt_dra.api.defaults import defaulted
from virt_dra.api.keeping.terms import DEFAULT_NODE_LOSS
from virt_dra.api.nearest import nearest
from virt_dra.api.quantity import Quantity
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.api.schemas.unknown_fields import unknown_fields
from virt_dra.api.validation import validate_create
from virt_dra.api.wire import WireError
from virt_dra.cel.validation import COMPILED
from virt_dra.simulator.experiment.durations import seconds_of
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import SHORTEST

KIND: Final = "Simulation"
MOST_NODES: Final = 100_000
MOST_DEVICES: Final = 1_000_000
MOST_ARRIVALS: Final = 5_000_000


def _amount(value: object) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be an amount, such as 8, 500m or 64Gi")
    try:
        amount = Quantity(str(value))
    except ValueError:
        raise ValueError(f"{str(value)[:40]!r} is no amount; write such as 8, 500m or 64Gi") from None
    if amount.sign() < 0:
        raise ValueError(f"must not be negative, is {value}")
    return amount


def _rate(value: object) -> float:
    """Arrivals per second: ``120/h``."""
    number, slash, unit = str(value).partition("/")
    try:
        rate = float(number) / (seconds_of(f"1{unit.strip()}") if slash else 1.0)
    except ValueError:
        raise ValueError(f"{str(value)[:40]!r} is no rate; write such as 120/h or 0.5/s") from None
    if not 0 < rate < 1e6:
        raise ValueError(f"must be more than 0 and less than a million a second, is {value}")
    return rate


K = TypeVar("K", DeviceClass, ResourceClaim)

Seconds = Annotated[float, BeforeValidator(seconds_of)]
Amount = Annotated[Quantity, BeforeValidator(_amount)]
Rate = Annotated[float, BeforeValidator(_rate)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class DevicesPart(_Part):
    """Devices of one driver on a node, all alike."""

    driver: str = Field(min_length=1, max_length=63)
    count: int = Field(ge=1, le=4096)
    name: str = "device"
    attributes: dict[str, str | bool | int] = {}
    capacity: dict[str, Amount] = {}
    shared: bool = False
    """Many VMs may have a share of a device (allowMultipleAllocations)."""
    per_root: int | None = Field(None, ge=1, alias="perRoot")
    """Devices on one PCIe root."""
    per_numa: int | None = Field(None, ge=1, alias="perNumaNode")
    """Devices on one NUMA node."""


class NodesPart(_Part):
    """Nodes that are alike, called ``name-0``, ``name-1``, …"""

    name: str = Field("node", pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=200)
    count: int = Field(1, ge=1, le=MOST_NODES)
    cpu: Amount = Quantity("64")
    memory: Amount = Quantity("256Gi")
    pods: int = Field(110, ge=1)
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    devices: list[DevicesPart] = []


class LifetimePart(_Part):
    """Lifetimes by an exponential distribution."""

    mean: Seconds


Lifetime = Annotated[
    Annotated[Seconds, Tag("fixed")] | Annotated[LifetimePart, Tag("drawn")],
    Discriminator(lambda given: "drawn" if isinstance(given, dict | LifetimePart) else "fixed"),
]


class StopsPart(_Part):
    """How VMs of a kind are stopped, and started again."""

    after: Lifetime
    """How long a VM runs each time."""
    lasts: Lifetime = Field(alias="for")
    """How long it is stopped then."""

    @model_validator(mode="after")
    def _not_at_once(self) -> StopsPart:
        for name, given in (("after", self.after), ("for", self.lasts)):
            if (given.mean if isinstance(given, LifetimePart) else given) < SHORTEST:
                raise ValueError(f"{name} must be at least {SHORTEST:g}s")
        return self


def _never_or_seconds(value: object) -> float | None:
    return None if value == "never" else seconds_of(value)


class KeepPart(_Part):
    """The terms on which stopped VMs keep their devices."""

    stopped_for: Seconds | None = Field(None, alias="stoppedFor")
    """For how long; None: until they start again."""
    node_loss: Annotated[float | None, BeforeValidator(_never_or_seconds)] = Field(
        DEFAULT_NODE_LOSS.total_seconds(), alias="onNodeLoss"
    )
    """How long a VM waits for a node that is failed, drained or cordoned, before it starts elsewhere."""


def _terms(value: object) -> object:
    """The terms in full, for ``true``, ``false`` or a duration."""
    if isinstance(value, bool):
        return {} if value else None
    return {"stoppedFor": value} if isinstance(value, str | int | float) else value


class PodsPart(_Part):
    """What happens to the pods of the files: they run where they are, or wait, and end as VMs do."""

    lifetime: Lifetime | None = None
    """How long those that run at the beginning still run, and those that wait will run; None: for ever."""


class ClusterPart(_Part):
    """The cluster: nodes described here, objects of files, or both."""

    pods: PodsPart | None = None
    """None: running pods stay for ever, and waiting ones are left out."""

    files: list[str] = []
    nodes: list[NodesPart] = []


class ArrivalsPart(_Part):
    """The times at which VMs of a kind arrive."""

    count: int | None = Field(None, ge=1, le=MOST_ARRIVALS)
    rate: Rate | None = None
    """By a Poisson process."""
    every: Seconds | None = None
    at: list[Seconds] | None = None
    begin: Seconds = 0.0
    end: Seconds | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ArrivalsPart:
        ways = [name for name in ("rate", "every", "at") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} exclude each other")
        if self.at is not None and self.count is not None:
            raise ValueError("at and count exclude each other: each time is one arrival")
        if self.at is None and self.count is None and (not ways or self.end is None):
            raise ValueError("say how many VMs arrive: count, or rate or every with an end, or at")
        if self.end is not None and self.end < self.begin:
            raise ValueError(f"end is before begin: {self.end:g} s < {self.begin:g} s")
        return self


class VmPart(_Part):
    """A kind of VM."""

    name: str = Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=200)
    cpu: Amount = Quantity("1")
    memory: Amount = Quantity("1Gi")
    devices: dict[str, Any] | None = None
    """``spec.devices`` of a ResourceClaim."""
    claims: list[dict[str, Any]] = []
    """Several ResourceClaims' ``spec``."""
    node_selector: dict[str, str] = Field({}, alias="nodeSelector")
    priority: int = 0
    gang: int = Field(1, ge=1, le=1000)
    lifetime: Lifetime | None = None
    stops: StopsPart | None = None
    keep: Annotated[KeepPart | None, BeforeValidator(_terms)] = None
    """None: a VM that stops gives up its devices."""
    arrivals: ArrivalsPart | None = None

    @model_validator(mode="after")
    def _one_form(self) -> VmPart:
        if self.keep is not None and self.stops is None:
            raise ValueError("keep is about stopped VMs: say by stops when they are")
        if self.devices is not None and self.claims:
            raise ValueError("devices and claims exclude each other: devices is the one claim of a VM that has one")
        return self


class TaintPart(_Part):
    """A taint on devices."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    key: str = Field("virt-dra.simulated/taint", min_length=1)
    value: str = ""
    effect: Literal["NoSchedule", "NoExecute"] = "NoExecute"


class EventPart(_Part):
    """Something that happens to the cluster."""

    at: Seconds
    fail: list[str] | None = None
    drain: list[str] | None = None
    cordon: list[str] | None = None
    taint: TaintPart | None = None
    lasts: Seconds | None = Field(None, alias="for")

    @property
    def word(self) -> str:
        return next(name for name in ("fail", "drain", "cordon", "taint") if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _one_thing(self) -> EventPart:
        given = [name for name in ("fail", "drain", "cordon", "taint") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                "give one of fail, drain, cordon (lists of nodes) and taint"
                + (f", not {' and '.join(given)}" if given else "")
            )
        return self


class Description(_Part):
    """A whole experiment."""

    kind: Literal["Simulation"]
    seed: int = Field(0, ge=0)
    until: Seconds | None = None
    policies: list[str] = []
    cluster: ClusterPart
    classes: list[dict[str, Any]] = []
    """DeviceClasses; a driver without one of its name has one that selects all its devices."""
    vms: list[VmPart] = []
    arrivals: str | None = None
    """A CSV file of arrivals: at, vm, and optionally name, lifetime, priority, gang."""
    events: list[EventPart] = []


def without_keeping(description: Description) -> Description:
    """The description with VMs that give up their devices when they stop."""
    vms = [vm.model_copy(update={"keep": None}) for vm in description.vms]
    return description.model_copy(update={"vms": vms})


def read_description(raw: object, source: str) -> Description:
    """The description in a JSON value. Raises BadExperiment with every fault, behind ``source`` and its path."""
    if not isinstance(raw, dict):
        raise BadExperiment(f"{source}: must be an object with kind: {KIND}")
    try:
        description = Description.model_validate(raw)
    except ValidationError as error:
        raise BadExperiment(
            *[f"{source}: {_path(fault['loc'])}: {_message(dict(fault))}" for fault in error.errors()]
        ) from None
    problems = [f"{source}: {problem}" for problem in _contradictions(description)]
    if problems:
        raise BadExperiment(*problems)
    return description


def _contradictions(description: Description) -> list[str]:
    problems: list[str] = []
    nodes = sum(part.count for part in description.cluster.nodes)
    if nodes > MOST_NODES:
        problems.append(f"cluster.nodes: {nodes} nodes are more than {MOST_NODES}")
    devices = sum(
        part.count * devices_part.count for part in description.cluster.nodes for devices_part in part.devices
    )
    if devices > MOST_DEVICES:
        problems.append(
            f"cluster.nodes: {devices} devices are more than {MOST_DEVICES}, which would take several GiB of memory"
        )
    if not nodes and not description.cluster.files:
        problems.append("cluster: must have nodes or files")
    for field, names in (
        ("cluster.nodes", [part.name for part in description.cluster.nodes]),
        ("vms", [vm.name for vm in description.vms]),
    ):
        problems += [f"{field}: two are called {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    for number, event in enumerate(description.events):
        if event.lasts == 0:
            problems.append(f"events[{number}].for: must be more than 0; leave it out for ever")
    total = sum(vm.arrivals.count or 0 for vm in description.vms if vm.arrivals is not None)
    if total > MOST_ARRIVALS:
        problems.append(f"vms: {total} arrivals are more than {MOST_ARRIVALS}")
    return problems


def claims_of(vm: VmPart, number: int, source: str) -> tuple[ResourceClaim, ...]:
    """The claims of a kind of VM, with defaults. Raises BadExperiment for what an API server would refuse."""
    given = (
        [("devices", {"devices": vm.devices})]
        if vm.devices is not None
        else [(f"claims[{i}]", raw) for i, raw in enumerate(vm.claims)]
    )
    claims: list[ResourceClaim] = []
    for position, (field, spec) in enumerate(given):
        raw = {"metadata": {"name": f"claim-{position}", "namespace": "simulated"}, "spec": spec}
        claims.append(accepted(ResourceClaim, raw, f"{source}: vms[{number}].{field}"))
    return tuple(claims)


def accepted(kind: type[K], raw: Mapping[str, Any], where: str) -> K:
    """The object with defaults. Raises BadExperiment, behind ``where``, for what an API server would refuse."""
    written = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, **raw}
    try:
        made = defaulted(kind.from_wire(written))
    except WireError as error:
        raise BadExperiment(f"{where}: {error}") from None
    problems = [f"{field.path}: {field.message}" for field in unknown_fields(written)]
    problems += [str(error) for error in validate_create(made, COMPILED)]
    if problems:
        raise BadExperiment(
            *[f"{where}: {problem.removeprefix('spec.devices.').removeprefix('spec.')}" for problem in problems]
        )
    return made


def nodes_of(part: NodesPart, source: str) -> Sequence[Node]:
    """The nodes of one part."""
    amounts = {"cpu": str(part.cpu), "memory": str(part.memory), "pods": str(part.pods)}
    try:
        taints = [Taint.from_wire(taint) for taint in part.taints]
        first = Node.from_wire(
            {"metadata": {"name": part.name}, "status": {"allocatable": amounts, "capacity": amounts}}
        )
    except WireError as error:
        raise BadExperiment(f"{source}: cluster.nodes ({part.name}): {error}") from None
    spec = first.spec.with_(taints=tuple(taints)) if taints else first.spec
    nodes = []
    for number in range(part.count):
        name = f"{part.name}-{number}"
        labels = {"kubernetes.io/hostname": name, **part.labels}
        nodes.append(first.with_(metadata=first.metadata.with_(name=name, labels=labels), spec=spec))
    return nodes


_PYDANTIC_WORDS: Final[Mapping[str, str]] = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
}


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        name = str(error["loc"][-1])
        names = _fields_at(error["loc"][:-1])
        meant = nearest(name, names)
        return (
            f'unknown field; did you mean "{meant}"?'
            if meant
            else f"unknown field; the fields here are {', '.join(names)}"
        )
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _PYDANTIC_WORDS.get(error["type"], str(error["msg"]).replace("Input should be", "must be"))


def _fields_at(path: Sequence[object]) -> list[str]:
    model: type[BaseModel] = Description
    parts: dict[str, type[BaseModel]] = {
        "cluster": ClusterPart, "nodes": NodesPart, "devices": DevicesPart, "vms": VmPart, "arrivals": ArrivalsPart,
        "lifetime": LifetimePart, "stops": StopsPart, "keep": KeepPart, "pods": PodsPart, "events": EventPart,
        "taint": TaintPart,
    }  # fmt: skip
    for step in path:
        model = parts.get(str(step), model)
    return [field.alias or name for name, field in model.model_fields.items()]


def _path(loc: Sequence[object]) -> str:
    """``('vms', 0, 'cpu')`` -> ``vms[0].cpu``. Names of pydantic's alternatives are left out."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif str(step) not in ("fixed", "drawn"):
            text += f".{step}" if text else str(step)
    return text or "the description"
