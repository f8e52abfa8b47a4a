"""The tests' own drivers and kubelets, on the embedded cluster and on a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from devtools.agents.worlds import embedded_world, eventually, real_world
from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.core_v1 import Node, Pod
from virt_dra.api.integration.device_metadata import BASE
from virt_dra.api.integration.paths import ADDRESSES_READY_ANNOTATION, WAIT_CONTAINER, WAIT_DIRECTORY, WAIT_FILE
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaint, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.port import Cluster, NotFound
from virt_dra.simulator.agents.containers import RunningContainer
from virt_dra.simulator.agents.driver import Driver
from virt_dra.simulator.agents.hardware import HardwarePool, pci_devices, pools_of_nodes
from virt_dra.simulator.agents.kubelet import Kubelet

Place = Callable[[], AbstractAsyncContextManager[tuple[Cluster, str]]]


@pytest.fixture(params=["memory", pytest.param("kube", marks=pytest.mark.control_plane)])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "memory":
        return embedded_world
    control_plane = request.getfixturevalue("control_plane")
    return lambda: real_world(control_plane)


@dataclass
class World:
    cluster: Cluster
    namespace: str
    driver: Driver
    kubelet: Kubelet

    async def pod(self, name: str) -> Pod:
        return await self.cluster.get(Pod, name, self.namespace)

    async def running(self, name: str) -> tuple[Pod, RunningContainer]:
        pod = await eventually(lambda: self.pod(name), lambda pod: pod.status.phase == "Running")
        container = self.kubelet.container(pod.metadata.uid)
        assert container is not None
        return pod, container


@asynccontextmanager
async def world(place: Place, folder: Path, *, count: int = 2, metadata: bool = True) -> AsyncIterator[World]:
    """A node with devices of a driver, a class that selects them, a template ``one`` for one of them. Names are the
    namespace's own."""
    async with place() as (cluster, namespace), AsyncExitStack() as stack:
        node, name = f"node-{namespace}", f"{namespace}.example.com"
        driver = Driver(cluster, pools_of_nodes(name, (node,), pci_devices(count)), metadata=metadata)
        kubelet = Kubelet(cluster, (node,), (driver,), folder)
        selector: Json = {"cel": {"expression": f'device.driver == "{name}"'}}
        await cluster.create(DeviceClass.from_wire({"metadata": {"name": name}, "spec": {"selectors": [selector]}}))
        stack.push_async_callback(cluster.delete, DeviceClass, name)
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": name}}]}
        template = {"metadata": {"name": "one", "namespace": namespace}, "spec": {"spec": {"devices": devices}}}
        await cluster.create(ResourceClaimTemplate.from_wire(template))
        await kubelet.register()
        stack.push_async_callback(kubelet.unregister)
        await driver.publish()
        stack.push_async_callback(driver.withdraw)
        async with kubelet.running():
            yield World(cluster, namespace, driver, kubelet)


def pod(namespace: str, name: str = "vm", **spec: object) -> Pod:
    """A pod with a container ``compute`` that uses the claim ``gpu``, made of the template ``one``."""
    whole: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "compute", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        **spec,
    }
    return Pod.from_wire({"metadata": {"name": name, "namespace": namespace}, "spec": whole})


