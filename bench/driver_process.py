"""The node driver as its DaemonSet starts it, on a machine of files, beside a real API server; and what a kubelet asks
of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc
import yaml

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.driver_account import POLICIES, RIGHTS, create_of_manifests, write_account
from devtools.cluster.ports import free_port
from node_driver.wire.messages import DRA_V1

DRIVER, NODE = "passthrough.virt-dra.io", "node-1"
POLICY: Final = {"deviceSets": [{"name": "all", "select": [{"class": "02"}]}]}
_ATTRIBUTES: Final = {
    "vendor": "0x8086", "device": "0x10d3", "class": "0x020000", "subsystem_vendor": "0x8086",
    "subsystem_device": "0x10d3", "numa_node": "0", "driver_override": "(null)", "reset_method": "flr", "reset": "",
    "modalias": "pci:v00008086d000010D3sv00008086sd000010D3bc02sc00i00",
}  # fmt: skip
_MANIFESTS: Final = Path(__file__).parents[1] / "manifests"
_PROGRAM: Final = (
    "import sys; from pathlib import Path; from virt_dra.cluster.kube import service_account; "
    "service_account.FOLDER = Path(sys.argv.pop(1)); from virt_dra.cli.main import cli; cli()"
)
"""The command in a pod whose service account's files are elsewhere."""
_SLICES: Final = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{NODE}"


def machine_of_files(count: int, host: Path) -> None:
    """What /sys, /proc and /dev hold on a node with so many functions, each in a group of its own and with vfio-pci. A
    claim changes ``driver_override``, and releasing it resets the function: the kernel answers at once."""
    pci = host / "sys" / "bus" / "pci"
    (pci / "devices").mkdir(parents=True)
    driver = pci / "drivers" / "vfio-pci"
    driver.mkdir(parents=True)
    nodes = host / "dev" / "vfio"
    nodes.mkdir(parents=True)
    (nodes / "vfio").symlink_to(os.devnull)
    for number in range(count):
        function = host / "sys" / "devices" / "pci0000:00" / _address(number)
        group = host / "sys" / "kernel" / "iommu_groups" / str(number)
        for folder in (function, group / "devices"):
            folder.mkdir(parents=True)
        for name, text in _ATTRIBUTES.items():
            (function / name).write_text(f"{text}\n")
        (function / "iommu_group").symlink_to(os.path.relpath(group, function))
        (function / "driver").symlink_to(os.path.relpath(driver, function))
        for link in (group / "devices" / function.name, pci / "devices" / function.name):
            link.symlink_to(os.path.relpath(function, link.parent))
        (nodes / str(number)).symlink_to(os.devnull)
    boot_id = host / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("6b0d8f0a\n")


def _address(number: int) -> str:
    return f"0000:{number // 32 + 1:02x}:{number % 32:02x}.0"


def install(plane: ControlPlane) -> None:
    """The node, the driver's rights and a policy for all functions."""
    plane.request("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
    create_of_manifests(plane, *RIGHTS, POLICIES)
    policy = {"apiVersion": "virt-dra.io/v1alpha1", "kind": "VirtDraNodePolicy", "metadata": {"name": "all"}}
    plane.request("POST", "/apis/virt-dra.io/v1alpha1/virtdranodepolicies", {**policy, "spec": POLICY})


class DriverProcess:
    """A running driver, as a context manager that begins once all functions are published. ``seconds``: from the start
    of the process until then."""

    def __init__(self, plane: ControlPlane, folder: Path, count: int) -> None:
        """``folder``: with a machine of files in ``host``."""
        self._plane, self._folder, self._count = plane, folder, count
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._plane.request("DELETE", _SLICES)
        folder, account = self._folder, self._folder / "account"
        write_account(self._plane, account)
        arguments = [
            str(account), "node-driver", "--node", NODE, "--pod-uid", "1", "--kubelet-root", str(folder / "k"),
            "--cdi-dir", str(folder / "cdi"), "--host-root", str(folder / "host"), "--plain-port", str(free_port()),
        ]  # fmt: skip
        began = time.perf_counter()
        command = [sys.executable, "-c", _PROGRAM, *arguments]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, env=self._environment(), stderr=log)
        try:
            while self._published() < self._count:
                assert self._process.poll() is None, (folder / "log").read_text()
                time.sleep(0.01)
            self.seconds = time.perf_counter() - began
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def resident(self) -> float:
        """MiB that the process has in memory, without its helper."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident is not None
        return int(resident[1]) / 1024

    def kubelet(self) -> Kubelet:
        return Kubelet(self._folder / "k" / "plugins" / DRIVER / "dra-1.sock")

    def _published(self) -> int:
        return sum(len(item["spec"].get("devices", ())) for item in self._plane.request("GET", _SLICES)["items"])

    def _environment(self) -> dict[str, str]:
        """A container's: of the DaemonSet, and the API server's address."""
        daemon_set = yaml.safe_load((_MANIFESTS / "driver" / "daemon_set.yaml").read_text(encoding="utf-8"))
        (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
        host, _, port = self._plane.server.removeprefix("https://").rpartition(":")
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            **{variable["name"]: variable["value"] for variable in container["env"] if "value" in variable},
        }


class Kubelet:
    """Calls of a kubelet to the driver's socket."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}")
        self._calls = {
            name: self._channel.unary_unary(
                f"/{DRA_V1.package}.DRAPlugin/{name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=DRA_V1[f"{name}Response"].FromString,
            )
            for name in ("NodePrepareResources", "NodeUnprepareResources")
        }

    def close(self) -> None:
        self._channel.close()

    def prepare(self, claims: Sequence[dict[str, Any]]) -> Callable[[], None]:
        """Sends a call; what is returned waits for its answer, and raises AssertionError for a claim that failed."""
        return self._call("NodePrepareResources", claims)

    def unprepare(self, claims: Sequence[dict[str, Any]]) -> Callable[[], None]:
        """As :meth:`prepare`."""
        return self._call("NodeUnprepareResources", claims)

    def _call(self, name: str, claims: Sequence[dict[str, Any]]) -> Callable[[], None]:
        request = DRA_V1[f"{name}Request"]()
        for claim in claims:
            meta = claim["metadata"]
            request.claims.add(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])
        future = self._calls[name].future(request, timeout=45)

        def answered() -> None:
            answers = future.result().claims
            assert len(answers) == len(claims)
            assert not (errors := {entry.error for entry in answers.values() if entry.error}), errors

        return answered


def allocated_claims(plane: ControlPlane, count: int) -> list[dict[str, Any]]:
    """Claims in ``default``, each with one of the node's functions."""
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    spec = {"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": "vfio.virt-dra.io"}}]}}
    claims = []
    for number in range(count):
        address = _address(number).replace(":", "-").replace(".", "-")
        result = {"request": "device", "driver": DRIVER, "pool": NODE, "device": f"pci-{address}"}
        claim = plane.request("POST", path, {"metadata": {"name": f"claim-{number}"}, "spec": spec})
        claim["status"] = {"allocation": {"devices": {"results": [result]}}}
        claims.append(plane.request("PUT", f"{path}/claim-{number}/status", claim))
    return claims
