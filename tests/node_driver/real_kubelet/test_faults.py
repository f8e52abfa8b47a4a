"""What a pod's Events say when its device can't be prepared, and that nothing is half done then: the node driver's
process beside a real kubelet, with faults of its node, of its policy and of the way to the API server."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from devtools.cluster.scripted_server import CuttingProxy, cutting_proxy
from devtools.deployed.worlds import Background
from devtools.real_node.here import PODS, Node
from tests.node_driver.real_kubelet.driving import (
    BOOT_DISK,
    CLAIMS,
    DATA_DISK,
    DRIVER,
    HOST_ROOT,
    KUBECONFIG,
    MALFORMED,
    MOUNTS,
    NOTHING,
    OURS,
    RESOURCES,
    create_claim,
    create_pod,
    devices,
    eventually,
    held,
    runs,
    slices,
    start_driver,
    wait_for_event,
)  # fmt: skip

pytestmark = [pytest.mark.control_plane, pytest.mark.node]

PATIENCE = 180.0
"""Seconds until a pod runs that couldn't: a kubelet tries later each time."""
OTHER = "other.example.com"


@pytest.fixture
def cut_off(driver: Node) -> Iterator[CuttingProxy]:
    """The way of a driver to the API server, which the kubelet doesn't take."""
    background, port = Background(), driver.plane.port
    kubeconfig = driver.folder / "cut-off.kubeconfig"
    with closing(background), background.entered(cutting_proxy("127.0.0.1", port)) as proxy:
        kubeconfig.write_text((driver.folder / KUBECONFIG).read_text().replace(f":{port}", f":{proxy.port}"))
        with _restarted(driver, kubeconfig=kubeconfig.name):
            yield proxy


def test_without_an_api_server_a_claim_waits_and_says_so(driver: Node, cut_off: CuttingProxy) -> None:
    cut_off.hang = True
    create_claim(driver, "unread")
    create_pod(driver, "reader", "unread")
    said = "ResourceClaim default/unread can't be read from the API server: "
    wait_for_event(driver, "reader", "unread", said)
    assert held(driver) == NOTHING
    cut_off.hang = False
    runs(driver, "reader")
    _delete(driver, "reader", "unread")


def test_a_claim_that_was_replaced_isnt_prepared_for_its_pod(driver: Node, cut_off: CuttingProxy) -> None:
    """A kubelet looks at the claim itself first. The driver does, too, for the moment between both looks: its words are
    tested beside its manager of claims (tests/node_driver/kubelet)."""
    cut_off.hang = True
    create_claim(driver, "replaced")
    create_pod(driver, "late", "replaced")
    wait_for_event(driver, "late", "replaced", "ResourceClaim default/replaced can't be read from the API server: ")
    driver.plane.request("DELETE", f"{CLAIMS}/replaced")
    driver.plane.merge(f"{CLAIMS}/replaced", {"metadata": {"finalizers": None}})
    create_claim(driver, "replaced")
    uid = driver.plane.request("GET", f"{CLAIMS}/replaced")["metadata"]["uid"]
    cut_off.hang = False
    said = f"is not allowed to use ResourceClaim replaced ({uid})"
    eventually(lambda: any(said in event for event in driver.events("late")), driver, retried="late")
    assert held(driver) == NOTHING
    _delete(driver, "late", "replaced")


def test_a_full_disk_stops_claims_until_there_is_room(driver: Node) -> None:
    said = "the driver's checkpoint can't be written: [Errno 28] No space left on device"
    with _full(driver):
        create_claim(driver, "full")
        create_pod(driver, "writer", "full")
        wait_for_event(driver, "writer", "full", said)
        assert held(driver) == NOTHING
    runs(driver, "writer")
    with _full(driver):
        driver.plane.request("DELETE", f"{PODS}/writer")
        eventually(lambda: f"UnprepareResources failed for ResourceClaim full: {said}" in driver.log("kubelet"), driver)
        assert held(driver) != NOTHING
    eventually(lambda: held(driver) == NOTHING, driver, PATIENCE)
    driver.delete_pod("writer", PATIENCE)
    driver.plane.request("DELETE", f"{CLAIMS}/full")


def test_a_claim_that_another_driver_must_prepare_too_leaves_nothing(driver: Node) -> None:
    """The other driver has published its device, and is gone."""
    device_class = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": OTHER},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{OTHER}'"}}]},
    }  # fmt: skip
    pool = {"name": driver.name, "generation": 1, "resourceSliceCount": 1}
    published = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": OTHER},
        "spec": {"driver": OTHER, "nodeName": driver.name, "pool": pool, "devices": [{"name": "theirs"}]},
    }  # fmt: skip
    driver.plane.request("POST", f"{RESOURCES}/deviceclasses", device_class)
    driver.plane.request("POST", f"{RESOURCES}/resourceslices", published)
    classes = {"device": "vfio.virt-dra.io", "other": OTHER}
    requests = [{"name": name, "exactly": {"deviceClassName": wanted}} for name, wanted in classes.items()]
    claim = {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mixed"},
        "spec": {"devices": {"requests": requests}},
    }  # fmt: skip
    driver.plane.request("POST", CLAIMS, claim)
    create_pod(driver, "both", "mixed")
    said = f"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver {OTHER} is not registered"
    eventually(lambda: any(said in event for event in driver.events("both")), driver)
    assert held(driver) == NOTHING
    _delete(driver, "both", "mixed")
    driver.plane.request("DELETE", f"{RESOURCES}/resourceslices/{OTHER}")
    driver.plane.request("DELETE", f"{RESOURCES}/deviceclasses/{OTHER}")


