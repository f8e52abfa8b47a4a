"""A cluster in memory beside KubeVirt, with our pod webhook and operator, in which a VM's objects come in any order, in
virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from devtools.agents.embedded_loops import embedded_loops
from devtools.agents.kubevirt import FakeKubeVirt
from devtools.agents.kubevirt_admission import KubeVirtAdmission
from devtools.agents.kubevirt_webhooks import EmbeddedBesideKubeVirt
from tests.controllers.operator.ambient import ambient
from tests.controllers.operator.inline_explanations import InlineExplanations
from tests.controllers.operator.test_instance_loop import Recorded
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.integration.paths import POD_WEBHOOK
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import GPUS_WITH_DRA, Gates, KubeVirtVersion
from virt_dra.api.meta import Condition, ObjectMeta, ObjectT
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices, VirtualMachineInstanceDevicesStatus
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.patches import patched
from virt_dra.cluster.port import Invalid, Listed, StatusCause, Unavailable, WatchEvent
from virt_dra.controllers.operator.instance_loop import InstanceLoop, LoopSettings
from virt_dra.live.world import LiveSettings, LiveWorld
from virt_dra.simulator.agents.background import background
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import HardwarePool, pci_devices
from virt_dra.simulator.agents.kubelet import Kubelet
from virt_dra.simulator.virtual_time import virtual_clock, virtual_now
from webhooks.knowledge import LauncherSettings
from webhooks.launcher_pod.mutation import mutate

Step = Literal["vm", "source", "class", "slice", "driver"]
STEPS: Final[tuple[Step, ...]] = ("vm", "source", "class", "slice", "driver")
Origin = Literal["template", "claim"]
NODE: Final = "node-1"
NAMED: Final = 'device.driver == "{driver}"'
LOOSE: Final = 'device.attributes[device.driver].?model.orValue("") == "{model}"'
"""Selectors of a class that say which driver it is for, and that don't."""
LAG: Final = 0.4
"""Seconds after which the slower of two webhook replicas hears of a change."""


@dataclass(frozen=True)
class Plan:
    """One VM with a driver of its own. ``writes``: whether that writes metadata files. ``moments``: at which second
    each object comes. ``strategy``: of a VM; None for a VMI alone."""

    name: str
    writes: bool
    source: Origin
    selector: str
    moments: dict[Step, float]
    strategy: str | None = None

    @property
    def driver(self) -> str:
        return f"{self.name}.example.com"

    @property
    def model(self) -> str:
        return f"model-{self.name}"


@dataclass
class Outcome:
    """``ready_at``: when the last object was there; ``running_at``: when the guest ran, if it did. ``tries``: to create
    its pod."""

    plan: Plan
    ready_at: float
    running_at: float | None
    pods: int
    path: str | None
    ready: str | None
    resolved: Condition
    tries: int


