"""A small cluster with everything that kept devices depend on, and what may happen in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from devtools.interleavings.turbulence import TurbulenceRates, TurbulentCluster, Weather
from devtools.keeping.agents import Kubelets, OldClaimController, VirtController, after_changes
from devtools.keeping.judge import Judge
from virt_dra.api.core_v1 import Namespace, Node, Pod
from virt_dra.api.feature_gates import PLAIN
from virt_dra.api.keeping.claims import KEPT_LABEL, RELEASE_ANNOTATION, kept_claim_name
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, NODE_LOSS_ANNOTATION
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import V1_9_0, Gates
from virt_dra.api.meta import ObjectMeta, ObjectT, OwnerReference, format_time
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.names import random_suffixes
from virt_dra.cluster.port import AlreadyExists, Conflict, Forbidden, NotFound
from virt_dra.cluster.watching.event_recorder import EVENT
from virt_dra.controllers.keeping.loop import KeeperSettings, KeepingLoop
from virt_dra.controllers.keyed_loop import Ambient
from virt_dra.controllers.operator.explanation_worker import ExplanationFailed, ExplanationRequest, ExplanationResult
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.controllers.operator.pending import Sample
from virt_dra.controllers.standalone.pod import StandaloneOptions
from virt_dra.controllers.standalone.reconcile import StandaloneSettings
from virt_dra.operator.keeper_metrics import KeeperMetrics
from virt_dra.operator.metrics import OperatorMetrics
from virt_dra.scheduling.alignment import AlignmentRequest, AlignmentResult
from virt_dra.scheduling.queue import LONGEST_UNSCHEDULABLE
from virt_dra.simulator.control_plane import LOOPS, AmbientSources, LoopKind, control_plane
from virt_dra.simulator.virtual_time import virtual_now

T = TypeVar("T")

NAMESPACE: Final = "lab"
VMS: Final = ("a", "b", "c")
TERMS: Final[dict[str, dict[str, str]]] = {
    "a": {KEEP_ANNOTATION: "true"},
    "b": {KEEP_ANNOTATION: "2h", NODE_LOSS_ANNOTATION: "30m"},
    "c": {KEEP_ANNOTATION: "30m", NODE_LOSS_ANNOTATION: "never"},
}
NODES: Final[dict[str, int]] = {"n1": 2, "n2": 1}
"""Node -> its GPUs."""
DRIVER: Final = "gpu.example.com"
ONE: Final[Json] = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
OTHER: Final[Json] = {"devices": {"requests": [{"name": "other", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATES: Final = ("one-gpu", "other-gpu")
HELD: Final = (VirtualMachine, VirtualMachineInstance, ResourceClaim, ResourceClaimTemplate, Node, DeviceTaintRule)
"""Kinds whose events may be held back from the keeper."""
RATES: Final = TurbulenceRates(conflict=0.05, crash=0.06)
LOOPS_HERE: Final = tuple(
    kind for kind in LOOPS if kind.name in ("scheduler", "resource claims", "device taint eviction")
)
OLD_CLAIMS: Final = LoopKind("resource claims", OldClaimController)
RELIST: Final = 60.0
"""Seconds in which a watch that broke has caught up: an informer's longest pause, and some requests."""
TURN: Final = LONGEST_UNSCHEDULABLE + 60.0
QUOTA: Final = "exceeded quota: gpus, requested: count/resourceclaims.resource.k8s.io=1, used: 3, limited: 3"


