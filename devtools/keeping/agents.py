"""KubeVirt's controller with our webhook, and the kubelets, as far as kept devices depend on them: as small as twenty
thousand histories allow. :mod:`devtools.agents` has larger ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final

from devtools.agents.kubevirt_admission import FINALIZER
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.keeping.claims import is_vm_reference
from virt_dra.api.keeping.instances import kept_instance
from virt_dra.api.kubevirt_v1 import LAUNCHER, LAUNCHER_LABEL, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import TypedObject
from virt_dra.api.profiles.asking import RefusedLineError
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, Cluster
from virt_dra.cluster.watching.informer import Informer
from virt_dra.controllers.loops.claims.keys import WorkKey
from virt_dra.controllers.loops.claims.loop import ResourceClaimController
from virt_dra.controllers.loops.virtual_machines import deletes_instance, instance_of, strategy_of, wants_instance
from virt_dra.controllers.pods.current_pod import CREATED_BY_LABEL
from virt_dra.controllers.pods.launcher_pods import COMPUTE


class OldClaimController(ResourceClaimController):
    """The claim controller of Kubernetes 1.34 and 1.35: it stops at consumers that it doesn't know, and so neither
    removes pods that have ended nor finishes a deletion (P-4)."""

    async def _release(self, key: WorkKey) -> None:
        claim = self._stores.claims.get(key.name, key.namespace)
        if claim is None or not any(map(is_vm_reference, claim.status.reserved_for)):
            await super()._release(key)


_DOWN: Final = "node.kubernetes.io/unreachable"
_PAUSE: Final = 0.05
_START: Final = 2.0
"""Seconds from a pod's binding until its guest runs."""
_BACK_OFF: Final = (10.0, 300.0)
"""Seconds until the second start of a VM, which grow with the square of the number, and the longest."""


async def after_changes(
    cluster: Cluster, kinds: Iterable[type[TypedObject]], work: Callable[[], Awaitable[float | None]], chance: Random
) -> None:
    """Does the work after every change of these kinds, where it failed, and after the seconds that it returns; for
    ever."""
    changed = asyncio.Event()
    changed.set()
    now = asyncio.get_running_loop().time
    informers = [Informer(cluster, kind, clock=now, chance=chance.random) for kind in kinds]
    for informer in informers:
        informer.on_change(lambda old, new: changed.set())
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        while True:
            await changed.wait()
            changed.clear()
            await asyncio.sleep(_PAUSE * chance.random())
            try:
                again = await work()
                if again is not None:
                    asyncio.get_running_loop().call_later(again, changed.set)
            except ApiError:
                changed.set()


