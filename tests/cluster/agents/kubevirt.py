"""A small KubeVirt: makes VMIs of VMs, launcher pods of VMIs, sets phases, and starts domains from what the pod holds.

virt-controller's and virt-handler's part in one loop, over the port, as an account of KubeVirt's (K-4, K-7.26, K-9, K-12.1). What
devices a domain gets is decided by :mod:`launcher` for the version at hand, from the compute container's metadata files and variables
and from nothing else; libvirt isn't asked. 1.6 and 1.7's own filling of deviceStatus is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from launcher import Conversion, LauncherError, convert
from tests.cluster.agents.background import background
from tests.cluster.agents.kubelet import Kubelet
from tests.cluster.agents.kubevirt_admission import FINALIZER, KubeVirtAdmission
from tests.cluster.agents.kubevirt_crds import definitions
from tests.cluster.agents.kubevirt_webhooks import MUTATING, VALIDATING, served
from tests.cluster.agents.worlds import UNLIMITED
from tests.cluster.control_plane import ControlPlane, RequestError
from tests.cluster.credentials import ADMINS
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, PermittedHostDevices, VirtualMachine, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import Gates
from virt_dra.api.meta import format_time
from virt_dra.api.wire import Json
from virt_dra.cluster.informer import Informer, Key, key_of, running
from virt_dra.cluster.kube import connect
from virt_dra.cluster.port import AlreadyExists, ApiError, Cluster, Conflict, NotFound
from virt_dra.cluster.work_queue import WorkQueue
from virt_dra.controllers import conditions, launcher_pods
from virt_dra.controllers.current_pod import launcher_pods_of
from virt_dra.controllers.virtual_machines import instance_of, wants_instance

NAMESPACE: Final = "kubevirt"
UNPAUSED: Final = "kubevirt.io/virtual-machine-unpaused"
FINISHED: Final = ("Succeeded", "Failed")
RETRY_SECONDS: Final = 0.1


@dataclass(frozen=True)
class Phase:
    """What a VMI's status is to say. ``conditions``: kind -> (status, reason, message); others stay."""

    name: str
    conditions: dict[str, tuple[conditions.Verdict, str, str]]