class Observed(TurbulentCluster):
    """A component's cluster: the judge looks before and after each of its writes."""

    def __init__(self, world: World, weather: Weather) -> None:
        super().__init__(world.cluster, world.chance, weather)
        self._world = world

    async def create(self, obj: ObjectT) -> ObjectT:
        if isinstance(obj, EVENT):
            return obj  # nobody reads them here
        if self._world.quota_full and isinstance(obj, ResourceClaim):
            raise Forbidden(f'resourceclaims.resource.k8s.io "{obj.name}" is forbidden: {QUOTA}')
        return await super().create(obj)

    async def patch(self, kind: type[ObjectT], name: str, namespace: str = "", **changes: Any) -> ObjectT:
        if kind is EVENT:
            return kind()
        return await super().patch(kind, name, namespace, **changes)

    async def _written(self, perform: Callable[[], Awaitable[T]], *, conflicts: bool = True) -> T:
        async def watched() -> T:
            await self._world.judge.observe()
            try:
                return await perform()
            finally:
                await self._world.judge.observe()

        return await super()._written(watched, conflicts=conflicts)


class ForgetfulCluster(MemoryCluster):
    """A cluster whose garbage collector hasn't heard that the owners of some kept claims are gone, and never will
    (P-15). VMIs it collects: KubeVirt deletes them itself, before their VM is gone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.missed: set[str] = set()
        """UIDs of these owners."""

    def _is_there(self, owner: OwnerReference, dependent: ObjectMeta) -> bool:
        forgotten = owner.uid in self.missed and KEPT_LABEL in dependent.labels
        return forgotten or super()._is_there(owner, dependent)


class CountedReleases(KeeperMetrics):
    """``reasons``: of all releases."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def released(self, reason: str) -> None:
        super().released(reason)
        self.reasons.append(reason)


class NoExplanations:
    """An ``ExplanationWorker`` that explains nothing."""

    has_view = False

    async def load_view(self, sample: Sample) -> None:
        raise ExplanationFailed("not here")

    async def explain(self, request: ExplanationRequest) -> ExplanationResult:
        raise ExplanationFailed("not here")

    async def align(self, request: AlignmentRequest) -> AlignmentResult:
        raise ExplanationFailed("not here")

    async def close(self) -> None:
        """Nothing."""


