"""What would happen on a cluster of which there is a dump: nodes cordoned, drained or gone, VMs added or ended, drivers
and devices gone, one change after the other. Pods that lose their place are placed again by the policy, in order of
priority, then age."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from virt_dra.allocator import FatalError, Features
from virt_dra.api.core_v1 import Node
from virt_dra.api.counting import counted, listed
from virt_dra.api.meta import TypedObject
from virt_dra.api.nearest import did_you_mean, nearest
from virt_dra.api.resource_v1 import AllocationResult, ResourceSlice
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.stand_ins import labelled
from virt_dra.model.unknown import UnknownFact
from virt_dra.scheduling.pod_requests import unknown_to
from virt_dra.scheduling.policies.placer import PlacedVm, VmShape
from virt_dra.simulator.experiment.added_nodes import NodeFile, copies_of_node
from virt_dra.simulator.experiment.dump import DumpedCluster, Shapes
from virt_dra.simulator.experiment.errors import BadExperiment
from virt_dra.simulator.experiment.placed_cluster import PlacedCluster

FORMS: Final = (
    "cordon NODE[,NODE...]", "drain NODE[,NODE...]", "node NODE gone", "driver DRIVER gone",
    "device DRIVER/POOL/DEVICE gone", "delete [NAMESPACE/]POD", "add FILE [x NUMBER]",
)  # fmt: skip
MOST_ADDED: Final = 100_000


@dataclass(frozen=True)
class ClusterChange:
    """One change: a verb and what it is about. ``number``: of VMs that are added."""

    text: str
    verb: str
    subjects: tuple[str, ...]
    number: int = 1


NO_CHANGE: Final = ClusterChange("no change", "", ())
"""Nothing but that pods which wait are tried."""


@dataclass
class ChangeOutcome:
    """What a change does. Names of pods as ``namespace/name``, new ones with a number."""

    text: str
    evicted: list[str] = field(default_factory=list)
    """Pods that lose their node or their devices."""
    moved: list[tuple[str, str]] = field(default_factory=list)
    """Of these, those that run elsewhere, and on which node."""
    started: list[tuple[str, str]] = field(default_factory=list)
    """Pods that waited, or are new, and run now."""
    refused: list[str] = field(default_factory=list)
    """New pods that fit nowhere; evicted ones that do are those that are not among ``moved``."""
    why: str = ""
    """Why the first of the pods that newly wait fits nowhere: kube-scheduler's histogram over the nodes."""
    used: float = 0.0
    """The part of the devices in use afterwards."""
    waiting: int = 0
    """Pods that wait afterwards."""


def parse_change(text: str) -> ClusterChange:
    """The change that a text asks for. Raises BadExperiment for a text in none of the FORMS."""
    words = text.split()
    match words:
        case ["cordon" | "drain" as verb, *names] if names:
            return ClusterChange(text, verb, tuple(name for word in names for name in word.split(",") if name))
        case ["node" | "driver" | "device" as verb, name, "gone"]:
            return ClusterChange(text, verb, (name,))
        case ["delete", name]:
            return ClusterChange(text, "delete", (name,))
        case ["add", file]:
            return ClusterChange(text, "add", (file,))
        case ["add", file, count] if re.fullmatch(r"x\d{1,9}", count):
            return _added(text, file, count[1:])
        case ["add", file, "x", count] if count.isdecimal():
            return _added(text, file, count)
    raise BadExperiment(f"{text!r} is no change; write one of: {'; '.join(FORMS)}")


def _added(text: str, file: str, count: str) -> ClusterChange:
    number = int(count)
    if not 1 <= number <= MOST_ADDED:
        raise BadExperiment(f"{text!r}: adds 1 to {MOST_ADDED} VMs or nodes")
    return ClusterChange(text, "add", (file,), number)


@dataclass(eq=False)
class _Vm:
    """A pod of the cluster, or an added one. ``allocated``: while it waits with devices, its shape that keeps them."""

    name: str
    shape: VmShape
    priority: int
    placed: PlacedVm | None = None
    allocated: VmShape | None = None


