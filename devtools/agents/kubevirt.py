"""A small KubeVirt: makes VMIs of VMs, launcher pods of VMIs, sets phases, and starts domains from what the pod holds.

The parts of virt-controller (VMs, VMIs) and virt-handler (domains) over the port, each with a queue of its own, as an
account of KubeVirt's (K-4, K-7.26, K-9, K-12.1, K-12.8 to K-12.11). Failures are tried again as client-go's rate
limiter says, changes of an object at once. What devices a domain gets is decided by :mod:`launcher` for the version at
hand, from the compute container's metadata files and variables and from nothing else; libvirt isn't asked. 1.6 and
1.7's own filling of deviceStatus is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import uuid4

from devtools.agents.kubevirt_admission import FINALIZER
from devtools.agents.rate_limiter import RateLimiter
from launcher import AddressSources, Conversion, LauncherError, convert
from virt_dra.api.core_v1 import ObjectReference, Pod
from virt_dra.api.kubevirt_v1 import (
    LAUNCHER,
    LAUNCHER_LABEL,
    PermittedHostDevices,
    VirtualMachine,
    VirtualMachineInstance,
)
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.meta import TypedObject, format_time
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, Cluster, Conflict, NotFound
from virt_dra.cluster.watching.event_recorder import EventRecorder
from virt_dra.cluster.watching.informer import CacheKey, Informer, key_of, running
from virt_dra.cluster.watching.work_queue import WorkQueue
from virt_dra.controllers import conditions
from virt_dra.controllers.loops.virtual_machines import deletes_instance, instance_of, strategy_of, wants_instance
from virt_dra.controllers.pods import launcher_pods
from virt_dra.controllers.pods.current_pod import launcher_pods_of
from virt_dra.controllers.pods.launcher_resources import RenderError
from virt_dra.simulator.agents.background import background
from virt_dra.simulator.agents.kubelet import Kubelet

UNPAUSED: Final = "kubevirt.io/virtual-machine-unpaused"
FAILED_CREATE: Final = "FailedCreate"
SYNC_FAILED: Final = "Synchronizing with the Domain failed."
VM_FINALIZER: Final = "kubevirt.io/virtualMachineControllerFinalize"
UNSEEN_SECONDS: Final = 2.0
"""So long after its creation a pod that no watch has shown is looked for: it may have come and gone between a watch and
the next list. KubeVirt's expectation of it ends after five minutes."""

_NO_POD: Final = ("PodNotExists", "virt-launcher pod has not yet been scheduled")
_GOING: Final = ("PodTerminating", "virt-launcher pod is terminating")
_NOT_RUNNING: Final = ("GuestNotRunning", "Guest VM is not reported as running")


@dataclass(frozen=True)
class SyncError:
    """Why an attempt failed; it is made again."""

    reason: str
    message: str


@dataclass(frozen=True)
class FailedStarts:
    """How many VMIs of a VM failed in a row before their guests ran; the last one's UID, and until when the next one
    waits."""

    uid: str
    count: int
    until: float


_NO_FAILURE: Final = FailedStarts("", 0, 0.0)


def check_failure(present: Iterable[Json], error: SyncError | None, now: datetime) -> tuple[Json, ...]:
    """Conditions with ``Synchronized``: absent without an error. Its message is that of the first error of its reason
    (K-12.9)."""
    listed = tuple(present)
    if error is None:
        return conditions.without(listed, "Synchronized")
    if any(
        c.get("type") == "Synchronized" and (c.get("status"), c.get("reason")) == ("False", error.reason)
        for c in listed
    ):
        return listed
    return conditions.put(
        conditions.without(listed, "Synchronized"), "Synchronized", "False", error.reason, error.message, now
    )


