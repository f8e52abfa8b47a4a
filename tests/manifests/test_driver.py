"""manifests/driver: what the node driver may do, with whose token, and that it is enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane
from node_driver.devices import DeviceKind, PassthroughDevice, PublishedSet
from node_driver.publishing import Publisher
from node_driver.slices import PoolOwner, plan_slices, slice_contents
from tests.manifests.acting import acting_as
from virt_dra.api.integration.known_drivers import KNOWN_DRIVERS
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.kube.cluster import connect
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import DRIVER_NAMESPACE, Choices, ObjectKey, packaged, planned

Json = dict[str, Any]
DRIVER, NAME = "passthrough.virt-dra.io", "virt-dra-driver"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def objects(kind: str) -> list[Json]:
    return [obj for obj in build(packaged(), "driver") if obj["kind"] == kind]


def test_a_class_for_each_kind_of_device() -> None:
    selectors = {obj["metadata"]["name"]: obj["spec"]["selectors"] for obj in objects("DeviceClass")}
    assert selectors == {
        f"{kind}.virt-dra.io": [
            {
                "cel": {
                    "expression": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "{kind}"',
                }
            }
        ]
        for kind in DeviceKind
    }
    assert set(KNOWN_DRIVERS[DRIVER].classes) == selectors.keys()


def test_the_container_is_privileged_and_gets_no_more_of_the_node_than_it_needs() -> None:
    """The parts of the node that D-54 lists, and no other host path."""
    (daemon_set,) = objects("DaemonSet")
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert {key for key in spec if key.startswith("host")} == {"hostPID", "hostNetwork"}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert sorted(paths.values()) == [
        "/dev", "/lib/modules", "/sys", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi",
    ]  # fmt: skip
    # the kubelet and the runtime are told paths
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {*paths.values(), "/tmp"}
    assert spec["priorityClassName"] == "system-node-critical"
    assert [mount["name"] for mount in container["volumeMounts"] if mount.get("readOnly")] == ["modules"]


def test_what_its_account_may_do() -> None:
    """The verbs of D-53, no more."""
    rules = [rule for role in objects("ClusterRole") for rule in role["rules"]]
    granted = {resource: sorted(rule["verbs"]) for rule in rules for resource in rule["resources"]}
    assert granted == {
        "resourceclaims": ["get"],
        "resourceslices": ["create", "delete", "get", "list", "patch", "update", "watch"],
        "virtdranodepolicies": ["list", "watch"],
        "nodes": ["get"],
    }
    assert not objects("Role")


def test_install_adds_it_and_moves_only_the_rest_to_another_namespace() -> None:
    plain, with_driver = (
        planned(Choices(namespace="elsewhere", parts=parts, image="registry/virt-dra:1"), packaged())
        for parts in (frozenset[str](), frozenset({"driver"}))
    )
    added = {ObjectKey.from_object(obj) for obj in with_driver} - {ObjectKey.from_object(obj) for obj in plain}
    assert added == {ObjectKey.from_object(obj) for obj in build(packaged(), "driver")}
    assert {key.namespace for key in added} == {"", DRIVER_NAMESPACE}
    (daemon_set,) = (obj for obj in with_driver if obj["kind"] == "DaemonSet")
    assert [entry["image"] for entry in daemon_set["spec"]["template"]["spec"]["containers"]] == ["registry/virt-dra:1"]
    (policy,) = (obj for obj in with_driver if obj["metadata"]["name"] == "virt-dra-driver-slices"
                 and obj["kind"] == "ValidatingAdmissionPolicy")  # fmt: skip
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"].endswith(f'"system:serviceaccount:{DRIVER_NAMESPACE}:{NAME}"')


# --- a stolen token, and the driver itself, on a real API server ------------------------------------------------------


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The driver's objects are there, two nodes, and a pod of the driver on each."""
    made = [obj for obj in build(packaged(), "driver") if obj["kind"] != "DaemonSet"]

    async def apply() -> None:
        async with connect(str(control_plane.kubeconfig)) as admin:
            for obj in made:
                await admin.apply(obj, field_manager="test", force=True)

    asyncio.run(apply())
    for node in ("driver-a", "driver-b"):
        control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        pod = {
            "metadata": {"name": f"driver-on-{node}"},
            "spec": {
                "nodeName": node,
                "serviceAccountName": NAME,
                "containers": [{"name": "driver", "image": "virt-dra:test"}],
            },
        }
        control_plane.request("POST", f"/api/v1/namespaces/{DRIVER_NAMESPACE}/pods", pod)
    unbound = control_plane.kubeconfig_of_service_account(DRIVER_NAMESPACE, NAME)
    end = time.monotonic() + 60
    with acting_as(control_plane, unbound) as ask:
        while ask("POST", SLICES, slice_of(control_plane, "driver-a"))[0] != 422 and time.monotonic() < end:
            time.sleep(0.1)  # an API server takes a new policy into account within a second or so
    try:
        yield control_plane
    finally:
        control_plane.request("DELETE", f"{SLICES}?fieldSelector=spec.driver%3D{DRIVER}")
        for node in ("driver-a", "driver-b"):
            control_plane.request("DELETE", f"/api/v1/nodes/{node}")

        async def remove() -> None:
            async with connect(str(control_plane.kubeconfig)) as admin:
                for obj in reversed(made):
                    metadata = obj["metadata"]
                    await admin.delete_raw(
                        obj["apiVersion"], obj["kind"], metadata["name"], metadata.get("namespace", "")
                    )

        asyncio.run(remove())


