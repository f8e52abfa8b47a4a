"""The tests' own drivers and kubelets, on the embedded cluster and on a real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.cluster.agents.containers import MountClash, RunningContainer, write_mounted_file, write_volume
from tests.cluster.agents.downward import UnsupportedField, environment, field_value
from tests.cluster.agents.driver import Driver
from tests.cluster.agents.hardware import Gadget, Pool, mdev_devices, pci_devices, pools_of_nodes
from tests.cluster.agents.kubelet import Kubelet
from tests.cluster.agents.worlds import embedded_world, eventually, real_world
from virt_dra.api.core_v1 import Container, EnvVar, Node, Pod, PodSpec
from virt_dra.api.device_metadata import BASE
from virt_dra.api.integration_paths import ADDRESSES_READY_ANNOTATION, WAIT_CONTAINER, WAIT_DIRECTORY, WAIT_FILE
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.resource_v1 import DeviceClass, DeviceTaint, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from virt_dra.api.wire import Json
from virt_dra.cluster.port import Cluster, NotFound

Place = Callable[[], AbstractAsyncContextManager[tuple[Cluster, str]]]


@pytest.fixture(params=["memory", "kube"])
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
    """A node with devices of a driver, a class that selects them, a template ``one`` for one of them. Names are the namespace's own."""
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


def test_a_container_gets_the_metadata_file_of_its_device(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(place, tmp_path) as here:
            await here.cluster.create(pod(here.namespace))
            found, container = await here.running("vm")
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
                        "driver": here.driver.name, "pool": found.spec.node_name, "name": result.device,
                        "attributes": {"resource.kubernetes.io/pciBusID": {"string": f"0000:01:{number:02x}.0"}},
                    }],
                }],
            }  # fmt: skip
            conditions = {condition.type: condition.status for condition in found.status.conditions}
            assert (conditions["Ready"], conditions["ContainersReady"], conditions["Initialized"]) == ("True", "True", "True")
            await here.cluster.delete(Pod, "vm", here.namespace)
            await eventually(lambda: gone(here.cluster, here.namespace, "vm"))
            await eventually(lambda: no_claims(here))
            assert here.driver.prepared == {}

    asyncio.run(scenario())


async def gone(cluster: Cluster, namespace: str, name: str) -> bool:
    try:
        await cluster.get(Pod, name, namespace)
    except NotFound:
        return True
    return False


async def no_claims(here: World) -> bool:
    return not (await here.cluster.list(ResourceClaim, here.namespace)).items


def test_annotations_are_files_that_follow_them(place: Place, tmp_path: Path) -> None:
    volume: Json = {"items": [{"path": "a/told", "fieldRef": {"fieldPath": "metadata.annotations['example.com/told']"}}]}

    async def scenario() -> None:
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
                await eventually(lambda: content(container, "/told/a/told"), lambda found, text=text: found == text)  # type: ignore[misc]

    asyncio.run(scenario())


async def content(container: RunningContainer, path: str) -> str:
    return container.text(path)


