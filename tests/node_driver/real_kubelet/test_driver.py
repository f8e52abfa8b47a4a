"""The node driver's process beside a real kubelet, which runs pods with its devices. The kernel is a tree of files;
tests/hardware has a real one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from devtools.real_node.here import Node
from tests.node_driver.real_kubelet.driving import (
    CLAIMS,
    DRIVER,
    HOST_ROOT,
    USER,
    claimed,
    create_claim,
    create_pod,
    devices,
    eventually,
    runs,
    slices,
    start_driver,
    wait_for_event,
)  # fmt: skip

pytestmark = [pytest.mark.control_plane, pytest.mark.node]


def test_a_pod_has_its_device_and_reads_of_it_until_it_is_deleted(driver: Node) -> None:
    """The device nodes are those of the pod's user, the node's stay as they were (D-55)."""
    create_claim(driver, "one")
    create_pod(driver, "user", "one")
    runs(driver, "user")
    address, group = claimed(driver, "one")
    assert driver.exec("user", "ls", "/dev/vfio").split() == [group, "vfio"]
    owners = driver.exec("user", "busybox", "stat", "-c", "%u:%g", f"/dev/vfio/{group}", "/dev/vfio/vfio")
    assert owners.split() == [f"{USER}:{USER}"] * 2
    on_the_node = [(driver.folder / HOST_ROOT / "dev" / "vfio" / name).stat() for name in (group, "vfio")]
    assert [(status.st_uid, status.st_gid) for status in on_the_node] == [(0, 0)] * 2
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/one/device"
    newest, _ = json.JSONDecoder().raw_decode(driver.exec("user", "cat", f"{folder}/{DRIVER}-metadata.json"))
    (device,) = newest["requests"][0]["devices"]
    assert device["attributes"]["resource.kubernetes.io/pciBusID"] == {"string": address}
    assert len(list(driver.folders.cdi.iterdir())) == 2
    driver.delete_pod("user")
    eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/one")


def test_a_pod_of_a_driver_that_was_killed_is_released_by_the_one_that_follows(driver: Node) -> None:
    create_claim(driver, "two")
    create_pod(driver, "user-2", "two")
    runs(driver, "user-2")
    driver.stop("first", signal.SIGKILL)
    start_driver(driver, "second")
    eventually(lambda: len(devices(driver)) == 2, driver)
    driver.delete_pod("user-2")
    eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/two")
    driver.stop("second", signal.SIGTERM)
    assert {taint["key"] for device in devices(driver) for taint in device["taints"]} == {f"{DRIVER}/driver-away"}
    start_driver(driver, "first")
    eventually(lambda: not any(device.get("taints") for device in devices(driver)), driver)


def test_slices_are_published_again_after_a_kubelet_wiped_them(driver: Node) -> None:
    """Which it does when it starts (D-19)."""
    before = {entry["metadata"]["uid"] for entry in slices(driver)}
    driver.stop_kubelet()
    driver.start_kubelet()
    driver.wait_until_ready()
    eventually(lambda: not before & {entry["metadata"]["uid"] for entry in slices(driver)}, driver)
    eventually(lambda: len(devices(driver)) == 2, driver)


def test_a_misspelt_parameter_is_named_in_the_pods_event_and_nothing_is_half_done(driver: Node) -> None:
    parameters = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "PassthroughConfig", "netwrok": {"vlan": 7}}
    create_claim(driver, "misspelt", parameters)
    create_pod(driver, "user-3", "misspelt")
    wait_for_event(driver, "user-3", "misspelt", ".netwrok: unknown field; did you mean network?")
    assert list(driver.folders.cdi.iterdir()) == []
    driver.delete_pod("user-3")
    driver.plane.request("DELETE", f"{CLAIMS}/misspelt")


def test_a_damaged_checkpoint_is_said_in_the_pods_event_until_it_is_deleted(driver: Node) -> None:
    checkpoint = driver.folders.kubelet / "plugins" / DRIVER / "checkpoint.json"
    checkpoint.write_text('{"version": 1, "checksum": "0"}\n{}\n', encoding="utf-8")
    create_claim(driver, "three")
    create_pod(driver, "user-4", "three")
    said = f"the driver's checkpoint was damaged and is kept as {checkpoint}.bad; nothing is prepared or released on"
    wait_for_event(driver, "user-4", "three", said)
    assert list(driver.folders.cdi.iterdir()) == []
    Path(f"{checkpoint}.bad").unlink()  # the administrator has looked
    runs(driver, "user-4")
    driver.delete_pod("user-4")
    eventually(lambda: not list(driver.folders.cdi.iterdir()), driver)
    driver.plane.request("DELETE", f"{CLAIMS}/three")