def token_of(plane: ControlPlane, node: str, folder: Path) -> Path:
    """A kubeconfig with the token that the kubelet mounts into the driver's pod on a node; "" for a token that is
    bound to no pod."""
    config = yaml.safe_load(plane.kubeconfig_of_service_account(DRIVER_NAMESPACE, NAME).read_text())
    if node:
        pod = plane.request("GET", f"/api/v1/namespaces/{DRIVER_NAMESPACE}/pods/driver-on-{node}")
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        answer = plane.request(
            "POST",
            f"/api/v1/namespaces/{DRIVER_NAMESPACE}/serviceaccounts/{NAME}/token",
            {"spec": {"boundObjectRef": bound}},
        )
        config["users"][0]["user"]["token"] = answer["status"]["token"]
    path = folder / f"{node or 'unbound'}.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def slice_of(plane: ControlPlane, node: str, driver: str = DRIVER) -> Json:
    """A slice of one device whose owner is the Node as it is: garbage collection removes slices of any other UID."""
    uid = plane.request("GET", f"/api/v1/nodes/{node}")["metadata"]["uid"]
    contents = slice_contents(PublishedSet((PassthroughDevice("pci-1", DeviceKind.VFIO, ""),)), {})
    (made,) = plan_slices(contents, (), PoolOwner(driver, node, uid)).creates.values()
    return made.to_wire()


@pytest.mark.control_plane
def test_a_token_publishes_the_devices_of_its_own_node_only(plane: ControlPlane, tmp_path: Path) -> None:
    there = plane.request("POST", SLICES, slice_of(plane, "driver-b"))
    own = plane.request("POST", SLICES, slice_of(plane, "driver-a"))
    other_driver = plane.request("POST", SLICES, slice_of(plane, "driver-a", "gpu.example.com"))
    only_own = "the driver on node driver-a publishes this node's devices only"
    only_ours = f"only slices of {DRIVER} are the driver's"
    with acting_as(plane, token_of(plane, "driver-a", tmp_path)) as ask:
        status, text = ask("POST", SLICES, slice_of(plane, "driver-a"))
        assert status == 201, text
        assert ask("DELETE", f"{SLICES}/{own['metadata']['name']}")[0] == 200
        for verb, path, body, reason in (
            ("POST", SLICES, slice_of(plane, "driver-b"), only_own),
            ("POST", SLICES, slice_of(plane, "driver-a", "gpu.example.com"), only_ours),
            ("PUT", f"{SLICES}/{there['metadata']['name']}", there, only_own),
            ("PATCH", f"{SLICES}/{there['metadata']['name']}", {"metadata": {"labels": {"a": "b"}}}, only_own),
            ("DELETE", f"{SLICES}/{there['metadata']['name']}", None, only_own),
            ("DELETE", f"{SLICES}/{other_driver['metadata']['name']}", None, only_ours),
        ):
            status, text = ask(verb, path, body)
            assert (status, reason in text) == (422, True), (verb, path, text)
        for path in (
            "/api/v1/secrets", "/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims", "/api/v1/nodes",
        ):  # fmt: skip
            assert ask("GET", path)[0] == 403
    with acting_as(plane, token_of(plane, "", tmp_path)) as ask:
        status, text = ask("POST", SLICES, slice_of(plane, "driver-a"))
        assert (status, "the token belongs to no pod on a node" in text) == (422, True)


@pytest.mark.control_plane
async def test_its_rights_are_enough_to_publish(plane: ControlPlane, tmp_path: Path) -> None:
    async with connect(str(token_of(plane, "driver-a", tmp_path))) as cluster:
        publisher = Publisher(cluster, DRIVER, "driver-a")
        task = asyncio.create_task(publisher.run())
        for count in (65, 64):  # creates, updates, deletes
            devices = tuple(PassthroughDevice(f"pci-{number}", DeviceKind.VFIO, "") for number in range(count))
            publisher.publish(slice_contents(PublishedSet(devices), {}))
            await asyncio.wait_for(publisher.published(), 10)
        slices = (await cluster.list(ResourceSlice, fields="spec.nodeName=driver-a")).items
        assert [len(obj.spec.devices) for obj in slices if obj.spec.driver == DRIVER] == [64]
        task.cancel()
