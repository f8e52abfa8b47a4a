"""Makes an experiment of its description: nodes, slices, classes, and every arrival, drawn by the seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Final

from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.meta import TypedObject
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaint, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.model.cluster import ClusterModel
from virt_dra.scheduling.policies.placer import VmShape
from virt_dra.simulator.experiment.csv_input import read_csv
from virt_dra.simulator.experiment.description import (
    MOST_ARRIVALS,
    ArrivalsPart,
    Description,
    DevicesPart,
    EventPart,
    LifetimePart,
    NodesPart,
    VmPart,
    accepted,
    claims_of,
    nodes_of,
)
from virt_dra.simulator.experiment.dump import beginning, cluster_of
from virt_dra.simulator.experiment.durations import seconds_of
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.model import (
    Arrival,
    DevicesTainted,
    Disturbance,
    Experiment,
    KeepRule,
    NodesDown,
    RunningPod,
    Span,
    StopPattern,
    by_time,
)

_PER_SLICE: Final = 128


def build_experiment(
    description: Description, source: str, objects: Sequence[TypedObject] = (),
    arrivals: tuple[str, Iterable[str]] | None = None, *, seed: int | None = None, added: Sequence[TypedObject] = (),
) -> Experiment:  # fmt: skip
    """The experiment of a description. ``objects``: those of the cluster's files; ``arrivals``: name and lines of the
    CSV file; ``added``: further nodes and their slices. Raises BadExperiment."""
    seed = description.seed if seed is None else seed
    dumped = cluster_of((*objects, *added))
    nodes = [*dumped.model.of(Node)]
    slices = [*dumped.model.of(ResourceSlice)]
    for part in description.cluster.nodes:
        made = nodes_of(part, source)
        nodes += made
        slices += [slice_ for node in made for slice_ in _slices(part, node.name)]
    _each_once((node.name for node in nodes), f"{source}: cluster.nodes", "node")
    shapes = {vm.name: _shape(vm, number, source) for number, vm in enumerate(description.vms)}
    arriving = _arrivals(description, source, shapes, seed)
    if arrivals is not None:
        arriving += _listed(*arrivals, description, shapes, seed)
    running: list[RunningPod] = []
    followed: list[TypedObject] = []
    if description.cluster.pods is not None:
        lifetime, random = description.cluster.pods.lifetime, Random(f"{seed}/pods")
        numbers = {node.name: number for number, node in enumerate(nodes)}
        running, waiting, followed = beginning(dumped, numbers, lambda: _lifetime(lifetime, random))
        arriving += waiting
    if not arriving:
        raise BadExperiment(f"{source}: vms: no VM arrives; give a kind of VM its arrivals, or an arrivals file")
    classes = _classes(description, dumped.model.of(DeviceClass), slices, source)
    described = [*nodes, *slices, *classes]
    unread = dumped.model.unread - {Node} if objects else ()
    return Experiment(
        cluster=ClusterModel((*dumped.model.objects, *described), unread=unread).changed(removed=followed),
        running=running,
        nodes=tuple(nodes),
        arrivals=by_time(arriving),
        disturbances=_disturbances(description.events, nodes, source),
        until=description.until,
        notes=dumped.notes,
    )


# --- the cluster ------------------------------------------------------------------------------------------------------


def _slices(part: NodesPart, node: str) -> Iterator[ResourceSlice]:
    """The slices of a node: one pool for each driver, one slice for each 128 devices."""
    by_driver: dict[str, list[Json]] = {}
    for device_part in part.devices:
        devices = by_driver.setdefault(device_part.driver, [])
        devices += _devices(device_part, len(devices))
    for driver, devices in by_driver.items():
        parts = [devices[first : first + _PER_SLICE] for first in range(0, len(devices), _PER_SLICE)]
        for number, of_slice in enumerate(parts):
            pool = {"name": node, "generation": 1, "resourceSliceCount": len(parts)}
            spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": of_slice}
            yield ResourceSlice.from_wire({"metadata": {"name": f"{node}-{driver}-{number}"}, "spec": spec})


def _devices(part: DevicesPart, first: int) -> Iterator[Json]:
    attributes: dict[str, Json] = {}
    for name, value in part.attributes.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        attributes[name] = {kind: value}
    capacity = {name: {"value": str(amount)} for name, amount in part.capacity.items()}
    for number in range(part.count):
        placed = dict(attributes)
        if part.per_root is not None:
            placed["resource.kubernetes.io/pcieRoot"] = {"string": f"pci0000:{number // part.per_root:02x}"}
        if part.per_numa is not None:
            placed["numaNode"] = {"int": number // part.per_numa}
        device: Json = {"name": f"{part.name}-{first + number}", "attributes": placed}
        if capacity:
            device["capacity"] = capacity
        if part.shared:
            device["allowMultipleAllocations"] = True
        yield device


def _classes(
    description: Description, dumped: Sequence[DeviceClass], slices: Sequence[ResourceSlice], source: str
) -> Iterator[DeviceClass]:
    given: dict[str, DeviceClass] = {device_class.name: device_class for device_class in dumped}
    for number, raw in enumerate(description.classes):
        made = accepted(DeviceClass, raw, f"{source}: classes[{number}]")
        given[made.name] = made
    for driver in dict.fromkeys(slice_.spec.driver for slice_ in slices):
        if driver not in given:
            selector = {"cel": {"expression": f"device.driver == '{driver}'"}}
            given[driver] = DeviceClass.from_wire({"metadata": {"name": driver}, "spec": {"selectors": [selector]}})
    yield from given.values()


def _each_once(names: Iterable[str], where: str, kind: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadExperiment(f"{where}: two {kind}s are called {name}")
        seen.add(name)


def _disturbances(events: Sequence[EventPart], nodes: Sequence[Node], source: str) -> tuple[Disturbance, ...]:
    numbers = {node.name: number for number, node in enumerate(nodes)}
    disturbances: list[Disturbance] = []
    problems: list[str] = []
    for number, event in enumerate(events):
        until = None if event.lasts is None else event.at + event.lasts
        if event.taint is not None:
            taint = DeviceTaint(key=event.taint.key, value=event.taint.value, effect=event.taint.effect)
            disturbances.append(
                DevicesTainted(event.at, taint, event.taint.driver, event.taint.pool, event.taint.device, until)
            )
            continue
        names = event.fail or event.drain or event.cordon or []
        for position, name in enumerate(names):
            if name not in numbers:
                hint = did_you_mean(name, numbers)
                problems.append(f"{source}: events[{number}].{event.word}[{position}]: there is no node {name}{hint}")
        members = tuple(sorted({numbers[name] for name in names if name in numbers}))
        disturbances.append(NodesDown(event.at, members, until, event.word, evicts=event.cordon is None))
    if problems:
        raise BadExperiment(*problems)
    return tuple(sorted(disturbances, key=lambda disturbance: disturbance.at))


# --- VMs --------------------------------------------------------------------------------------------------------------


def _shape(vm: VmPart, number: int, source: str) -> VmShape:
    requests = {"cpu": str(vm.cpu), "memory": str(vm.memory)}
    containers = [{"name": "compute", "resources": {"requests": requests}}]
    selector = {"nodeSelector": vm.node_selector} if vm.node_selector else {}
    pod = Pod.from_wire({"spec": {"containers": containers, **selector}})
    return VmShape(vm.name, pod, claims_of(vm, number, source))


def _arrivals(description: Description, source: str, shapes: Mapping[str, VmShape], seed: int) -> list[Arrival]:
    arriving: list[Arrival] = []
    for number, vm in enumerate(description.vms):
        if vm.arrivals is None:
            continue
        random, pattern = Random(f"{seed}/{vm.name}"), _pattern(vm, seed)
        for index, at in enumerate(_times(vm.arrivals, random)):
            if len(arriving) >= MOST_ARRIVALS:
                raise BadExperiment(f"{source}: vms[{number}].arrivals: more than {MOST_ARRIVALS} VMs arrive")
            lifetime = _lifetime(vm.lifetime, random)
            arriving.append(
                Arrival(at, shapes[vm.name], f"{vm.name}-{index}", lifetime, vm.priority, vm.gang, pattern=pattern)
            )
    return arriving


def _times(part: ArrivalsPart, random: Random) -> Iterator[float]:
    if part.at is not None:
        yield from sorted(part.at)
        return
    at = part.begin
    for index in count():
        if part.rate is not None:
            at += random.expovariate(part.rate)
        elif part.every is not None:
            at = part.begin + index * part.every
        if (part.count is not None and index >= part.count) or (part.end is not None and at > part.end):
            return
        yield at


def _lifetime(part: float | LifetimePart | None, random: Random) -> float | None:
    return random.expovariate(1 / max(part.mean, 1e-9)) if isinstance(part, LifetimePart) else part


def _pattern(vm: VmPart, seed: int) -> StopPattern | None:
    if vm.stops is None:
        return None
    keep = None if vm.keep is None else KeepRule(vm.keep.stopped_for, vm.keep.node_loss)
    return StopPattern(_span(vm.stops.after), _span(vm.stops.lasts), f"{seed}/{vm.name}", keep)


def _span(part: float | LifetimePart) -> Span:
    return Span(part.mean, drawn=True) if isinstance(part, LifetimePart) else Span(part)


def _listed(
    name: str, lines: Iterable[str], description: Description, shapes: Mapping[str, VmShape], seed: int
) -> list[Arrival]:
    """The arrivals of a CSV file. Raises BadExperiment with file, line and column."""
    kinds = {vm.name: vm for vm in description.vms}
    rows = read_csv(lines, name, ("at", "vm"), ("name", "lifetime", "priority", "gang"))
    patterns = {vm.name: _pattern(vm, seed) for vm in description.vms}
    return [_listed_one(name, line, row, kinds, shapes, patterns) for line, row in rows]


def _listed_one(
    name: str,
    line: int,
    row: Mapping[str, Any],
    kinds: Mapping[str, VmPart],
    shapes: Mapping[str, VmShape],
    patterns: Mapping[str, StopPattern | None],
) -> Arrival:
    def read(column: str, convert: Callable[[str], Any], missing: Any) -> Any:
        text = (row.get(column) or "").strip()
        if not text:
            return missing
        try:
            return convert(text)
        except ValueError as error:
            problem = str(error) if convert is seconds_of else f"must be a whole number, is {text[:40]!r}"
            raise BadExperiment(f"{name}:{line}: {column}: {problem}") from None

    kind = (row.get("vm") or "").strip()
    vm = kinds.get(kind)
    if vm is None:
        hint = did_you_mean(kind, kinds) or f"; the kinds are {', '.join(kinds) or 'none'}"
        raise BadExperiment(f"{name}:{line}: vm: there is no kind of VM called {kind[:40]!r}{hint}")
    at = read("at", seconds_of, None)
    if at is None:
        raise BadExperiment(f"{name}:{line}: at: is required")
    members = read("gang", int, vm.gang)
    if not 1 <= members <= 1000:
        raise BadExperiment(f"{name}:{line}: gang: must be 1 to 1000, is {members}")
    fixed = vm.lifetime if not isinstance(vm.lifetime, LifetimePart) else vm.lifetime.mean
    called, lifetime = read("name", str, f"{kind}-line-{line}"), read("lifetime", seconds_of, fixed)
    priority = read("priority", int, vm.priority)
    return Arrival(at, shapes[kind], called, lifetime, priority, members, pattern=patterns[kind])