class VirtController:
    """VMIs of VMs, by their run strategy and through the webhook (P-6, P-10), and launcher pods of VMIs."""

    KINDS: Final = (VirtualMachine, VirtualMachineInstance, Pod)

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._starts: dict[str, tuple[int, float]] = {}
        """VM -> its starts without a long pause, and when the last one was."""

    async def work(self) -> float | None:
        vmis = {vmi.name: vmi for vmi in (await self._cluster.list(VirtualMachineInstance, self._namespace)).items}
        again = None
        for vm in (await self._cluster.list(VirtualMachine, self._namespace)).items:
            wait = self._back_off(vm.name) if vm.name not in vmis and wants_instance(vm) else 0.0
            if wait > 0:
                again = wait if again is None else min(again, wait)
            else:
                await self._manage(vm, vmis.get(vm.name))
        pods = (await self._cluster.list(Pod, self._namespace)).items
        for vmi in vmis.values():
            mine = [pod for pod in pods if pod.metadata.labels.get(CREATED_BY_LABEL) == vmi.metadata.uid]
            await self._run(vmi, mine)
        return again

    def _back_off(self, name: str) -> float:
        """Seconds that a VM waits before its next start."""
        count, last = self._starts.get(name, (0, 0.0))
        first, longest = _BACK_OFF
        passed = asyncio.get_running_loop().time() - last
        return min(first * count**2, longest) - passed if count and passed < longest else 0.0

    def _started(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        count, last = self._starts.get(name, (0, 0.0))
        self._starts[name] = (count + 1 if now - last < _BACK_OFF[1] else 1, now)

    async def _manage(self, vm: VirtualMachine, vmi: VirtualMachineInstance | None) -> None:
        if vm.metadata.deletion_timestamp is not None:
            if vmi is None:
                await self._unblock(vm)
            elif vmi.metadata.deletion_timestamp is None:
                await self._delete(vmi)
        elif vmi is None and wants_instance(vm):
            with contextlib.suppress(RefusedLineError):  # the VM waits until its annotation is mended
                made = kept_instance(instance_of(vm), {}, {}, {})
                finalizers = (*made.metadata.finalizers, FINALIZER)
                await self._cluster.create(made.with_(metadata=made.metadata.with_(finalizers=finalizers)))
                self._started(vm.name)
        elif (
            vmi is not None
            and vmi.metadata.deletion_timestamp is None
            and deletes_instance(strategy_of(vm), vmi.status.phase)
        ):
            await self._delete(vmi)

    async def _run(self, vmi: VirtualMachineInstance, pods: list[Pod]) -> None:
        if vmi.metadata.deletion_timestamp is not None:
            for pod in pods:
                if pod.metadata.deletion_timestamp is None:
                    await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid)
            if not pods:
                await self._unblock(vmi)
            return
        phase = vmi.status.phase or "Pending"
        if vmi.finished:
            return
        if not pods and phase == "Pending":
            await self._cluster.create(_launcher_pod(vmi))
            after = "Scheduling"
        elif not pods or pods[0].metadata.deletion_timestamp is not None or pods[0].status.phase == "Failed":
            after = "Failed"
        elif pods[0].status.phase == "Succeeded":
            after = "Succeeded"
        else:
            after = "Running" if pods[0].status.phase == "Running" else "Scheduling"
        if after != phase:
            merge: Json = {"metadata": {"uid": vmi.metadata.uid}, "status": {"phase": after}}
            await self._cluster.patch(VirtualMachineInstance, vmi.name, vmi.namespace, merge=merge)

    async def _delete(self, vmi: VirtualMachineInstance) -> None:
        await self._cluster.delete(VirtualMachineInstance, vmi.name, vmi.namespace, uid=vmi.metadata.uid)

    async def _unblock(self, obj: VirtualMachine | VirtualMachineInstance) -> None:
        if FINALIZER in obj.metadata.finalizers:
            others = [finalizer for finalizer in obj.metadata.finalizers if finalizer != FINALIZER]
            merge: Json = {"metadata": {"finalizers": others, "uid": obj.metadata.uid}}
            await self._cluster.patch(type(obj), obj.name, obj.namespace, merge=merge)


def _launcher_pod(vmi: VirtualMachineInstance) -> Pod:
    owner = {"apiVersion": vmi.API_VERSION, "kind": vmi.KIND, "name": vmi.name, "uid": vmi.metadata.uid}
    labels = {LAUNCHER_LABEL: LAUNCHER, CREATED_BY_LABEL: vmi.metadata.uid}
    uses = [{"name": entry.name} for entry in vmi.spec.resource_claims]
    return Pod.from_wire({
        "metadata": {
            "name": f"virt-launcher-{vmi.name}-{vmi.metadata.uid[-5:]}", "namespace": vmi.namespace, "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "containers": [{"name": COMPUTE, "image": "launcher", "resources": {"claims": uses}}],
            "resourceClaims": [entry.to_wire() for entry in vmi.spec.resource_claims],
        },
    })  # fmt: skip


class Kubelets:
    """Start the pods that are bound to their nodes, and stop those that are being deleted; not while a node is down.
    Pods of nodes that are gone are collected as the pod garbage collector does."""

    KINDS: Final = (Pod, Node)

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._bound: dict[str, float] = {}
        """UIDs of pods -> when they were seen on their nodes."""

    async def work(self) -> float | None:
        now, again = asyncio.get_running_loop().time(), None
        nodes = {node.name: node for node in (await self._cluster.list(Node)).items}
        for pod in (await self._cluster.list(Pod)).items:
            node = nodes.get(pod.spec.node_name or "")
            if not pod.spec.node_name or (node is not None and any(taint.key == _DOWN for taint in node.spec.taints)):
                continue
            if node is None or pod.metadata.deletion_timestamp is not None:
                await self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.metadata.uid, grace_seconds=0)
            elif pod.status.phase not in ("Running", "Succeeded", "Failed"):
                wait = self._bound.setdefault(pod.metadata.uid, now) + _START - now
                if wait > 0:
                    again = wait if again is None else min(again, wait)
                    continue
                compute = {"name": COMPUTE, "ready": True, "image": "", "imageID": "", "restartCount": 0, "state": {}}
                status: Json = {"phase": "Running", "containerStatuses": [compute]}
                merge: Json = {"metadata": {"uid": pod.metadata.uid}, "status": status}
                await self._cluster.patch(Pod, pod.name, pod.namespace, merge=merge, subresource="status")
        return again