async def test_a_container_gets_the_metadata_file_of_its_device(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path) as here:
        await here.cluster.create(pod(here.namespace))
        launcher, container = await here.running("vm")
        (claim,) = (await here.cluster.list(ResourceClaim, here.namespace)).items
        assert claim.status.allocation is not None
        (result,) = claim.status.allocation.devices.results
        ((path, text),) = container.metadata_files().items()
        assert path == f"{BASE}/resourceclaimtemplates/gpu/gpu/{here.driver.name}-metadata.json"
        number = int(result.device.removeprefix("gpu-"))
        assert json.loads(text) == {
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "kind": "DeviceMetadata",
            "metadata": {"name": claim.name, "namespace": here.namespace, "uid": claim.metadata.uid, "generation": 1},
            "podClaimName": "gpu",
            "requests": [{
                "name": "gpu",
                "devices": [{
                    "driver": here.driver.name, "pool": launcher.spec.node_name, "name": result.device,
                    "attributes": {"resource.kubernetes.io/pciBusID": {"string": f"0000:01:{number:02x}.0"}},
                }],
            }],
        }  # fmt: skip
        conditions = {condition.type: condition.status for condition in launcher.status.conditions}
        assert (conditions["Ready"], conditions["ContainersReady"], conditions["Initialized"]) == (
            "True",
            "True",
            "True",
        )
        await here.cluster.delete(Pod, "vm", here.namespace)
        await eventually(lambda: gone(here.cluster, here.namespace, "vm"))
        await eventually(lambda: no_claims(here))
        assert here.driver.prepared == {}


async def gone(cluster: Cluster, namespace: str, name: str) -> bool:
    try:
        await cluster.get(Pod, name, namespace)
    except NotFound:
        return True
    return False


async def no_claims(here: World) -> bool:
    return not (await here.cluster.list(ResourceClaim, here.namespace)).items


async def test_annotations_are_files_that_follow_them(place: Place, tmp_path: Path) -> None:
    volume: Json = {
        "items": [{"path": "a/told", "fieldRef": {"fieldPath": "metadata.annotations['example.com/told']"}}]
    }

    async with world(place, tmp_path) as here:
        spec = pod(here.namespace).to_wire()["spec"]
        spec["volumes"] = [{"name": "told", "downwardAPI": volume}]
        spec["containers"][0]["volumeMounts"] = [{"name": "told", "mountPath": "/told"}]
        await here.cluster.create(pod(here.namespace, **spec))
        _, container = await here.running("vm")
        assert container.path("/told/a/told").read_text() == ""
        for text in ("first", "", "second"):
            merge = {"metadata": {"annotations": {"example.com/told": text}}}
            await here.cluster.patch(Pod, "vm", here.namespace, merge=merge)
            await eventually(lambda: content(container, "/told/a/told"), lambda shown, text=text: shown == text)  # type: ignore[misc]


async def content(container: RunningContainer, path: str) -> str:
    return container.text(path)


async def test_an_init_container_holds_the_others_and_their_variables_back(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path) as here:
        ready = {"fieldRef": {"fieldPath": f"metadata.annotations['{ADDRESSES_READY_ANNOTATION}']"}, "path": WAIT_FILE}
        spec = pod(here.namespace).to_wire()["spec"]
        spec["volumes"] = [{"name": "w", "downwardAPI": {"items": [ready]}}]
        mounts = [{"name": "w", "mountPath": WAIT_DIRECTORY}]
        spec["initContainers"] = [{"name": WAIT_CONTAINER, "image": "i", "volumeMounts": mounts}]
        field = {"fieldRef": {"fieldPath": "metadata.annotations['example.com/address']"}}
        spec["containers"][0]["env"] = [{"name": "ADDRESS", "valueFrom": field}]
        await here.cluster.create(pod(here.namespace, **spec))
        waiting = await eventually(lambda: here.pod("vm"), lambda pod: bool(pod.status.container_statuses))
        assert here.kubelet.container(waiting.metadata.uid) is None
        for annotations in ({"example.com/address": "0000:01:00.0"}, {ADDRESSES_READY_ANNOTATION: "true"}):
            await here.cluster.patch(Pod, "vm", here.namespace, merge={"metadata": {"annotations": annotations}})
        _, container = await here.running("vm")
        assert container.environment["ADDRESS"] == "0000:01:00.0"