def test_a_function_that_lost_its_iommu_group_is_refused_until_it_is_back(driver: Node) -> None:
    group = driver.folder / HOST_ROOT / "sys" / "devices" / "pci0000:00" / "0000:00:04.0" / "iommu_group"
    target = group.readlink()
    with _restarted(driver):
        create_claim(driver, "odd", address="0000:00:04.0")
        group.unlink()
        try:
            create_pod(driver, "unlucky", "odd")
            wait_for_event(driver, "unlucky", "odd", "the kernel gave 0000:00:04.0 no IOMMU group within 5 s")
            eventually(lambda: held(driver) == NOTHING, driver)
        finally:
            group.symlink_to(target)
        runs(driver, "unlucky")
        _delete(driver, "unlucky", "odd")


@pytest.mark.parametrize(
    ("selected", "published", "reasons"),
    [
        ('{vendor: "1235"}', [], ["test/all isn't published (NothingSelected)"]),
        (f'{{address: "{BOOT_DISK}"}}', [], [f"{BOOT_DISK} isn't published (Protected): it has the disk nvme0n1p1"]),
        (
            "{}",
            ["0000:00:03.0", "0000:00:04.0", DATA_DISK],
            [f"{BOOT_DISK} isn't published (Protected)", f"{MALFORMED} isn't published (Unreadable)"],
        ),
    ],
    ids=["nothing", "the boot disk", "everything"],
)
def test_a_policy_publishes_what_the_node_can_spare(
    driver: Node, selected: str, published: list[str], reasons: list[str]
) -> None:
    """The pool is there, even when it is empty (D-21), and a pod for it says that there is nothing."""
    with _restarted(driver, selected):
        eventually(lambda: _addresses(driver) == published, driver)
        assert len(slices(driver)) == 1
        log = driver.log("first")
        assert [reason for reason in reasons if reason not in log] == []
        if not published:
            create_claim(driver, "unmet")
            create_pod(driver, "waiting", "unmet")
            said = "FailedScheduling: 0/1 nodes are available: 1 cannot allocate all claims."
            eventually(lambda: any(event.startswith(said) for event in driver.events("waiting")), driver)
            _delete(driver, "waiting", "unmet")


def test_a_disk_that_was_mounted_since_it_was_published_is_refused(driver: Node) -> None:
    mounts = driver.folder / HOST_ROOT / "proc" / "1" / "mountinfo"
    with _restarted(driver, f'{{address: "{DATA_DISK}"}}'):
        eventually(lambda: _addresses(driver) == [DATA_DISK], driver)
        create_claim(driver, "disk", address=DATA_DISK)
        mounts.write_text(f"{MOUNTS}23 22 259:32 / /data rw - ext4 /dev/nvme1n1 rw\n")
        try:
            create_pod(driver, "taker", "disk")
            wait_for_event(driver, "taker", "disk", f"{DATA_DISK} has the disk nvme1n1, which is mounted at /data")
            eventually(lambda: held(driver) == NOTHING, driver)
            _delete(driver, "taker", "disk")
        finally:
            mounts.write_text(MOUNTS)


@contextmanager
def _restarted(node: Node, selected: str = OURS, *, kubeconfig: str = KUBECONFIG) -> Iterator[None]:
    """With another process of the driver, which has just looked at everything; afterwards the usual one."""
    node.stop("first", signal.SIGTERM)
    try:
        (node.folder / "first.log").write_text("")
        start_driver(node, "first", selected=selected, kubeconfig=kubeconfig)
        eventually(lambda: "serves" in node.log("first") and not _away(node), node)
        yield
    finally:
        node.stop("first", signal.SIGTERM)
        start_driver(node, "first")
        eventually(lambda: len(devices(node)) == 2 and not _away(node), node)


def _away(node: Node) -> bool:
    return any(device.get("taints") for device in devices(node))


def _addresses(node: Node) -> list[str]:
    return [device["attributes"]["resource.kubernetes.io/pciBusID"]["string"] for device in devices(node)]


def _delete(node: Node, pod: str, claim: str) -> None:
    """Deletes both; what was prepared for them must go."""
    node.delete_pod(pod)
    eventually(lambda: held(node) == NOTHING, node)
    node.plane.request("DELETE", f"{CLAIMS}/{claim}")


@contextmanager
def _full(node: Node) -> Iterator[None]:
    """With a file that takes all the room of the driver's folder."""
    filler = node.folders.kubelet / "plugins" / DRIVER / "filler"
    try:
        _fill(filler)
        yield
    finally:
        filler.unlink(missing_ok=True)


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        for _ in range(1 << 10):
            try:
                file.write(bytes(4096))
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    return
                raise
    raise AssertionError("the disk is larger than it was made")