class Lagging:
    """A source of informers that hear of changes ``seconds`` later."""

    def __init__(self, cluster: MemoryCluster, seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._cluster.get(kind, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        return await self._cluster.list(kind, namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        watched = self._cluster.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)
        loop, events = asyncio.get_running_loop(), asyncio.Queue[tuple[float, WatchEvent[ObjectT]]]()

        async def read() -> None:
            async for event in watched:
                events.put_nowait((loop.time() + self._seconds, event))

        async with background(read()):
            while True:
                at, event = await events.get()
                await asyncio.sleep(at - loop.time())
                yield event


class WithPodWebhook(EmbeddedBesideKubeVirt):
    """KubeVirt's own view of the cluster: its launcher pods go through replicas of our webhook, by turns."""

    replicas: tuple[LiveWorld, ...] = ()
    turns = count()
    answers = True

    async def create(self, obj: Any) -> Any:
        if not isinstance(obj, Pod) or not obj.spec.resource_claims:
            return await super().create(obj)
        knowledge = self.replicas[next(self.turns) % len(self.replicas)].knowledge()
        if knowledge is None or not self.answers:
            raise Unavailable(f'Internal error occurred: failed calling webhook "{POD_WEBHOOK}": connection refused')
        raw = obj.to_wire()
        verdict = mutate(raw, obj.namespace, knowledge)
        if not verdict.allowed:
            causes = tuple(StatusCause(cause.field, cause.type, cause.message) for cause in verdict.causes)
            raise Invalid(f'admission webhook "{POD_WEBHOOK}" denied the request: {verdict.message}', causes)
        changed: Any = patched(raw, verdict.patch)
        return await super().create(Pod.from_wire(changed))


@dataclass
class Site:
    """``cluster``: as an administrator sees it; ``own``: as KubeVirt does."""

    memory: MemoryCluster
    cluster: EmbeddedBesideKubeVirt
    own: WithPodWebhook
    kubevirt: FakeKubeVirt
    drivers: dict[str, Driver]
    plans: dict[str, Plan] = field(default_factory=dict)

    async def do(self, plan: Plan, step: Step) -> None:
        name = plan.name
        if step == "vm":
            source = {"resourceClaimTemplateName" if plan.source == "template" else "resourceClaimName": name}
            gpu = {"name": "gpu", "claimName": "gpu", "requestName": "gpu"}
            spec = {"resourceClaims": [{"name": "gpu", **source}], "domain": {"devices": {"gpus": [gpu]}}}
            if plan.strategy is None:
                await self.cluster.create(VirtualMachineInstance.from_wire({"metadata": _metadata(name), "spec": spec}))
            else:
                of_vm = {"runStrategy": plan.strategy, "template": {"spec": spec}}
                await self.cluster.create(VirtualMachine.from_wire({"metadata": _metadata(name), "spec": of_vm}))
        elif step == "source":
            # What tells the devices of one VM's class from another's stands here, too, so that each gets its own.
            selector = {"cel": {"expression": f'device.attributes[device.driver].?model.orValue("") == "{plan.model}"'}}
            request = {"name": "gpu", "exactly": {"deviceClassName": f"class-{name}", "selectors": [selector]}}
            wanted: Json = {"devices": {"requests": [request]}}
            if plan.source == "template":
                await self.cluster.create(
                    ResourceClaimTemplate.from_wire({"metadata": _metadata(name), "spec": {"spec": wanted}})
                )
            else:
                await self.cluster.create(ResourceClaim.from_wire({"metadata": _metadata(name), "spec": wanted}))
        elif step == "class":
            expression = plan.selector.format(driver=plan.driver, model=plan.model)
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            await self.cluster.create(DeviceClass.from_wire({"metadata": {"name": f"class-{name}"}, "spec": spec}))
        elif step == "slice":
            await self.drivers[name].publish()
        else:
            self.drivers[name].registered = True

    async def outcome(self, plan: Plan, patience: float) -> Outcome:
        """Does each step at its moment, and waits until the guest runs, for ``patience`` seconds at most."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for step, moment in sorted(plan.moments.items(), key=lambda item: item[1]):
            await asyncio.sleep(began + moment - loop.time())
            await self.do(plan, step)
        ready_at, running_at = loop.time() - began, None
        while loop.time() - began < ready_at + patience and running_at is None:
            await asyncio.sleep(0.05)
            vmis = (await self.memory.list(VirtualMachineInstance, "test")).items
            running = any(vmi.name == plan.name and vmi.status.phase == "Running" for vmi in vmis)
            running_at = loop.time() - began if running else None
        await asyncio.sleep(1.0)
        pods = [
            pod
            for pod in (await self.memory.list(Pod, "test")).items
            if pod.metadata.owner_references[0].name == plan.name
        ]
        published = (await self.memory.list(VirtualMachineInstanceDevices, "test")).items
        status = next(
            (devices.status for devices in published if devices.name == plan.name),
            VirtualMachineInstanceDevicesStatus(),
        )
        condition = next(
            (condition for condition in status.conditions if condition.type == "DevicesResolved"), Condition()
        )
        tries = self.kubevirt.creations.get(("test", plan.name), 0)
        return Outcome(plan, ready_at, running_at, len(pods), status.integration_paths, status.ready, condition, tries)


def _metadata(name: str) -> Json:
    return {"name": name, "namespace": "test"}


@asynccontextmanager
async def site(
    folder: Path, plans: list[Plan], *, version: str = "1.9.0", driver_wait: float = 120.0, operator: bool = True
) -> AsyncIterator[Site]:
    """The cluster with a driver for each plan's VM, which hasn't published anything and isn't registered yet."""
    gates = Gates.for_version(KubeVirtVersion.parse(version), {GPUS_WITH_DRA: True})
    numbers = count()
    memory = MemoryCluster(virtual_now, lambda: f"{next(numbers):05d}", lambda: f"uid-{next(numbers)}")
    await memory.create(Namespace(metadata=ObjectMeta(name="test")))
    # No other namespace than KubeVirt's own is needed for its object, which says which release it is.
    await memory.create(KubeVirt.from_wire({
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
        "spec": {"configuration": {"developerConfiguration": {"featureGates": sorted(gates.on)}}},
        "status": {"phase": "Deployed", "observedKubeVirtVersion": f"v{version}"},
    }))  # fmt: skip
    admission = KubeVirtAdmission(gates)
    cluster = EmbeddedBesideKubeVirt(memory, admission, clock=virtual_now)
    own = WithPodWebhook(memory, admission, admission.account(), clock=virtual_now)
    drivers: dict[str, Driver] = {}
    for number, plan in enumerate(plans):
        devices = pci_devices(1, bus=number + 1, model=plan.model)
        drivers[plan.name] = Driver(
            cluster, (HardwarePool(plan.driver, NODE, devices, node=NODE),), metadata=plan.writes
        )
        drivers[plan.name].registered = False
    kubelet = Kubelet(cluster, (NODE,), drivers.values(), folder, clock=virtual_now)
    kubevirt = FakeKubeVirt(own, kubelet, gates, clock=virtual_now)
    writers = ",".join(plan.driver for plan in plans if plan.writes)
    annotations = {"virt-dra.io/writes-metadata": writers}
    await memory.create(DeviceClass.from_wire({"metadata": {"name": "writers", "annotations": annotations}}))
    settings = LiveSettings(launcher=LauncherSettings(driver_wait=timedelta(seconds=driver_wait)))
    async with AsyncExitStack() as stack:
        for live in (
            LiveWorld(memory, settings, clock=virtual_clock()),
            LiveWorld(Lagging(memory, LAG), settings, clock=virtual_clock()),
        ):
            await stack.enter_async_context(live.following())
            own.replicas = (*own.replicas, live)
        await kubelet.register()
        loop = InstanceLoop(
            cluster,
            LoopSettings(),
            ambient(virtual_now),
            Recorded(),
            InlineExplanations(),
        )
        await stack.enter_async_context(embedded_loops(cluster, virtual_now))
        await stack.enter_async_context(kubelet.running())
        await stack.enter_async_context(kubevirt.running())
        if operator:
            await stack.enter_async_context(background(loop.run_informers(), loop.run_workers()))
        yield Site(memory, cluster, own, kubevirt, drivers, {plan.name: plan for plan in plans})