class FakeKubeVirt:
    """Run it with ``async with fake.running()``. ``domains``: what was started, by namespace and name of the VMI.

    ``kubelet`` has the containers that domains are started in. ``options``: of the launcher pods. ``told``: of each domain that is
    started, before its VMI is Running, and of each that went (None).
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
        told: Callable[[Key, Conversion | None], None] = lambda key, domain: None,
    ) -> None:
        self._cluster, self._kubelet, self.gates = cluster, kubelet, gates
        self._permitted, self._options, self._clock = permitted_host_devices, options, clock
        self._told = told
        self.domains: dict[Key, Conversion] = {}
        self.syncs: dict[Key, int] = {}
        """How often a domain was tried to start."""
        self._made: set[str] = set()
        """Uids of VMIs whose pod was made and hasn't been seen yet."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs while the body does."""
        async with background(self.run()):
            yield

    async def run(self) -> None:
        """For ever; ends by cancellation."""
        queue: WorkQueue[Key] = WorkQueue(longest_delay=1.0)
        self._vms = Informer(self._cluster, VirtualMachine)
        self._vmis = Informer(self._cluster, VirtualMachineInstance)
        labels = f"{launcher_pods.LAUNCHER_LABEL}={launcher_pods.LAUNCHER}"
        self._pods = Informer(self._cluster, Pod, labels=labels, indexes={"vmi": _vmi_of})
        self._vms.on_change(lambda old, new: queue.add(key_of(new or old or VirtualMachine())))
        self._vmis.on_change(lambda old, new: queue.add(key_of(new or old or VirtualMachineInstance())))

        def of_a_pod(old: Pod | None, new: Pod | None) -> None:
            for key in _vmi_of(new or old or Pod()):
                queue.add(key)

        self._pods.on_change(of_a_pod)
        async with running(self._vms, self._vmis, self._pods), asyncio.TaskGroup() as group:
            group.create_task(queue.run(self._sync, workers=8))

    async def _sync(self, key: Key) -> float | None:
        namespace, name = key
        vm, vmi = self._vms.store.get(name, namespace), self._vmis.store.get(name, namespace)
        try:
            await self._sync_vm(vm, vmi)
            return None if vmi is None else await self._sync_vmi(key, vmi)
        except (Conflict, NotFound, AlreadyExists):
            return RETRY_SECONDS / 5  # somebody else wrote; the informers will tell
        except ApiError:
            return 5 * RETRY_SECONDS

    async def _sync_vm(self, vm: VirtualMachine | None, vmi: VirtualMachineInstance | None) -> None:
        """One VMI for a VM that is to run, a new one for one that is finished, none for one that isn't to run."""
        if vm is None or vm.metadata.deletion_timestamp is not None:
            return
        if vmi is None:
            if wants_instance(vm):
                await self._cluster.create(instance_of(vm))
            return
        owner = vmi.metadata.controller_owner
        owned = owner is not None and owner.uid == vm.metadata.uid
        if owned and vmi.metadata.deletion_timestamp is None and (not wants_instance(vm) or vmi.status.phase in FINISHED):
            await self._cluster.delete(VirtualMachineInstance, vmi.name, vmi.namespace, uid=vmi.metadata.uid)

    # --- one VMI ----------------------------------------------------------------------------------------------------

    async def _sync_vmi(self, key: Key, vmi: VirtualMachineInstance) -> float | None:
        pods = launcher_pods_of(vmi, self._pods.store.by_index("vmi", key))
        if pods:
            self._made.discard(vmi.metadata.uid)
        if vmi.metadata.deletion_timestamp is not None:
            return await self._end(key, vmi, pods)
        if vmi.status.phase in FINISHED:
            return None
        pod = max(pods, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
        if pod is None and vmi.status.phase in (None, "", "Pending"):
            return await self._create_pod(vmi)
        if pod is not None and pod.status.phase != "Failed":
            await self._open_gate(pod)
        phase = self._phase(vmi, pod)
        if phase.name == "Scheduled":
            phase = self._started(key, vmi, pod)
        await self._write(vmi, pod, phase)
        failed = phase.conditions.get("Synchronized", ("True",))[0] == "False"
        return RETRY_SECONDS if failed else None

    async def _create_pod(self, vmi: VirtualMachineInstance) -> float | None:
        if vmi.metadata.uid in self._made:
            return RETRY_SECONDS  # the store doesn't have it yet
        rendered = launcher_pods.render(vmi, self.gates, self._permitted, self._options)
        if isinstance(rendered, launcher_pods.RenderError):
            await self._write(vmi, None, Phase("Pending", {"Synchronized": ("False", "FailedCreate", rendered.message)}))
            return 5 * RETRY_SECONDS
        try:
            await self._cluster.create(rendered)
            self._made.add(vmi.metadata.uid)
        except ApiError as error:
            await self._write(vmi, None, Phase("Pending", {"Synchronized": ("False", "FailedCreate", str(error))}))
            return 5 * RETRY_SECONDS
        return None

    async def _open_gate(self, pod: Pod) -> None:
        """The readiness gate of K-4.1: true while the guest isn't paused."""
        known = [condition.to_wire() for condition in pod.status.conditions]
        changed = conditions.put(known, UNPAUSED, "True", "NotPaused", "", self._clock())
        if list(changed) != known:
            merge = {"metadata": {"resourceVersion": pod.metadata.resource_version}, "status": {"conditions": list(changed)}}
            with contextlib.suppress(Conflict):  # the kubelet wrote; the next look is at what it wrote
                await self._cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")

    def _phase(self, vmi: VirtualMachineInstance, pod: Pod | None) -> Phase:
        """K-12.1, up to Scheduled: from there on the domain decides."""
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            return Phase("Failed", {"Ready": ("False", "PodTerminating", "virt-launcher pod has not yet been scheduled or is gone")})
        if pod.status.phase == "Succeeded":
            return Phase("Succeeded", {"Ready": ("False", "PodTerminating", "")})
        unscheduled = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
        told: dict[str, tuple[conditions.Verdict, str, str]] = {
            "Ready": ("False", "GuestNotRunning", "Guest VM is not reported as running")
        }
        if unscheduled is not None:
            told["PodScheduled"] = ("False", unscheduled.reason or "", unscheduled.message or "")
        ready = bool(pod.status.container_statuses) and all(status.ready for status in pod.status.container_statuses)
        return Phase("Scheduled" if ready else "Scheduling", told)

    def _started(self, key: Key, vmi: VirtualMachineInstance, pod: Pod | None) -> Phase:
        """virt-handler's part: the domain is made of what the container holds, and started once. A failure is tried again (K-7.26)."""
        up: dict[str, tuple[conditions.Verdict, str, str]] = {"Ready": ("True", "", ""), "Synchronized": ("True", "", "")}
        if vmi.status.phase == "Running":
            return Phase("Running", up)
        container = None if pod is None else self._kubelet.container(pod.metadata.uid, launcher_pods.COMPUTE)
        if container is None:
            return Phase("Scheduled", {})
        self.syncs[key] = self.syncs.get(key, 0) + 1
        try:
            domain = convert(vmi, container.environment, kubevirt=self.gates.version, files=container.metadata_files())
        except LauncherError as error:
            message = f'server error. command SyncVMI failed: "{error}"'
            return Phase("Scheduled", {"Synchronized": ("False", "Synchronizing with the Domain failed.", message)})
        self.domains[key] = domain
        self._told(key, domain)
        return Phase("Running", up)

    async def _write(self, vmi: VirtualMachineInstance, pod: Pod | None, phase: Phase) -> None:
        """Nothing where the status says so already."""
        known = list(vmi.status.conditions)
        told: tuple[Json, ...] = tuple(known)
        for kind, (holds, reason, message) in phase.conditions.items():
            told = conditions.put(told, kind, holds, reason, message, self._clock())
        if "PodScheduled" not in phase.conditions:
            told = conditions.without(told, "PodScheduled")
        status: Json = {}
        if list(told) != known:
            status["conditions"] = list(told)
        if vmi.status.phase != phase.name:
            status["phase"] = phase.name
            stamps = (vmi.status.model_extra or {}).get("phaseTransitionTimestamps") or []
            stamp = {"phase": phase.name, "phaseTransitionTimestamp": format_time(self._clock())}
            status["phaseTransitionTimestamps"] = [*stamps, stamp]
        node = pod.spec.node_name if pod is not None else None
        if pod is not None and node and phase.name in ("Scheduled", "Running"):
            active = {pod.metadata.uid: node}
            if vmi.status.node_name != node:
                status["nodeName"] = node
            if vmi.status.active_pods != active:
                status["activePods"] = active
        if status:
            merge = {"metadata": {"resourceVersion": vmi.metadata.resource_version}, "status": status}
            await self._cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge=merge)

    async def _end(self, key: Key, vmi: VirtualMachineInstance, pods: Iterable[Pod]) -> float | None:
        """A VMI that is being deleted goes when its pods are gone."""
        left = tuple(pods)
        for pod in left:
            if pod.metadata.deletion_timestamp is None:
                await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)
        if self.domains.pop(key, None) is not None:
            self._told(key, None)
        if not left and FINALIZER in vmi.metadata.finalizers:
            others = [finalizer for finalizer in vmi.metadata.finalizers if finalizer != FINALIZER]
            merge = {"metadata": {"finalizers": others, "resourceVersion": vmi.metadata.resource_version}}
            await self._cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge=merge)
        return None