class Prospect:
    """The cluster, as changes leave it."""

    def __init__(self, cluster: DumpedCluster, policy: str, *, features: Features, seed: int = 0) -> None:
        """Raises FatalError for slices that can't be read."""
        self._policy, self._draw, self._features = policy, Random(seed).random, features
        self._nodes = cluster.model.of(Node)
        self._vms: list[_Vm] = []
        self._shapes: Counter[VmShape] = Counter()
        self._closed: set[str] = set()
        self._added = 0
        self._tried: set[VmShape] = set()
        self.unknown_nodes = 0
        """Pods on nodes that the dump doesn't have; they are left out."""
        shapes, numbers = Shapes(), self._numbers
        followed: list[TypedObject] = []
        for pod in cluster.pods:
            if pod.claims is None:
                continue
            shape = shapes.of(pod.pod, pod.claims, pod.shared)
            self._shapes[shape] += 1
            if pod.node is not None and pod.node not in numbers:
                self.unknown_nodes += 1
                continue
            vm = _Vm(pod.pod.key, shape, pod.pod.priority)
            allocations = [claim.status.allocation for claim in pod.claims]
            results = tuple(allocation for allocation in allocations if allocation is not None)
            if pod.node is not None:
                vm.placed = PlacedVm(shape, numbers[pod.node], results)
            elif results:
                without = [claim for claim, has in zip(shape.claims, allocations, strict=True) if has is None]
                vm.allocated = replace(shape, claims=tuple(without), allocated=results)
            self._vms.append(vm)
            followed += [pod.pod, *pod.claims]
        self._go_on_with(cluster.model.changed(removed=followed))

    def _go_on_with(self, model: ClusterModel) -> None:
        """Another cluster, in which the VMs keep places and devices; ``model`` has neither their pods nor claims."""
        before, self._nodes = self._nodes, model.of(Node)
        self._model = model
        self._cluster = PlacedCluster(model, self._nodes, self._shapes, self._policy, self._draw, self._features)
        self._placer = self._cluster.placer
        numbers = self._numbers
        for name in self._closed & numbers.keys():
            self._placer.set_open(numbers[name], open=False)
        for vm in self._vms:
            if vm.placed is not None:
                vm.placed = replace(vm.placed, node=numbers[before[vm.placed.node].name])
                self._placer.take(vm.placed)
            elif vm.allocated is not None:
                self._placer.use_devices(vm.allocated.allocated, 1)

    @property
    def _numbers(self) -> dict[str, int]:
        return {node.name: number for number, node in enumerate(self._nodes)}

    @property
    def unknown(self) -> tuple[UnknownFact, ...]:
        """What the answers to the changes couldn't take into account."""
        return unknown_to([shape.pod for shape in self._tried], self._model) if self._tried else ()

    @property
    def waiting(self) -> list[str]:
        return [vm.name for vm in self._vms if vm.placed is None]

    @property
    def running(self) -> int:
        return sum(vm.placed is not None for vm in self._vms)

    @property
    def used(self) -> float:
        self._cluster.meter.update(range(len(self._nodes)))
        return self._cluster.meter.used

    def why(self, name: str) -> str:
        """Why a waiting pod fits nowhere: kube-scheduler's histogram, else what is wrong with its claims."""
        return self._why(next(vm for vm in self._vms if vm.name == name))

    def _why(self, vm: _Vm) -> str:
        try:
            return self._placer.why(vm.shape).message
        except FatalError as error:
            return str(error)

    def apply(self, change: ClusterChange, added: VmShape | NodeFile | None = None) -> ChangeOutcome:
        """The effects of a change. ``added``: VMs or nodes of an ``add``. Raises BadExperiment for what isn't there."""
        outcome = ChangeOutcome(change.text)
        waited = {id(vm) for vm in self._vms if vm.placed is None}
        new: set[int] = set()
        match change.verb:
            case _ if change is NO_CHANGE:
                pass
            case "cordon" | "drain":
                self._close([self._number(name) for name in change.subjects], outcome, evict=change.verb == "drain")
            case "node":
                self._remove_node(self._number(change.subjects[0]), outcome)
            case "driver" | "device":
                self._remove_devices(change, outcome)
            case "delete":
                self._delete(change.subjects[0])
            case "add" if isinstance(added, NodeFile):
                taken = {node.name for node in self._nodes}
                copies = copies_of_node(added.objects, change.number, taken, added.name)
                self._go_on_with(self._model.changed(labelled(obj) if isinstance(obj, Node) else obj for obj in copies))
            case "add" if isinstance(added, VmShape):
                new = {id(vm) for vm in self._add(added, change.number)}
        for vm in sorted((vm for vm in self._vms if vm.placed is None), key=lambda vm: -vm.priority):
            self._tried.add(vm.shape)
            if self._place(vm):
                where = (vm.name, self._node_of(vm))
                (outcome.started if id(vm) in waited or id(vm) in new else outcome.moved).append(where)
                continue
            if id(vm) in new:
                outcome.refused.append(vm.name)
            if id(vm) not in waited and not outcome.why:
                outcome.why = f"{vm.name}: {self._why(vm)}"
        outcome.used, outcome.waiting = self.used, len(self.waiting)
        return outcome

    def _place(self, vm: _Vm) -> bool:
        """Whether it has a place now. Devices that it can't use are given back, as kube-scheduler does."""
        if vm.allocated is not None:
            vm.placed = self._placed(vm, vm.allocated)
            if vm.placed is None:
                self._deallocate(vm)
            vm.allocated = None
        if vm.placed is None:
            vm.placed = self._placed(vm, vm.shape)
        return vm.placed is not None

    def _placed(self, vm: _Vm, shape: VmShape) -> PlacedVm | None:
        try:
            return self._placer.place(shape, vm.name)
        except FatalError:  # of this VM's claims; others are placed
            return None

    def _deallocate(self, vm: _Vm) -> None:
        if vm.allocated is not None:
            self._placer.use_devices(vm.allocated.allocated, -1)
            vm.allocated = None

    def _node_of(self, vm: _Vm) -> str:
        assert vm.placed is not None
        return self._nodes[vm.placed.node].name

    # --- changes ----------------------------------------------------------------------------------------------------

    def _close(self, numbers: Sequence[int], outcome: ChangeOutcome, *, evict: bool) -> None:
        for number in numbers:
            self._closed.add(self._nodes[number].name)
            self._placer.set_open(number, open=False)
        if evict:
            self._evict(lambda vm: vm.placed is not None and vm.placed.node in numbers, outcome)

    def _remove_node(self, number: int, outcome: ChangeOutcome) -> None:
        self._evict(lambda vm: vm.placed is not None and vm.placed.node == number, outcome)
        self._go_on_with(self._model.changed(removed=[self._nodes[number]]))

    def _remove_devices(self, change: ClusterChange, outcome: ChangeOutcome) -> None:
        """Slices without the devices. VMs that have them go on in reality; here they lose their place."""
        slices = self._model.of(ResourceSlice)
        driver, _, rest = change.subjects[0].partition("/")
        pool, _, device = rest.rpartition("/")
        concerned = {
            (slice_.spec.driver, slice_.spec.pool.name, published.name)
            for slice_ in slices
            for published in slice_.spec.devices
            if slice_.spec.driver == driver
            and (change.verb == "driver" or (slice_.spec.pool.name, published.name) == (pool, device))
        }
        if not concerned:
            drivers = sorted({slice_.spec.driver for slice_ in slices})
            meant = nearest(driver, drivers)
            hint = (
                f"; did you mean {meant}?"
                if meant is not None and meant != driver
                else f"; the drivers are {', '.join(drivers) or 'none'}"
            )
            raise BadExperiment(f"{change.text!r}: no such {'devices' if change.verb == 'driver' else 'device'}{hint}")

        def has_one(allocations: Iterable[AllocationResult]) -> bool:
            devices = (device for allocation in allocations for device in allocation.devices.results)
            return any((device.driver, device.pool, device.device) in concerned for device in devices)

        self._evict(lambda vm: vm.placed is not None and has_one(vm.placed.results), outcome)
        for vm in self._vms:
            if vm.allocated is not None and has_one(vm.allocated.allocated):
                self._deallocate(vm)
        self._go_on_with(self._model.changed(_without(slice_, concerned) for slice_ in slices))

    def _delete(self, name: str) -> None:
        names = {vm.name: vm for vm in self._vms}
        vm = names.get(name) or names.get(f"default/{name}")
        if vm is None:
            raise BadExperiment(f"delete {name}: there is no such pod{did_you_mean(name, names)}")
        if vm.placed is not None:
            self._placer.release(vm.placed)
        self._deallocate(vm)
        self._vms.remove(vm)

    def _add(self, shape: VmShape, number: int) -> list[_Vm]:
        new = [_Vm(f"{shape.name}-{self._added + i}", shape, shape.pod.priority) for i in range(1, number + 1)]
        self._added += number
        self._vms += new
        return new

    def _evict(self, concerns: Callable[[_Vm], bool], outcome: ChangeOutcome) -> None:
        for vm in self._vms:
            if vm.placed is not None and concerns(vm):
                self._placer.release(vm.placed)
                vm.placed = None
                outcome.evicted.append(vm.name)

    def _number(self, name: str) -> int:
        numbers = self._numbers
        if name not in numbers:
            raise BadExperiment(f"there is no node {name}{did_you_mean(name, numbers)}")
        return numbers[name]