def test_an_init_container_holds_the_others_and_their_variables_back(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(place, tmp_path) as here:
            ready = {"fieldRef": {"fieldPath": f"metadata.annotations['{ADDRESSES_READY_ANNOTATION}']"}, "path": WAIT_FILE}
            spec = pod(here.namespace).to_wire()["spec"]
            spec["volumes"] = [{"name": "w", "downwardAPI": {"items": [ready]}}]
            mounts = [{"name": "w", "mountPath": WAIT_DIRECTORY}]
            spec["initContainers"] = [{"name": WAIT_CONTAINER, "image": "i", "volumeMounts": mounts}]
            field = {"fieldRef": {"fieldPath": "metadata.annotations['example.com/address']"}}
            spec["containers"][0]["env"] = [{"name": "ADDRESS", "valueFrom": field}]
            await here.cluster.create(pod(here.namespace, **spec))
            waiting = await eventually(lambda: here.pod("vm"), lambda found: bool(found.status.container_statuses))
            assert here.kubelet.container(waiting.metadata.uid) is None
            for annotations in ({"example.com/address": "0000:01:00.0"}, {ADDRESSES_READY_ANNOTATION: "true"}):
                await here.cluster.patch(Pod, "vm", here.namespace, merge={"metadata": {"annotations": annotations}})
            _, container = await here.running("vm")
            assert container.environment["ADDRESS"] == "0000:01:00.0"

    asyncio.run(scenario())


def test_a_driver_that_fails_or_vanishes_holds_pods_back_until_it_works(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(place, tmp_path) as here:
            here.driver.failure = "the firmware doesn't answer"
            await here.cluster.create(pod(here.namespace))
            waiting = await eventually(lambda: here.pod("vm"), lambda found: bool(found.status.container_statuses))
            (status,) = waiting.status.container_statuses
            assert status.state.waiting is not None
            assert (status.state.waiting.reason, status.state.waiting.message) == ("ContainerCreating", "the firmware doesn't answer")
            here.driver.failure = ""
            await here.running("vm")
            await here.driver.withdraw()
            assert not (await here.cluster.list(ResourceSlice, fields=f"spec.driver={here.driver.name}")).items
            await here.cluster.create(pod(here.namespace, "second"))
            await here.driver.come_back()
            (slice_,) = (await here.cluster.list(ResourceSlice, fields=f"spec.driver={here.driver.name}")).items
            assert slice_.spec.pool.generation == 2
            await here.running("second")

    asyncio.run(scenario())


def test_health_that_a_driver_reports_is_in_the_pods_status(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(place, tmp_path, count=1) as here:
            await here.cluster.create(pod(here.namespace))
            found, _ = await here.running("vm")
            assert found.status.container_statuses[0].allocated_resources_status == ()
            assert found.spec.node_name is not None
            here.driver.set_health(found.spec.node_name, "gpu-0", "Unhealthy", "XID 79")
            told = await eventually(lambda: here.pod("vm"), lambda pod: bool(pod.status.container_statuses[0].allocated_resources_status))
            (claim,) = (await here.cluster.list(ResourceClaim, here.namespace)).items
            (status,) = told.status.container_statuses[0].allocated_resources_status
            assert status.name == "claim:gpu/gpu"
            (resource,) = status.resources
            assert resource.resource_id == f"{here.driver.name}/device={claim.metadata.uid}-gpu-0"
            assert resource.health == "Unhealthy"

    asyncio.run(scenario())


def test_a_program_that_fails_ends_its_pod_with_its_last_words(place: Place, tmp_path: Path) -> None:
    async def program(container: RunningContainer) -> int:
        container.path("/dev").mkdir()
        container.path("/dev/termination-log").write_text("no such device")
        return 3

    async def scenario() -> None:
        async with world(place, tmp_path) as here:
            here.kubelet.programs["compute"] = program
            await here.cluster.create(pod(here.namespace))
            failed = await eventually(lambda: here.pod("vm"), lambda pod: pod.status.phase == "Failed")
            ended = failed.status.container_statuses[0].state.terminated
            assert ended is not None
            assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "no such device")

    asyncio.run(scenario())


def test_a_probe_that_looks_for_a_file_decides_readiness(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(place, tmp_path) as here:
            spec = pod(here.namespace).to_wire()["spec"]
            spec["containers"][0]["readinessProbe"] = {"exec": {"command": ["cat", "/run/ready"]}}
            await here.cluster.create(pod(here.namespace, **spec))
            found, container = await here.running("vm")
            assert found.status.container_statuses[0].ready is False
            container.path("/run").mkdir()
            container.path("/run/ready").touch()
            await eventually(lambda: here.pod("vm"), lambda pod: pod.status.container_statuses[0].ready is True)

    asyncio.run(scenario())


def test_a_pool_is_published_over_several_slices_and_changes_by_generations(place: Place) -> None:
    async def scenario() -> None:
        async with place() as (cluster, namespace):
            name = f"{namespace}.example.com"
            driver = Driver(cluster, (Pool(name, "pool", pci_devices(5), per_slice=2),))

            async def published() -> list[tuple[int, int, list[str]]]:
                slices = (await cluster.list(ResourceSlice, fields=f"spec.driver={name}")).items
                return sorted(
                    (each.spec.pool.generation, each.spec.pool.resource_slice_count, [device.name for device in each.spec.devices])
                    for each in slices
                )

            await driver.publish()
            assert await published() == [(1, 3, ["gpu-0", "gpu-1"]), (1, 3, ["gpu-2", "gpu-3"]), (1, 3, ["gpu-4"])]
            await driver.taint("pool", "gpu-4", DeviceTaint(key="example.com/hot", effect="NoSchedule"))
            assert [generation for generation, _, _ in await published()] == [2, 2, 2]
            (tainted,) = [
                device for each in (await cluster.list(ResourceSlice, fields=f"spec.driver={name}")).items for device in each.spec.devices
                if device.taints
            ]  # fmt: skip
            assert (tainted.name, tainted.taints[0].key) == ("gpu-4", "example.com/hot")
            await driver.change(driver.pools[0].next_generation(pci_devices(1)))
            assert await published() == [(3, 1, ["gpu-0"])]
            await driver.withdraw()
            assert await published() == []

    asyncio.run(scenario())


# --- the pure parts -----------------------------------------------------------------------------------------------


def test_descriptions_of_hardware() -> None:
    first, *_, last = pci_devices(40, bus=0xFF, key="gpu.example.com/address", model="a100")
    assert first == Gadget(
        "gpu-0", {"model": "a100", "gpu.example.com/address": "0000:ff:00.0"},
        metadata={"model": "a100", "resource.kubernetes.io/pciBusID": "0000:ff:00.0"},
    )  # fmt: skip
    assert last.attributes["gpu.example.com/address"] == "0001:00:07.0"
    uuids = {gadget.attributes["mdevUUID"] for gadget in (*mdev_devices(3), *mdev_devices(3, prefix="other"))}
    assert len(uuids) == 6
    with pytest.raises(ValueError, match="per_slice must be 1 to 64, not 128"):
        Pool("d", "p", (replace(first, taints=(DeviceTaint(key="k", effect="NoSchedule"),)),), per_slice=128)
    with pytest.raises(ValueError, match="pool p: device names must differ: gpu-0, gpu-0"):
        Pool("d", "p", (first, first))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "vm"),
        ("metadata.annotations['example.com/A']", "x\ty"),
        ("metadata.annotations['example.com/missing']", ""),
        ("metadata.annotations", 'b="1"\nexample.com/A="x\\ty"'),
        ("metadata.labels['l']", "v"),
    ],
)
def test_fields_read_as_kubelets_read_them(path: str, value: str) -> None:
    assert field_value(told_pod(), path) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.nodeName", "unsupported fieldPath: spec.nodeName"),
        ("status.podIP['x']", 'fieldPath "status.podIP" does not support subscript'),
    ],
)
def test_fields_that_volumes_cannot_show(path: str, message: str) -> None:
    with pytest.raises(UnsupportedField) as refused:
        field_value(told_pod(), path)
    assert str(refused.value) == message