class FakeKubeVirt:
    """Run it with ``async with fake.running()``. ``domains``: what was started, by namespace and name of the VMI.

    ``kubelet`` has the containers that domains are started in. ``options``: of the launcher pods. ``reported``: called
    for each domain that is started, before its VMI is Running, and for each that is gone (None).
    """

    def __init__(
        self,
        cluster: Cluster,
        kubelet: Kubelet,
        gates: Gates,
        *,
        permitted_host_devices: PermittedHostDevices | None = None,
        options: launcher_pods.LauncherOptions = launcher_pods.DEFAULT_OPTIONS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        reported: Callable[[CacheKey, Conversion | None], None] = lambda key, domain: None,
    ) -> None:
        self._cluster, self._kubelet, self.gates = cluster, kubelet, gates
        self._permitted, self._options, self._clock = permitted_host_devices, options, clock
        self._reported = reported
        self.domains: dict[CacheKey, Conversion] = {}
        self.syncs: dict[CacheKey, int] = {}
        """How often a domain was tried to start."""
        self.creations: dict[CacheKey, int] = {}
        """How often a launcher pod was tried to create."""
        self._failed_starts: dict[CacheKey, FailedStarts] = {}
        """Of VMs."""
        self._made: dict[str, tuple[str, float]] = {}
        """UID of a VMI whose pod was made and hasn't been seen yet -> the pod's name, and when it is looked for."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs while the body does."""
        async with background(self.run()):
            yield

    async def run(self) -> None:
        """For ever; ends by cancellation."""
        now = asyncio.get_running_loop().time
        self._vms = Informer(self._cluster, VirtualMachine)
        self._vmis = Informer(self._cluster, VirtualMachineInstance)
        labels = f"{LAUNCHER_LABEL}={LAUNCHER}"
        self._pods = Informer(self._cluster, Pod, labels=labels, indexes={"vmi": _vmi_of})
        vms, vmis, domains = (_Retrying(RateLimiter[CacheKey](now)) for _ in range(3))
        self._vm_queue, self._vmi_queue = vms.queue, vmis.queue

        def of_a_vm(old: VirtualMachine | None, new: VirtualMachine | None) -> None:
            vms.queue.add(key_of(new or old or VirtualMachine()))

        def of_a_vmi(old: VirtualMachineInstance | None, new: VirtualMachineInstance | None) -> None:
            for retrying in (vms, vmis, domains):
                retrying.queue.add(key_of(new or old or VirtualMachineInstance()))

        def of_a_pod(old: Pod | None, new: Pod | None) -> None:
            for key in _vmi_of(new or old or Pod()):
                vmis.queue.add(key)

        self._vms.on_change(of_a_vm)
        self._vmis.on_change(of_a_vmi)
        self._pods.on_change(of_a_pod)
        self._events = {name: self._recorder(name) for name in ("virtualmachine-controller", "virt-handler")}
        async with running(self._vms, self._vmis, self._pods), asyncio.TaskGroup() as group:
            for retrying, sync in ((vms, self._sync_vm), (vmis, self._sync_vmi), (domains, self._sync_domain)):
                group.create_task(retrying.run(sync))
            for recorder in self._events.values():
                group.create_task(recorder.run())

    def _recorder(self, component: str) -> EventRecorder:
        return EventRecorder(self._cluster, component, component, clock=self._clock, suffixes=lambda: uuid4().hex[:16])

    def _event(
        self, component: str, vmi: VirtualMachineInstance, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        about = ObjectReference(
            api_version=vmi.API_VERSION, kind=vmi.KIND, namespace=vmi.namespace, name=vmi.name, uid=vmi.metadata.uid
        )
        self._events[component].record(about, kind, reason, message)

    # --- virt-controller: VMs -----------------------------------------------------------------------------------------

    async def _sync_vm(self, key: CacheKey) -> SyncError | None:
        """One VMI for a VM that is to run, a new one for one that is finished, none for one that isn't to run or goes
        (K-12.11)."""
        namespace, name = key
        vm, vmi = self._vms.store.get(name, namespace), self._vmis.store.get(name, namespace)
        if vm is None:
            return None
        owned = vmi is not None and vmi.is_controlled_by(vm)
        if vm.metadata.deletion_timestamp is not None:
            if vmi is None or not owned:
                await self._without_finalizer(vm, VM_FINALIZER)
            elif vmi.metadata.deletion_timestamp is None:
                await self._cluster.delete(VirtualMachineInstance, vmi.name, vmi.namespace, uid=vmi.metadata.uid)
            return None
        if VM_FINALIZER not in vm.metadata.finalizers:
            await self._put_finalizers(vm, [*vm.metadata.finalizers, VM_FINALIZER])
        if vmi is None:
            wait = self._failed_starts.get(key, _NO_FAILURE).until - asyncio.get_running_loop().time()
            if wait > 0:
                self._vm_queue.add_after(key, wait)
            elif wants_instance(vm):
                await self._cluster.create(instance_of(vm))
            return None
        if owned:
            self._count_failure(key, vmi)
        if owned and vmi.metadata.deletion_timestamp is None and deletes_instance(strategy_of(vm), vmi.status.phase):
            await self._cluster.delete(VirtualMachineInstance, vmi.name, vmi.namespace, uid=vmi.metadata.uid)
        return None

    def _count_failure(self, key: CacheKey, vmi: VirtualMachineInstance) -> None:
        """A VMI that failed before its guest ran: the next one starts 10 s times the square of the count later, at most
        300 s. KubeVirt adds up to a half by chance."""
        stamps = (vmi.status.model_extra or {}).get("phaseTransitionTimestamps") or []
        last = self._failed_starts.get(key, _NO_FAILURE)
        if any(stamp.get("phase") == "Running" for stamp in stamps):
            self._failed_starts.pop(key, None)
        elif vmi.status.phase == "Failed" and last.uid != vmi.metadata.uid:
            count = last.count + 1
            until = asyncio.get_running_loop().time() + min(10.0 * count**2, 300.0)
            self._failed_starts[key] = FailedStarts(vmi.metadata.uid, count, until)

    # --- virt-controller: VMIs ----------------------------------------------------------------------------------------

    async def _sync_vmi(self, key: CacheKey) -> SyncError | None:
        namespace, name = key
        vmi = self._vmis.store.get(name, namespace)
        if vmi is None:
            return None
        pods = launcher_pods_of(vmi, self._pods.store.by_index("vmi", key))
        if pods:
            self._made.pop(vmi.metadata.uid, None)
        if vmi.metadata.uid in self._made and await self._comes(key, vmi):
            return None
        if vmi.metadata.deletion_timestamp is not None:
            await self._end(key, vmi, pods)
            return None
        if vmi.finished:
            return None
        pod = max(pods, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
        error = None
        unprocessed = vmi.status.phase in (None, "", "Pending")
        if pod is None and unprocessed:
            pod, error = await self._create_pod(key, vmi)
        elif pod is not None and pod.status.phase != "Failed":
            await self._open_gate(pod)
        await self._write(vmi, pod, self._phase(vmi, pod), error)
        return error

    async def _comes(self, key: CacheKey, vmi: VirtualMachineInstance) -> bool:
        """Whether the informer may still show the pod that was made for a VMI. Looks for it again later, if so."""
        name, at = self._made[vmi.metadata.uid]
        wait = at - asyncio.get_running_loop().time()
        if wait <= 0:
            try:
                await self._cluster.get(Pod, name, vmi.namespace)
            except NotFound:
                del self._made[vmi.metadata.uid]
                return False
            wait = UNSEEN_SECONDS
        self._vmi_queue.add_after(key, wait)
        return True

    async def _create_pod(self, key: CacheKey, vmi: VirtualMachineInstance) -> tuple[Pod | None, SyncError | None]:
        self.creations[key] = self.creations.get(key, 0) + 1
        rendered = launcher_pods.render(vmi, self.gates, self._permitted, self._options)
        if isinstance(rendered, RenderError):
            return None, SyncError(FAILED_CREATE, f"failed to render launch manifest: {rendered.message}")
        try:
            made = await self._cluster.create(rendered)
        except ApiError as error:
            self._event("virtualmachine-controller", vmi, "Warning", FAILED_CREATE, f"Error creating pod: {error}")
            return None, SyncError(FAILED_CREATE, f"failed to create virtual machine pod: {error}")
        self._made[vmi.metadata.uid] = made.name, asyncio.get_running_loop().time() + UNSEEN_SECONDS
        self._vmi_queue.add_after(key, UNSEEN_SECONDS)
        self._event(
            "virtualmachine-controller", vmi, "Normal", "SuccessfulCreate", f"Created virtual machine pod {made.name}"
        )
        return made, None

    async def _open_gate(self, pod: Pod) -> None:
        """The readiness gate of K-4.1: true while the guest isn't paused."""
        present = [condition.to_wire() for condition in pod.status.conditions]
        changed = conditions.put(present, UNPAUSED, "True", "NotPaused", "", self._clock())
        if list(changed) != present:
            merge = {
                "metadata": {"resourceVersion": pod.metadata.resource_version},
                "status": {"conditions": list(changed)},
            }
            with contextlib.suppress(Conflict):  # the kubelet wrote; the next look is at what it wrote
                await self._cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")

    def _phase(self, vmi: VirtualMachineInstance, pod: Pod | None) -> str:
        """K-12.1; from Scheduled on virt-handler says when it is Running."""
        phase = vmi.status.phase or "Pending"
        if pod is None:
            return phase if phase == "Pending" else "Failed"
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            return "Failed"
        if pod.status.phase == "Succeeded":
            return "Succeeded"
        if phase in ("Scheduled", "Running"):
            return phase
        ready = bool(pod.status.container_statuses) and all(status.ready for status in pod.status.container_statuses)
        return "Scheduled" if phase == "Scheduling" and ready else "Scheduling"

    def _conditions(
        self, vmi: VirtualMachineInstance, pod: Pod | None, phase: str, error: SyncError | None
    ) -> tuple[Json, ...]:
        reported: tuple[Json, ...] = tuple(vmi.status.conditions)
        going = pod is not None and (pod.metadata.deletion_timestamp is not None or pod.finished)
        if phase == "Running" and not going:
            reported = conditions.put(reported, "Ready", "True", "", "", self._clock())
        else:
            reason, message = _NO_POD if pod is None else _GOING if going else _NOT_RUNNING
            reported = conditions.put(reported, "Ready", "False", reason, message, self._clock())
        listed = pod.status.conditions if pod is not None and phase == "Scheduling" else ()
        unscheduled = next((c for c in listed if c.type == "PodScheduled" and c.status == "False"), None)
        reported = (
            conditions.without(reported, "PodScheduled")
            if unscheduled is None
            else conditions.put(
                reported, "PodScheduled", "False", unscheduled.reason or "", unscheduled.message or "", self._clock()
            )
        )
        # Of a VMI that is virt-handler's, virt-controller leaves it alone.
        return (
            reported if vmi.status.phase in ("Scheduled", "Running") else check_failure(reported, error, self._clock())
        )

    async def _write(self, vmi: VirtualMachineInstance, pod: Pod | None, phase: str, error: SyncError | None) -> None:
        """Nothing where the status says so already."""
        status: Json = {}
        reported = self._conditions(vmi, pod, phase, error)
        if reported != tuple(vmi.status.conditions):
            status["conditions"] = list(reported)
        status |= self._moved(vmi, phase)
        node = pod.spec.node_name if pod is not None else None
        if pod is not None and node and phase in ("Scheduled", "Running"):
            active = {pod.metadata.uid: node}
            if vmi.status.node_name != node:
                status["nodeName"] = node
            if vmi.status.active_pods != active:
                status["activePods"] = active
        await self._patch(vmi, status)

    def _moved(self, vmi: VirtualMachineInstance, phase: str) -> Json:
        if vmi.status.phase == phase:
            return {}
        stamps = (vmi.status.model_extra or {}).get("phaseTransitionTimestamps") or []
        stamp = {"phase": phase, "phaseTransitionTimestamp": format_time(self._clock())}
        return {"phase": phase, "phaseTransitionTimestamps": [*stamps, stamp]}

    async def _patch(self, vmi: VirtualMachineInstance, status: Mapping[str, object]) -> None:
        if status:
            merge = {"metadata": {"resourceVersion": vmi.metadata.resource_version}, "status": dict(status)}
            await self._cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge=merge)

    async def _end(self, key: CacheKey, vmi: VirtualMachineInstance, pods: Iterable[Pod]) -> None:
        """A VMI that is being deleted goes when its pods are gone."""
        left = tuple(pods)
        for pod in left:
            if pod.metadata.deletion_timestamp is None:
                await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)
        if self.domains.pop(key, None) is not None:
            self._reported(key, None)
        if not left:
            await self._without_finalizer(vmi, FINALIZER)

    async def _without_finalizer(self, obj: TypedObject, finalizer: str) -> None:
        if finalizer in obj.metadata.finalizers:
            await self._put_finalizers(obj, [other for other in obj.metadata.finalizers if other != finalizer])

    async def _put_finalizers(self, obj: TypedObject, finalizers: list[str]) -> None:
        merge: Json = {"metadata": {"finalizers": finalizers, "resourceVersion": obj.metadata.resource_version}}
        await self._cluster.patch(type(obj), obj.name, obj.namespace, merge=merge)

    # --- virt-handler -------------------------------------------------------------------------------------------------

    async def _sync_domain(self, key: CacheKey) -> SyncError | None:
        """Make the domain from what the container holds, and start it once. A file that appears later doesn't start it
        (K-7.26)."""
        namespace, name = key
        vmi = self._vmis.store.get(name, namespace)
        if vmi is None or vmi.metadata.deletion_timestamp is not None or vmi.status.phase != "Scheduled":
            return None
        pods = launcher_pods_of(vmi, self._pods.store.by_index("vmi", key))
        containers = [
            self._kubelet.container(pod.metadata.uid, launcher_pods.COMPUTE)
            for pod in pods
            if pod.status.phase == "Running"
        ]
        container = next((candidate for candidate in containers if candidate is not None), None)
        if container is None:
            return SyncError(SYNC_FAILED, "the launcher isn't there yet")
        self.syncs[key] = self.syncs.get(key, 0) + 1
        try:
            sources = AddressSources(container.environment, container.metadata_files())
            domain = convert(vmi, sources, kubevirt=self.gates.version)
        except LauncherError as failure:
            error = SyncError(SYNC_FAILED, f'server error. command SyncVMI failed: "{failure}"')
            self._event("virt-handler", vmi, "Warning", "SyncFailed", error.message)
            reported = check_failure(vmi.status.conditions, error, self._clock())
            await self._patch(vmi, {"conditions": list(reported)} if reported != tuple(vmi.status.conditions) else {})
            return error
        self.domains[key] = domain
        self._reported(key, domain)
        await self._patch(
            vmi,
            {
                **self._moved(vmi, "Running"),
                "conditions": list(check_failure(vmi.status.conditions, None, self._clock())),
            },
        )
        return None


class _Retrying:
    """A controller's queue: what failed is worked on again when its rate limiter says."""

    def __init__(self, limiter: RateLimiter[CacheKey]) -> None:
        self.queue: WorkQueue[CacheKey] = WorkQueue()
        self._limiter = limiter

    async def run(self, sync: Callable[[CacheKey], Awaitable[SyncError | None]]) -> None:
        async def attempt(key: CacheKey) -> float | None:
            try:
                failed = await sync(key) is not None
            except ApiError:
                failed = True
            if failed:
                return self._limiter.failed(key)
            self._limiter.forget(key)
            return None

        await self.queue.run(attempt, workers=8)


def _vmi_of(pod: Pod) -> tuple[CacheKey, ...]:
    return tuple(
        (pod.namespace, owner.name)
        for owner in pod.metadata.owner_references
        if owner.kind == VirtualMachineInstance.KIND
    )
