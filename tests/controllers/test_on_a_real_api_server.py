"""What is planned is written to a real API server: nothing is pruned or refused, and a second look finds nothing to
do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from devtools.crds.custom_resources import DEVICES, PROFILES, STANDALONE
from tests.controllers.changed_objects import changed
from tests.controllers.listed_sources import ListedSources
from tests.controllers.published_world import BASE, NOW
from tests.controllers.standalone.test_networks import WITH_NETWORKS
from tests.controllers.standalone.test_networks import vmi as vmi_with_network
from tests.controllers.standalone.world import SETTINGS, vm
from virt_dra.api.core_v1 import Pod
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION, metadata_annotation
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.api.resource_v1 import ResourceClaim, ResourceSlice
from virt_dra.api.virt_dra_v1alpha1 import VirtualMachineInstanceDevices
from virt_dra.api.wire import Json
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.port import ApiError, NotFound
from virt_dra.controllers.beside_kubevirt import reconcile as beside_kubevirt
from virt_dra.controllers.reconciled import NOTHING, Reconciled
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone import vm_lifecycle
from virt_dra.controllers.writes import PatchAnnotations, write

pytestmark = pytest.mark.control_plane

Life = Callable[[KubeCluster, str], Awaitable[None]]
CRD = "apiextensions.k8s.io/v1"


async def lived(plane: ControlPlane, namespace: str, life: Life) -> None:
    async with connect(str(plane.kubeconfig), limits=ClientLimits(qps=0)) as cluster, definitions(cluster):
        await life(cluster, namespace)


@asynccontextmanager
async def definitions(cluster: KubeCluster) -> AsyncIterator[None]:
    """Our kinds, and the VMs that KubeVirt would define, as long as they are needed."""
    ours = [definition.to_wire() for definition in (DEVICES, *PROFILES, *STANDALONE)]
    for raw in ours:
        await cluster.apply(raw, field_manager="test", force=True)
    for kind in (VirtualMachineInstanceDevices, DeviceProfile, VirtualMachineInstance, VirtualMachine):
        await _served(cluster, kind)
    try:
        yield
    finally:
        for raw in ours:
            await cluster.delete_raw(CRD, "CustomResourceDefinition", raw["metadata"]["name"])
        for raw in ours:
            await _gone(cluster, raw["metadata"]["name"])


async def _served(cluster: KubeCluster, kind: type[Any]) -> None:
    for _ in range(100):
        try:
            await cluster.list(kind)
        except ApiError:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(f"{kind.KIND} is not served")


async def _gone(cluster: KubeCluster, name: str) -> None:
    for _ in range(100):
        try:
            await cluster.get_raw(CRD, "CustomResourceDefinition", name)
        except NotFound:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} does not go")


async def world(cluster: KubeCluster, namespace: str) -> VirtualMachineInstance:
    """The base of the device_status cases, with a shimmed device that has whatever a device may have."""
    record = {
        "format": 1,
        "pairs": [{"claim": "gpus", "request": "gpu", "path": "metadata-shim", "layout": "KEP-5304"}],
    }
    raw = changed(BASE, {
        "pod.metadata.annotations": {INTEGRATION_ANNOTATION: json.dumps(record)},
        "pod.spec.containers.0.image": "example.com/launcher",
        "slices.0.metadata.name": f"{namespace}-gpus",
        "slices.0.spec.pool.name": namespace,
        "slices.0.spec.devices.0.attributes": {"pciAddress": {"string": "0000:01:00.0"}, "model": {"string": "<&>"}},
        # Not NoExecute: Kubernetes' controller, where other tests started it, would evict the pod.
        "slices.0.spec.devices.0.taints": [{"key": "k", "effect": "NoSchedule"}],
        "claims.0.status.allocation.devices.results.0.pool": namespace,
    })  # fmt: skip
    vmi = await cluster.create(VirtualMachineInstance.from_wire(in_(namespace, raw["vmi"])))
    wire = in_(namespace, raw["pod"])
    wire["metadata"]["ownerReferences"][0]["uid"] = vmi.metadata.uid
    wire["metadata"]["labels"]["kubevirt.io/created-by"] = vmi.metadata.uid
    pod = await cluster.create(Pod.from_wire(wire))
    statuses = [{"name": "gpus", "resourceClaimName": "fedora-gpus-abcde"}]
    await cluster.patch(
        Pod, pod.name, namespace, merge={"status": {"resourceClaimStatuses": statuses}}, subresource="status"
    )
    await cluster.create(
        ResourceSlice.from_wire({key: value for key, value in raw["slices"][0].items() if key != "status"})
    )
    wire = in_(namespace, raw["claims"][0])
    wire["metadata"]["ownerReferences"][0]["uid"] = pod.metadata.uid
    status = wire.pop("status")
    status["reservedFor"][0]["uid"] = pod.metadata.uid
    claim = await cluster.create(ResourceClaim.from_wire(wire))
    await cluster.update_status(ResourceClaim.from_wire(claim.to_wire() | {"status": status}))
    return vmi


def in_(namespace: str, raw: Json) -> Json:
    """As a client would create it there."""
    kept = {key: value for key, value in raw["metadata"].items() if key not in ("uid", "namespace")}
    return {**raw, "metadata": {**kept, "namespace": namespace}}


async def test_beside_kubevirt(control_plane: ControlPlane, namespace: str) -> None:
    async def life(cluster: KubeCluster, namespace: str) -> None:
        vmi = await world(cluster, namespace)

        async def reconcile() -> Reconciled:
            """Until nobody else (a scheduler that other tests started) has changed something meanwhile."""
            done = NOTHING.combined_with(await _look())
            while done.stale:
                done = replace(done, stale=False).combined_with(await _look())
            return done

        async def _look() -> Reconciled:
            return await beside_kubevirt.reconcile(await ListedSources.read(cluster, namespace), cluster, vmi.key, NOW)

        try:
            first = await reconcile()
            assert [event.reason for event in first.events] == ["DevicesResolved"]
            assert first.written == 3
            assert (await reconcile()) == NOTHING
            (pod,) = (await cluster.list(Pod, namespace)).items
            file = json.loads(pod.metadata.annotations[metadata_annotation("gpus", "gpu")])
            assert file["requests"][0]["devices"][0]["attributes"]["model"] == {"string": "<&>"}
            devices = await cluster.get(VirtualMachineInstanceDevices, "fedora", namespace)
            assert (devices.status.ready, devices.status.devices[0].taints[0].key) == ("1/1", "k")
            stale = PatchAnnotations(VirtualMachineInstance, "fedora", namespace, "another-uid", {"a": "b"})
            assert (await write(cluster, [stale], vmi)).stale
            old = PatchAnnotations(Pod, pod.name, namespace, pod.metadata.uid, {"a": "b"}, "1")
            assert (await write(cluster, [old], vmi)).stale
            running = await cluster.get(VirtualMachineInstance, "fedora", namespace)
            await cluster.update(running.with_(status=running.status.with_(phase="Running", node_name="node-a")))
            assert [event.reason for event in (await reconcile()).events] == ["DeviceTainted"]
            assert (await reconcile()) == NOTHING
        finally:
            await cluster.delete(ResourceSlice, f"{namespace}-gpus")

    await lived(control_plane, namespace, life)


@pytest.mark.parametrize("gpus", [0, 1])
async def test_standalone(control_plane: ControlPlane, namespace: str, gpus: int) -> None:
    async def life(cluster: KubeCluster, namespace: str) -> None:
        machine = vm("fedora", gpus=gpus)
        await cluster.create(machine.with_(metadata=machine.metadata.with_(namespace=namespace)))
        told: list[str] = []

        async def settle() -> None:
            for _ in range(10):
                written = 0
                for stored in (await cluster.list(VirtualMachine, namespace)).items:
                    done = await vm_lifecycle.reconcile(
                        stored, await ListedSources.read(cluster, namespace), cluster, NOW
                    )
                    written += done.written
                    told.extend(event.reason for event in done.events)
                for vmi in (await cluster.list(VirtualMachineInstance, namespace)).items:
                    sources = await ListedSources.read(cluster, namespace)
                    done = await standalone.reconcile(sources, cluster, vmi.key, NOW, SETTINGS)
                    written += done.written
                    told.extend(event.reason for event in done.events)
                if not written:
                    return
            raise AssertionError("nothing settles")

        await settle()
        assert told == ["InstanceCreated"]
        vmi = await cluster.get(VirtualMachineInstance, "fedora", namespace)
        assert vmi.status.phase == "Scheduling"
        (pod,) = (await cluster.list(Pod, namespace)).items
        assert json.loads(pod.metadata.annotations["virt-dra.io/vmi"])["metadata"]["uid"] == vmi.metadata.uid
        ended = {
            "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": "no such device",
                "startedAt": None,
                "finishedAt": None,
            }
        }
        status = {"phase": "Failed", "containerStatuses": [
            {"name": "compute", "ready": False, "restartCount": 0, "image": "i", "imageID": "", "state": ended}
        ]}  # fmt: skip
        await cluster.patch(Pod, pod.name, namespace, merge={"status": status}, subresource="status")
        told.clear()
        await settle()
        assert told == ["LauncherFailed", "InstanceDeleted"]
        machine = await cluster.get(VirtualMachine, "fedora", namespace)
        assert (machine.status["printableStatus"], machine.status["startFailure"]["consecutiveFailCount"]) == (
            "CrashLoopBackOff",
            1,
        )
        await settle()

    await lived(control_plane, namespace, life)


async def test_standalone_with_a_network_from_a_claim(control_plane: ControlPlane, namespace: str) -> None:
    """The pod's volume, with a file in folders of its own, is one that an API server takes; so is the file's
    annotation."""

    async def life(cluster: KubeCluster, namespace: str) -> None:
        made = vmi_with_network(gpus=0)
        await cluster.create(made.with_(metadata=made.metadata.with_(namespace=namespace)))

        async def reconcile() -> int:
            key, written = f"{namespace}/fedora", 0
            while True:
                done = await standalone.reconcile(
                    await ListedSources.read(cluster, namespace), cluster, key, NOW, WITH_NETWORKS
                )
                written += done.written
                if not done.stale:
                    return written

        assert await reconcile() == 2
        (pod,) = (await cluster.list(Pod, namespace)).items
        items = (pod.spec.volumes[0].downward_api or {})["items"]
        assert [item["path"] for item in items][2:] == [
            "dra-device-attributes/resourceclaimtemplates/nics/vf/virt-dra.io-metadata.json"
        ]
        names = {
            "metadata": {"annotations": {metadata_annotation("nics", "vf"): "{}", "virt-dra.io/device-status": None}}
        }
        assert (await cluster.patch(Pod, pod.name, namespace, merge=names)).metadata.annotations[
            "metadata.virt-dra.io/nics.vf"
        ] == "{}"
        await reconcile()
        assert await reconcile() == 0
        assert (await cluster.get(VirtualMachineInstance, "fedora", namespace)).status.device_status is None

    await lived(control_plane, namespace, life)