def _vmi_of(pod: Pod) -> tuple[Key, ...]:
    return tuple((pod.namespace, owner.name) for owner in pod.metadata.owner_references if owner.kind == VirtualMachineInstance.KIND)


def kubevirt_object(gates: Gates, permitted_host_devices: PermittedHostDevices | None = None) -> KubeVirt:
    """The KubeVirt object that says which version runs and which gates are on."""
    configuration: Json = {"developerConfiguration": {"featureGates": sorted(gates.on)}}
    if permitted_host_devices is not None:
        configuration["permittedHostDevices"] = permitted_host_devices.to_wire()
    return KubeVirt.from_wire({
        "metadata": {"name": "kubevirt", "namespace": NAMESPACE},
        "spec": {"configuration": configuration},
        "status": {"phase": "Deployed", "observedKubeVirtVersion": f"v{gates.version}"},
    })  # fmt: skip


# --- on a real control plane --------------------------------------------------------------------------------------


@asynccontextmanager
async def kubevirt_installed(
    control_plane: ControlPlane, gates: Gates, permitted_host_devices: PermittedHostDevices | None = None, *, stays: bool = False
) -> AsyncIterator[Cluster]:
    """KubeVirt's kinds, webhooks and KubeVirt object on a real API server, while the body runs; the cluster as KubeVirt's controller sees
    it, which is what a :class:`FakeKubeVirt` takes. One at a time. VMs and VMIs that are left go with their kinds. ``stays``: leave all
    of it there, as where the API server itself ends."""
    admission = KubeVirtAdmission(gates, NAMESPACE)
    kubeconfig = control_plane.kubeconfig_of_user(admission.account(), (ADMINS,))
    async with served(admission) as webhooks:
        try:
            await asyncio.to_thread(_install, control_plane, gates, webhooks, kubevirt_object(gates, permitted_host_devices))
            async with connect(str(kubeconfig), limits=UNLIMITED) as cluster:
                yield cluster
        finally:
            if not stays:
                await asyncio.to_thread(_remove, control_plane)


