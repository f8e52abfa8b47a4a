"""``virt-dra-launcher`` as a process beside files, as it runs in a pod; the test driver of libvirt starts nothing
real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devtools.libvirt import witness as libvirt_witness
from launcher.process import libvirt_conn
from virt_dra.api.wire import Json

PATIENCE = 30.0
VMI: Json = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "vm", "namespace": "tests", "uid": "2f0e5a4e-9f6b-4a53-9b43-8f3a1f7d6b10"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}],
        "domain": {"devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": "r"}]}},
    },
}
STATUS: Json = {
    "gpuStatuses": [{"name": "g", "deviceResourceClaimStatus": {"attributes": {"pciAddress": "0000:41:00.0"}}}]
}

pytestmark = pytest.mark.libvirt


class Pod:
    """The files of a launcher pod, and its process."""

    def __init__(self, folder: Path) -> None:
        self.info, self.run, self.root = folder / "info", folder / "run", folder / "root"
        self.message = folder / "message"
        self.process: subprocess.Popen[str] | None = None
        self.info.mkdir()

    def write(self, name: str, content: object) -> None:
        """As the kubelet does: exchanged as a whole."""
        new = self.info / f".{name}"
        new.write_text(content if isinstance(content, str) else json.dumps(content))
        new.rename(self.info / name)

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        places = (
            "--info-dir",
            self.info,
            "--run-dir",
            self.run,
            "--root",
            self.root,
            "--termination-message",
            self.message,
        )
        command = [
            sys.executable,
            "-m",
            "launcher.process.entry",
            *map(str, places),
            "--uri",
            "test:///default",
            "--poll",
            "0.02",
            *options,
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as self.process:
            try:
                yield self.process
            finally:
                self.process.kill()

    def eventually(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert self.process is not None
            assert time.monotonic() < end, "it took too long"
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.02)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    libvirt_witness.require_binding()
    return Pod(tmp_path)


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    told = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, told.splitlines()


def test_a_launcher_waits_for_its_devices_then_runs_the_domain_until_it_is_stopped(pod: Pod) -> None:
    pod.write("vmi.json", "")
    pod.write("device-status.json", "")
    with pod.running() as process:
        pod.write("vmi.json", VMI)
        assert process.stderr is not None
        assert "waiting: gpus/g has no address yet\n" in iter(process.stderr.readline, "")
        assert not (pod.run / "ready").exists()
        pod.write("device-status.json", STATUS)
        pod.eventually((pod.run / "ready").exists)
        process.send_signal(signal.SIGTERM)
        code, told = ended(process)

    assert (code, pod.message.exists(), (pod.run / "ready").exists()) == (0, False, False)
    assert told[-2:] == [
        "domain tests_vm runs with 1 host devices",
        "domain tests_vm: shutdown",
    ]
    status = json.loads((pod.run / "status.json").read_text())
    assert (status["phase"], status["reason"], status["devices"]) == ("Ended", "shutdown", [])
    xml = (pod.run / "domain.xml").read_text()
    assert '<address domain="0x0000" bus="0x41" slot="0x00" function="0x0"/>' in xml


def test_a_networks_function_comes_by_a_file_of_the_pods_own_volume(pod: Pod) -> None:
    attributes = {"resource.kubernetes.io/pciBusID": {"string": "0000:3b:02.1"}}
    content = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "requests": [{"name": "vf", "devices": [{"attributes": attributes}]}],
    }
    claims = [{"name": "nics", "resourceClaimTemplateName": "t"}]
    networks = [{"name": "fast", "resourceClaim": {"claimName": "nics", "requestName": "vf"}}]
    devices = {"interfaces": [{"name": "fast", "sriov": {}}]}
    pod.write(
        "vmi.json", {**VMI, "spec": {"resourceClaims": claims, "networks": networks, "domain": {"devices": devices}}}
    )
    place = pod.info / "dra-device-attributes/resourceclaimtemplates/nics/vf/virt-dra.io-metadata.json"
    place.parent.mkdir(parents=True)
    place.write_text("")
    with pod.running() as process:
        assert process.stderr is not None
        assert "waiting: interfaces/fast has no address yet\n" in iter(process.stderr.readline, "")
        place.write_text(json.dumps(content))
        pod.eventually((pod.run / "ready").exists)
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, ["domain tests_vm runs with 1 host devices", "domain tests_vm: shutdown"])
    xml = (pod.run / "domain.xml").read_text()
    assert '<address domain="0x0000" bus="0x3b" slot="0x02" function="0x1"/>' in xml


def test_a_drivers_metadata_file_serves_as_well(pod: Pod) -> None:
    folder = pod.root / "var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/c/r"
    attributes = {"resource.kubernetes.io/pciBusID": {"string": "0000:42:00.0"}}
    content = {
        "apiVersion": "metadata.resource.k8s.io/v1alpha1",
        "requests": [{"name": "r", "devices": [{"attributes": attributes}]}],
    }
    pod.write("vmi.json", VMI)
    with pod.running():
        time.sleep(0.2)
        folder.mkdir(parents=True)
        (folder / "gpu.example.com-metadata.json").write_text(json.dumps(content))
        pod.eventually((pod.run / "ready").exists)

    assert 'bus="0x42"' in (pod.run / "domain.xml").read_text()


@pytest.mark.parametrize(
    ("vmi", "status", "message"),
    [
        ("[", "", "{info}/vmi.json: is not a VirtualMachineInstance: Expecting value: line 1 column 2 (char 1)"),
        (VMI, {"gpuStatuses": 1}, "{info}/device-status.json: is not a deviceStatus: "
"gpuStatuses: must be a list, not an integer"),
        (
            VMI,
            json.loads(json.dumps(STATUS).replace("0000:41", "10000:41")),
            "failed to create DRA GPU host-devices: failed to create PCI device "
"for g: failed to parse pci address 10000:41:00.0",
        ),
    ],
)  # fmt: skip
def test_what_waiting_does_not_mend_is_left_as_the_termination_message(
    pod: Pod, vmi: object, status: object, message: str
) -> None:
    pod.write("vmi.json", vmi)
    pod.write("device-status.json", status)
    with pod.running() as process:
        code, told = ended(process)

    expected = message.replace("{info}", str(pod.info))
    assert (code, pod.message.read_text(), told) == (1, expected, [f"error: {expected}"])


def test_patience_ends_where_it_was_given_an_end(pod: Pod) -> None:
    pod.write("vmi.json", VMI)
    with pod.running("--timeout", "0.2") as process:
        code, _ = ended(process)

    assert (code, pod.message.read_text()) == (1, "gave up after 0.2 s: gpus/g has no address yet")


@pytest.mark.parametrize(("number", "want"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_launcher_that_is_stopped_while_it_waits_says_so_by_its_exit_code(
    pod: Pod, number: signal.Signals, want: int
) -> None:
    pod.write("vmi.json", VMI)
    with pod.running() as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting: gpus/g has no address yet\n"
        process.send_signal(number)
        code, told = ended(process)

    assert (code, told, pod.message.exists()) == (want, [], False)


def test_what_its_libvirt_passes_over_is_the_reason(pod: Pod) -> None:
    """K-7.25: libvirt 9.0 reads a domain with iommufd, and opens the device without."""
    metadata = {**VMI["metadata"], "annotations": {"virt-dra.io/hostdev-options": '{"gpus/g": {"iommufd": true}}'}}
    pod.write("vmi.json", {**VMI, "metadata": metadata})
    pod.write("device-status.json", STATUS)
    with pod.running() as process:
        code, lines = ended(process)
    reason = f"libvirt {libvirt_conn.release('test:///default')} lacks iommufd (12.2.0 and newer)"
    assert (code, lines[-1], pod.message.read_text()) == (1, f"error: {reason}", reason)


def test_a_daemon_that_does_not_start_is_the_reason(pod: Pod) -> None:
    pod.write("vmi.json", {**VMI, "spec": {"domain": {"devices": {}}}})
    with pod.running("--uri", "qemu+unix:///system?socket=/nowhere/sock", "--daemon", "false") as process:
        code, _ = ended(process)

    assert (code, pod.message.read_text()) == (1, "false ended with exit code 1")


def test_a_launcher_waits_for_the_node_to_be_ready_for_its_devices(pod: Pod) -> None:
    """Before it asks libvirt, which here can't be reached."""
    function = pod.root / "sys/bus/pci/devices/0000:41:00.0"
    function.mkdir(parents=True)
    (function / "driver").symlink_to("../drivers/nvidia")
    (function / "iommu_group").symlink_to("../groups/7")
    pod.write("vmi.json", VMI)
    pod.write("device-status.json", STATUS)
    waiting = "gpus/g: PCI function 0000:41:00.0 is bound to nvidia; bind it to vfio-pci"
    with pod.running("--uri", "qemu+unix:///system?socket=/nowhere/sock") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"waiting: {waiting}\n"
        pod.eventually((pod.run / "status.json").exists)
        status = json.loads((pod.run / "status.json").read_text())
        (pod.root / "dev/vfio").mkdir(parents=True)
        for node in ("vfio", "7"):
            (pod.root / "dev/vfio" / node).touch()
        (function / "new").symlink_to("../drivers/vfio-pci")
        (function / "new").rename(function / "driver")
        code, _ = ended(process)
    assert (status.pop("since")[-1], status) == ("Z", {"phase": "Waiting", "reason": waiting, "devices": []})
    message = pod.message.read_text()
    assert (code, message.partition(": ")[0]) == (1, "qemu+unix:///system?socket=/nowhere/sock")
    assert json.loads((pod.run / "status.json").read_text())["reason"] == message


def test_a_function_that_does_not_exist_is_the_reason(pod: Pod) -> None:
    pod.write("vmi.json", VMI)
    pod.write("device-status.json", STATUS)
    with pod.running("--uri", "qemu:///system") as process:
        code, _ = ended(process)
    message = "gpus/g: PCI function 0000:41:00.0 doesn't exist on this node; compare the address with lspci -D"
    assert (code, pod.message.read_text()) == (1, message)