async def test_a_driver_that_fails_or_vanishes_holds_pods_back_until_it_works(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path) as here:
        here.driver.failure = "the firmware doesn't answer"
        await here.cluster.create(pod(here.namespace))
        waiting = await eventually(lambda: here.pod("vm"), lambda pod: bool(pod.status.container_statuses))
        (status,) = waiting.status.container_statuses
        assert status.state.waiting is not None
        claim = waiting.status.resource_claim_statuses[0].resource_claim_name
        problem = (
            "prepare dynamic resources: NodePrepareResources failed for "
            f"ResourceClaim {claim}: the firmware doesn't answer"
        )
        assert (status.state.waiting.reason, status.state.waiting.message) == ("ContainerCreating", problem)
        here.driver.failure = ""
        await here.running("vm")
        await here.driver.withdraw()
        assert not (await here.cluster.list(ResourceSlice, fields=f"spec.driver={here.driver.name}")).items
        await here.cluster.create(pod(here.namespace, "second"))
        await here.driver.come_back()
        (slice_,) = (await here.cluster.list(ResourceSlice, fields=f"spec.driver={here.driver.name}")).items
        assert slice_.spec.pool.generation == 2
        await here.running("second")


async def test_health_that_a_driver_reports_is_in_the_pods_status(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path, count=1) as here:
        await here.cluster.create(pod(here.namespace))
        launcher, _ = await here.running("vm")
        assert launcher.status.container_statuses[0].allocated_resources_status == ()
        assert launcher.spec.node_name is not None
        here.driver.set_health(launcher.spec.node_name, "gpu-0", "Unhealthy", "XID 79")
        told = await eventually(
            lambda: here.pod("vm"), lambda pod: bool(pod.status.container_statuses[0].allocated_resources_status)
        )
        (claim,) = (await here.cluster.list(ResourceClaim, here.namespace)).items
        (status,) = told.status.container_statuses[0].allocated_resources_status
        assert status.name == "claim:gpu/gpu"
        (resource,) = status.resources
        assert resource.resource_id == f"{here.driver.name}/device={claim.metadata.uid}-gpu-0"
        assert resource.health == "Unhealthy"


async def test_a_program_that_fails_ends_its_pod_with_its_last_words(place: Place, tmp_path: Path) -> None:
    async def program(container: RunningContainer) -> int:
        container.path("/dev").mkdir()
        container.path("/dev/termination-log").write_text("no such device")
        return 3

    async with world(place, tmp_path) as here:
        here.kubelet.programs["compute"] = program
        await here.cluster.create(pod(here.namespace))
        failed = await eventually(lambda: here.pod("vm"), lambda pod: pod.status.phase == "Failed")
        ended = failed.status.container_statuses[0].state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "no such device")


async def test_a_probe_that_looks_for_a_file_decides_readiness(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path) as here:
        spec = pod(here.namespace).to_wire()["spec"]
        spec["containers"][0]["readinessProbe"] = {"exec": {"command": ["cat", "/run/ready"]}}
        await here.cluster.create(pod(here.namespace, **spec))
        launcher, container = await here.running("vm")
        assert launcher.status.container_statuses[0].ready is False
        container.path("/run").mkdir()
        container.path("/run/ready").touch()
        await eventually(lambda: here.pod("vm"), lambda pod: pod.status.container_statuses[0].ready is True)


async def test_a_kubelet_that_was_away_and_a_slow_driver_come_to_it_in_the_end(place: Place, tmp_path: Path) -> None:
    async with world(place, tmp_path) as here:
        await here.cluster.create(pod(here.namespace))
        first, container = await here.running("vm")
        here.kubelet.present = False
        here.driver.delay = 0.1
        await here.cluster.create(pod(here.namespace, "second"))
        bound = await eventually(lambda: here.pod("second"), lambda pod: bool(pod.spec.node_name))
        await asyncio.sleep(0.1)
        assert here.kubelet.container(bound.metadata.uid) is None
        here.kubelet.present = True
        await here.running("second")
        assert (await here.pod("vm")).status.container_statuses == first.status.container_statuses
        assert here.kubelet.container(first.metadata.uid) is container