def told_pod() -> Pod:
    return Pod(
        metadata=ObjectMeta(name="vm", namespace="test", annotations={"example.com/A": "x\ty", "b": "1"}, labels={"l": "v"}),
        spec=PodSpec(node_name="node-1"),
    )


def test_variables_expand_what_is_known_before() -> None:
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    given = [("A", "a"), ("B", "$(A)$(C)$$(A)$x"), ("C", "c"), ("E", None)]
    container = Container(env=(*(EnvVar(name=name, value=value) for name, value in given), EnvVar(name="N", value_from=field)))
    assert environment(told_pod(), container) == {"A": "a", "B": "a$(C)$(A)$x", "C": "c", "E": "", "N": "node-1"}


def test_a_volume_changes_at_once_and_files_that_are_no_longer_named_go(tmp_path: Path) -> None:
    assert write_volume(tmp_path, {"a": "1", "b/c": "2"})
    assert not write_volume(tmp_path, {"a": "1", "b/c": "2"})
    assert write_volume(tmp_path, {"b/c": "3"})
    shown = sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".."))
    assert (shown, (tmp_path / "b" / "c").read_text()) == (["b"], "3")


def test_a_drivers_file_cannot_be_mounted_into_a_volume(tmp_path: Path) -> None:
    with pytest.raises(MountClash, match="can't be mounted: /base/claim/gpu is volume shim"):
        write_mounted_file(tmp_path, "/base/claim/gpu/d-metadata.json", "{}", {"/base/claim/gpu": "shim"})


def test_nodes_are_registered_once_and_twice(place: Place, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with place() as (cluster, namespace):
            kubelet = Kubelet(cluster, (f"node-{namespace}",), (), tmp_path)
            for _ in range(2):
                await kubelet.register()
                node = await cluster.get(Node, f"node-{namespace}")
                assert (node.spec.taints, node.metadata.labels["kubevirt.io/schedulable"]) == ((), "true")
                assert str(node.status.allocatable["devices.kubevirt.io/kvm"]) == "1k"
            await kubelet.unregister()

    asyncio.run(scenario())