def _without(slice_: ResourceSlice, concerned: set[tuple[str, str, str]]) -> ResourceSlice:
    spec = slice_.spec
    kept = tuple(device for device in spec.devices if (spec.driver, spec.pool.name, device.name) not in concerned)
    return slice_ if len(kept) == len(spec.devices) else slice_.with_(spec=spec.with_(devices=kept))


def sentences(outcome: ChangeOutcome) -> list[str]:
    """What a change does, for people."""

    def names_of(placed: Sequence[tuple[str, str]]) -> str:
        return listed([f"{name} on {node}" for name, node in placed], 10)

    lines: list[str] = []
    if outcome.evicted:
        elsewhere = dict(outcome.moved)
        stuck = [name for name in outcome.evicted if name not in elsewhere]
        lines.append(f"{counted(len(outcome.evicted), 'pod')} evicted: {listed(outcome.evicted, 10)}")
        if outcome.moved:
            lines.append(f"{counted(len(outcome.moved), 'pod')} of them elsewhere: {names_of(outcome.moved)}")
        if stuck:
            lines.append(f"{counted(len(stuck), 'pod')} of them nowhere: {listed(stuck, 10)}")
    if outcome.started:
        lines.append(f"{counted(len(outcome.started), 'pod')} started: {names_of(outcome.started)}")
    if outcome.refused:
        lines.append(f"{counted(len(outcome.refused), 'new pod')} without a place: {listed(outcome.refused, 10)}")
    if outcome.why:
        lines.append(outcome.why)
    return lines or ["nothing changes for any pod"]