async def test_a_changed_annotation_is_in_volumes_after_a_while_and_never_in_a_sub_path(
    place: Place, tmp_path: Path
) -> None:
    item = {"path": "told", "fieldRef": {"fieldPath": "metadata.annotations['example.com/told']"}}

    async with world(place, tmp_path) as here:
        here.kubelet.refresh = 0.4
        spec = pod(here.namespace).to_wire()["spec"]
        spec["volumes"] = [{"name": "told", "downwardAPI": {"items": [item]}}]
        mounts = [{"name": "told", "mountPath": "/told"}, {"name": "told", "mountPath": "/once", "subPath": "told"}]
        spec["containers"][0]["volumeMounts"] = mounts
        await here.cluster.create(pod(here.namespace, **spec))
        _, container = await here.running("vm")
        before = asyncio.get_running_loop().time()
        await here.cluster.patch(
            Pod, "vm", here.namespace, merge={"metadata": {"annotations": {"example.com/told": "new"}}}
        )
        await eventually(lambda: content(container, "/told/told"), lambda shown: shown == "new")
        assert asyncio.get_running_loop().time() - before >= 0.3
        assert container.text("/once") == ""


@pytest.mark.control_plane
async def test_pods_are_started_after_a_restart_of_the_api_server(control_plane: ControlPlane, tmp_path: Path) -> None:
    """By the scheduler, controllers and kubelets that ran before; what ran goes on."""

    async with world(lambda: real_world(control_plane), tmp_path) as here:
        await here.cluster.create(pod(here.namespace))
        first, _ = await here.running("vm")
        await asyncio.to_thread(control_plane.restart_api_server)
        await here.cluster.create(pod(here.namespace, "second"))
        await here.running("second")
        assert (await here.pod("vm")).status.container_statuses == first.status.container_statuses


async def test_a_pool_is_published_over_several_slices_and_changes_by_generations(place: Place) -> None:
    async with place() as (cluster, namespace):
        name = f"{namespace}.example.com"
        driver = Driver(cluster, (HardwarePool(name, "pool", pci_devices(5), per_slice=2),))

        async def published() -> list[tuple[int, int, list[str]]]:
            slices = (await cluster.list(ResourceSlice, fields=f"spec.driver={name}")).items
            return sorted(
                (
                    slice_.spec.pool.generation,
                    slice_.spec.pool.resource_slice_count,
                    [device.name for device in slice_.spec.devices],
                )
                for slice_ in slices
            )

        await driver.publish()
        assert await published() == [(1, 3, ["gpu-0", "gpu-1"]), (1, 3, ["gpu-2", "gpu-3"]), (1, 3, ["gpu-4"])]
        await driver.taint("pool", "gpu-4", DeviceTaint(key="example.com/hot", effect="NoSchedule"))
        assert [generation for generation, _, _ in await published()] == [2, 2, 2]
        (tainted,) = [
            device for slice_ in (await cluster.list(ResourceSlice,
                fields=f"spec.driver={name}")).items for device in slice_.spec.devices
            if device.taints
        ]  # fmt: skip
        assert (tainted.name, tainted.taints[0].key) == ("gpu-4", "example.com/hot")
        await driver.change(driver.pools[0].next_generation(pci_devices(1)))
        assert await published() == [(3, 1, ["gpu-0"])]
        await driver.withdraw()
        assert await published() == []


async def test_nodes_are_registered_once_and_twice(place: Place, tmp_path: Path) -> None:
    async with place() as (cluster, namespace):
        kubelet = Kubelet(cluster, (f"node-{namespace}",), (), tmp_path)
        for _ in range(2):
            await kubelet.register()
            node = await cluster.get(Node, f"node-{namespace}")
            assert (node.spec.taints, node.metadata.labels["kubevirt.io/schedulable"]) == ((), "true")
            assert str(node.status.allocatable["devices.kubevirt.io/kvm"]) == "1k"
        await kubelet.unregister()