class World:
    """Run it with ``async with world.running()``. ``standalone``: VMs are the operator's, instead of KubeVirt's.
    ``old``: the claim controller is that of Kubernetes 1.35.

    ``seed``: what happens by chance: how long requests take, and what turbulence there is.
    """

    def __init__(self, seed: int, *, standalone: bool, old: bool) -> None:
        self.chance, self.standalone, self._old = Random(seed), standalone, old
        self.quota_full = False
        self._offset = timedelta()
        uids = count(1)
        self.cluster = ForgetfulCluster(
            self.now, random_suffixes(self.chance), lambda: f"00000000-0000-4000-8000-{next(uids):012x}",
            graceful_deletion=True,
        )  # fmt: skip
        self._others = Weather(TurbulenceRates(longest_delay=0.1))
        self._weather = Weather(RATES)
        self._keeper_may_run = asyncio.Event()
        self._keeper_stops = asyncio.Event()
        self._rough_since: float | None = None
        self._behind_since = 0.0
        self.metrics = CountedReleases()
        self.judge = Judge(self.cluster, self.now, self.elapsed, lambda: self._behind_since)

    def now(self) -> datetime:
        return virtual_now() + self._offset

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    # --- who works here -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        for obj in _given():
            await self.cluster.create(obj)
        calm = Weather(TurbulenceRates(longest_delay=0.05))
        async with AsyncExitStack() as stack:
            group = await stack.enter_async_context(asyncio.TaskGroup())
            kubelets = Kubelets(Observed(self, calm))
            loops = [OLD_CLAIMS if self._old and kind.name == OLD_CLAIMS.name else kind for kind in LOOPS_HERE]
            workers: list[Coroutine[Any, Any, None]] = [
                after_changes(self.cluster, Kubelets.KINDS, kubelets.work, self.chance),
                *(self._controllers(kind) for kind in loops),
                self._kept_running(self._keeper),
                self._node_lifecycle(),
            ]
            if self.standalone:
                workers.append(self._kept_running(self._operator))
            else:
                controller = VirtController(Observed(self, calm), NAMESPACE)
                workers.append(after_changes(self.cluster, VirtController.KINDS, controller.work, self.chance))
            tasks = [group.create_task(worker) for worker in workers]
            self._keeper_may_run.set()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _controllers(self, kind: LoopKind) -> None:
        names = count(1)
        sources = AmbientSources(self.now, lambda: f"{kind.name.replace(' ', '-')}-{next(names)}", self.chance.random)
        while True:
            cluster = Observed(self, self._others)
            async with control_plane(cluster, sources, gates=PLAIN, loops=(kind,)):
                await cluster.crashed.wait()
            await asyncio.sleep(self.chance.random())

    async def _kept_running(self, component: Callable[[Observed], Any]) -> None:
        """A process of ours, started anew whenever it crashes; the keeper may also be stopped for longer."""
        keeper = component == self._keeper
        while True:
            if keeper:
                await self._keeper_may_run.wait()
                self._keeper_stops.clear()
            cluster = Observed(self, self._weather if keeper else self._others)
            loop = component(cluster)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(loop.run_informers()), group.create_task(loop.run_workers())]
                stops = [asyncio.create_task(cluster.crashed.wait())]
                if keeper:
                    stops.append(asyncio.create_task(self._keeper_stops.wait()))
                try:
                    await asyncio.wait(stops, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in (*tasks, *stops):
                        task.cancel()
            await asyncio.sleep(self.chance.random())

    def _ambient(self) -> Ambient:
        names = count(1)
        return Ambient(self.now, self.elapsed, self.chance.random, lambda: f"{self.elapsed()}-{next(names)}")

    def _keeper(self, cluster: Observed) -> KeepingLoop:
        settings = KeeperSettings(removes_ended_pods=self._old)
        return KeepingLoop(cluster, settings, self._ambient(), self.metrics)

    def _operator(self, cluster: Observed) -> InstanceLoop:
        own = StandaloneSettings(Gates.for_version(V1_9_0), StandaloneOptions("launcher"))
        settings = LoopSettings(standalone=own)
        return InstanceLoop(cluster, settings, self._ambient(), OperatorMetrics(), NoExplanations())

    async def _node_lifecycle(self) -> None:
        """Evicts the pods of nodes that are down, as a pod that tolerates that for five minutes is evicted."""

        async def work() -> None:
            down = {node.name for node in (await self.cluster.list(Node)).items if node.spec.taints}
            for pod in (await self.cluster.list(Pod)).items:
                if pod.spec.node_name in down and pod.metadata.deletion_timestamp is None:
                    await self.cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)

        await after_changes(self.cluster, (Node, Pod), work, self.chance)

    # --- what happens -------------------------------------------------------------------------------------------------

    async def _get(self, kind: type[ObjectT], name: str, namespace: str = NAMESPACE) -> ObjectT | None:
        try:
            return await self.cluster.get(kind, name, namespace)
        except NotFound:
            return None

    async def _do(self, action: Awaitable[Any]) -> None:
        """A user's or node's write; an object that isn't there, or is there already, is left."""
        await self.judge.observe()
        with contextlib.suppress(NotFound, AlreadyExists, Conflict):
            await action
        await self.judge.observe()

    async def create(self, name: str, *, keeps: bool, own: bool, starts: bool) -> None:
        """``own``: the annotations are the VM's own, which count standalone only, instead of its template's."""
        asked = TERMS[name] if keeps else {}
        entry = {"name": "gpu", "resourceClaimTemplateName": TEMPLATES[0]}
        device = {"name": "gpu", "claimName": "gpu", "requestName": "r"}
        domain: Json = {"devices": {"gpus": [device]}, "resources": {"requests": {"memory": "1Gi"}}}
        places: tuple[Json, Json] = (asked, {}) if own else ({}, asked)
        wire: Json = {
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": places[0]},
            "spec": {
                "runStrategy": "Always" if starts else "Halted",
                "template": {
                    "metadata": {"annotations": places[1]}, "spec": {"domain": domain, "resourceClaims": [entry]},
                },
            },
        }  # fmt: skip
        await self._do(self.cluster.create(VirtualMachine.from_wire(wire)))

    async def replace_unseen(self, name: str, *, keeps: bool, own: bool, starts: bool) -> None:
        """A VM is deleted and made again while the garbage collector has no watch."""
        vm = await self._get(VirtualMachine, name)
        if vm is None:
            return
        self.cluster.missed.add(vm.metadata.uid)
        await self.delete(VirtualMachine, name)
        while await self._get(VirtualMachine, name) is not None and not self.judge.problems:
            await self._pass(0.5)
        await self.create(name, keeps=keeps, own=own, starts=starts)

    async def _patch_vm(self, name: str, spec: Json) -> None:
        await self._do(self.cluster.patch(VirtualMachine, name, NAMESPACE, merge={"spec": spec}))

    async def start(self, name: str, *, runs: bool) -> None:
        await self._patch_vm(name, {"runStrategy": "Always" if runs else "Halted"})

    async def annotate(self, name: str, value: str | None) -> None:
        """``value``: of the VM's annotation in its template; None takes it away wherever it is."""
        annotations = {"annotations": {KEEP_ANNOTATION: value}}
        await self._patch_vm(name, {"template": {"metadata": annotations}})
        if value is None:
            await self._do(self.cluster.patch(VirtualMachine, name, NAMESPACE, merge={"metadata": annotations}))

    async def use_template(self, name: str, template: str) -> None:
        """``template`` "": the VM has no devices any more."""
        entries = [{"name": "gpu", "resourceClaimTemplateName": template}] if template else []
        devices = {"gpus": [{"name": "gpu", "claimName": "gpu", "requestName": "r"}] if template else []}
        await self._patch_vm(name, {"template": {"spec": {"resourceClaims": entries, "domain": {"devices": devices}}}})

    async def replace_template(self, name: str, *, other: bool) -> None:
        await self._do(self.cluster.delete(ResourceClaimTemplate, name, NAMESPACE))
        await self._do(self.cluster.create(_template(name, OTHER if other else ONE)))

    async def delete(self, kind: type[Any], name: str) -> None:
        await self._do(self.cluster.delete(kind, name, NAMESPACE))

    async def delete_pod(self, name: str) -> None:
        for pod in (await self.cluster.list(Pod, NAMESPACE)).items:
            if any(owner.name == name for owner in pod.metadata.owner_references):
                await self.delete(Pod, pod.name)

    async def ask_release(self, name: str) -> None:
        """As ``virt-dra release vm`` does."""
        merge: Json = {"metadata": {"annotations": {RELEASE_ANNOTATION: format_time(self.now())}}}
        await self._do(self.cluster.patch(ResourceClaim, kept_claim_name(name, "gpu"), NAMESPACE, merge=merge))

    async def touch(self, name: str) -> None:
        """Somebody writes a claim for reasons of his own."""
        merge: Json = {"metadata": {"annotations": {"example.com/seen": str(self.chance.random())}}}
        await self._do(self.cluster.patch(ResourceClaim, kept_claim_name(name, "gpu"), NAMESPACE, merge=merge))

    async def cordon(self, node: str, *, cordoned: bool) -> None:
        await self._do(self.cluster.patch(Node, node, merge={"spec": {"unschedulable": cordoned or None}}))

    async def down(self, node: str, *, is_down: bool) -> None:
        taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
        await self._do(self.cluster.patch(Node, node, merge={"spec": {"taints": [taint] if is_down else None}}))

    async def remove_node(self, node: str) -> None:
        await self._do(self.cluster.delete(Node, node))

    async def add_node(self, node: str) -> None:
        await self._do(self.cluster.create(_node(node)))

    async def taint(self, pool: str, *, tainted: bool) -> None:
        if tainted:
            wire = {
                "metadata": {"name": pool},
                "spec": {"deviceSelector": {"driver": DRIVER, "pool": pool},
                         "taint": {"key": "example.com/broken", "effect": "NoExecute"}},
            }  # fmt: skip
            rule = DeviceTaintRule.from_wire(wire)
            taint = rule.spec.taint.with_(time_added=format_time(self.now()))
            await self._do(self.cluster.create(rule.with_(spec=rule.spec.with_(taint=taint))))
        else:
            await self._do(self.cluster.delete(DeviceTaintRule, pool))

    async def thieves(self, number: int) -> None:
        """So many pods always want a device."""
        for index in range(3):
            if index < number:
                await self._do(self.cluster.create(_thief(index)))
            else:
                await self.delete(Pod, f"thief-{index}")

    def disturb(self, *, rough: bool) -> None:
        """The keeper's requests and watches fail now and then, and it crashes; the other controllers' do, too."""
        self._weather.rough = self._others.rough = rough

    def stop_keeper(self) -> None:
        self._keeper_may_run.clear()
        self._keeper_stops.set()

    def start_keeper(self) -> None:
        self._keeper_may_run.set()

    def hold(self, kind: type[Any]) -> None:
        """The keeper hears nothing more of a kind."""
        self._weather.held.setdefault(kind.KIND, asyncio.Event())

    def let_go(self) -> None:
        for gate in self._weather.held.values():
            gate.set()
        self._weather.held.clear()

    def set_clock(self, by: timedelta) -> None:
        self._offset += by
        self.judge.jumped()

    async def wait(self, seconds: float) -> None:
        if not self._weather.rough and not self._weather.held and self._keeper_may_run.is_set():
            self._behind_since = max(self._behind_since, self.elapsed() - RELIST)
        await self._pass(seconds)
        await self.judge.observe()

    async def _pass(self, seconds: float) -> None:
        """Time passes until a promise is broken."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.judge.broken.wait(), seconds)

    async def calm(self, *, end: bool = False) -> None:
        """Nothing disturbs anybody, until nothing changes any more; then everything must be as it should."""
        self.disturb(rough=False)
        self.let_go()
        self.start_keeper()
        self.quota_full = False
        for _ in range(20):
            before = self.cluster.resource_version
            await self._pass(TURN)
            if self.judge.problems:
                return
            if self.cluster.resource_version == before:
                break
        self._behind_since = self.elapsed() - RELIST
        await self.judge.settled(end=end)

    async def end(self) -> None:
        """Nobody is left, nor is a claim."""
        await self.calm()
        for node in NODES:
            await self.add_node(node)
            await self.down(node, is_down=False)
        await self.thieves(0)
        for name in VMS:
            await self.delete(VirtualMachine, name)
        await self.calm(end=True)


def _given() -> list[Any]:
    slices = [
        ResourceSlice.from_wire({
            "metadata": {"name": name},
            "spec": {
                "driver": DRIVER, "nodeName": name, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{index}"} for index in range(gpus)],
            },
        })
        for name, gpus in NODES.items()
    ]  # fmt: skip
    return [
        Namespace.from_wire({"metadata": {"name": NAMESPACE}}),
        DeviceClass.from_wire({"metadata": {"name": "gpu"}}),
        *map(_node, NODES),
        *slices,
        *(_template(name, ONE) for name in (*TEMPLATES, "thief")),
    ]


def _node(name: str) -> Node:
    room = {"cpu": "64", "memory": "64Gi", "pods": "110", "devices.kubevirt.io/kvm": "1k"}
    return Node.from_wire({"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}})


def _template(name: str, spec: Json) -> ResourceClaimTemplate:
    return ResourceClaimTemplate.from_wire({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"spec": spec}})


def _thief(index: int) -> Pod:
    uses = [{"name": "gpu"}]
    return Pod.from_wire({
        "metadata": {"name": f"thief-{index}", "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "c", "image": "thief", "resources": {"claims": uses}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "thief"}],
        },
    })  # fmt: skip