_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_WEBHOOKS: Final = (f"{_ADMISSION}/mutatingwebhookconfigurations", f"{_ADMISSION}/validatingwebhookconfigurations")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KUBEVIRTS: Final = f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts"
_MERGE: Final = "application/merge-patch+json"


def _install(control_plane: ControlPlane, gates: Gates, webhooks: tuple[Json, Json], kubevirt: KubeVirt) -> None:
    _remove(control_plane)  # what a test that was killed may have left
    _tolerating(409, control_plane, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for definition in definitions(gates.version):
        control_plane.request("POST", _CRDS, definition)
    for definition in definitions(gates.version):
        control_plane.wait_until_established(definition["metadata"]["name"])
    control_plane.restart_controllers()  # so that VMIs go with their VMs soon
    wire = kubevirt.to_wire()
    control_plane.request("POST", _KUBEVIRTS, wire)
    control_plane.request("PATCH", f"{_KUBEVIRTS}/kubevirt/status", {"status": wire["status"]}, _MERGE)
    for path, configuration in zip(_WEBHOOKS, webhooks, strict=True):
        control_plane.request("POST", path, configuration)


def _remove(control_plane: ControlPlane) -> None:
    """Webhooks first, which nobody serves any more; then the kinds, and with them their objects, whatever their finalizers."""
    for path, name in zip(_WEBHOOKS, (MUTATING, VALIDATING), strict=True):
        _tolerating(404, control_plane, "DELETE", f"{path}/{name}")
    plurals = ("virtualmachines", "virtualmachineinstances", "kubevirts")
    for plural in plurals:  # before their kinds, which would look for them only now and then
        for item in (_tolerating(404, control_plane, "GET", f"/apis/kubevirt.io/v1/{plural}") or {}).get("items", ()):
            metadata = item["metadata"]
            one = f"/apis/kubevirt.io/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
            _tolerating(404, control_plane, "PATCH", one, {"metadata": {"finalizers": None}}, _MERGE)
            _tolerating(404, control_plane, "DELETE", one)
    for plural in plurals:
        _tolerating(404, control_plane, "DELETE", f"{_CRDS}/{plural}.kubevirt.io")
    for plural in plurals:
        control_plane.wait_until_gone(f"{_CRDS}/{plural}.kubevirt.io")


def _tolerating(status: int, control_plane: ControlPlane, *request: object) -> Json | None:
    try:
        return control_plane.request(*request)  # type: ignore[arg-type]  # its own parameters, passed on
    except RequestError as error:
        if error.status != status:
            raise
        return None
