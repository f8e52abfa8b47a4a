"""A node inside the emulated machine: its kubelet and containerd, of a control plane that runs outside."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.driver_account import RIGHTS, create_of_manifests, write_account
from devtools.hardware_lab import halting_driver, launcher_runtime
from devtools.hardware_lab.machine import HOST_FROM_INSIDE, ROOT, Finished, LabError, LabMachine
from devtools.real_node.configuration import (
    NodeFolders,
    cni_configuration,
    containerd_configuration,
    kubelet_arguments,
    kubelet_configuration,
    write_image,
)  # fmt: skip
from devtools.real_node.here import binaries

FOLDERS: Final = NodeFolders(Path("/var/lib/lab/k"), Path("/var/lib/lab/c"), Path("/run/node"))
PROGRAMS: Final = "/run/programs"
DRIVER_LOG: Final = "/var/lib/lab/driver.log"
_numbers = itertools.count()
_KUBELET_PORT, _HEALTH_PORT = 10250, 10248
_READY_SECONDS: Final = 240.0


class LabNode:
    """``machine`` has booted; :meth:`start` is called again after each boot. Files come by the shared root folder.
    ``images``: further ones, by what they run, which has this Python environment, as have all pods then."""

    def __init__(
        self, machine: LabMachine, plane: ControlPlane, name: str, images: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self.machine, self.plane, self.name = machine, plane, name
        self._files = machine.folder / "node"
        self._files.mkdir()
        self._kubelet = 0
        self.driver = 0
        """The process id of the driver that was started last."""
        self._has_driver_rights = False
        settings = kubelet_configuration(FOLDERS, _KUBELET_PORT, _HEALTH_PORT)
        specification = self._files / "launcher.json"
        plain = subprocess.run([binaries() / "ctr", "oci", "spec"], check=True, capture_output=True, text=True).stdout
        for file, text in {
            "containerd.toml": containerd_configuration(FOLDERS, binaries())
            + launcher_runtime.containerd_settings(binaries() / "runc", specification, default=bool(images)),
            specification.name: launcher_runtime.base_specification(plain, self._files),
            **launcher_runtime.ACCOUNTS,
            "cni.conflist": json.dumps(cni_configuration()),
            "kubelet.json": json.dumps(settings),
            "kubeconfig": self.kubeconfig(f"system:node:{name}", ("system:nodes",)),
        }.items():
            (self._files / file).write_text(text)
        self._archives = [self._files / "image.tar"]
        write_image(binaries() / "busybox", self._archives[0])
        for image, command in (images or {}).items():
            self._archives.append(self._files / f"image{len(self._archives)}.tar")
            write_image(binaries() / "busybox", self._archives[-1], image, command, launcher_runtime.PATH)

    def kubeconfig(self, user: str, groups: tuple[str, ...] = ()) -> str:
        """A user's kubeconfig as it is used inside, where the API server has another address than its certificate."""
        config = json.loads(self.plane.kubeconfig_of_user(user, groups).read_text())
        (cluster,) = config["clusters"]
        cluster["cluster"]["server"] = f"https://{HOST_FROM_INSIDE}:{self.plane.port}"
        cluster["cluster"]["tls-server-name"] = "localhost"
        return json.dumps(config)

    def start(self) -> None:
        """Starts containerd and kubelet and waits until the node is ready. Raises :class:`LabError`."""
        self.make_folders()
        self.machine.check("sh", "-c", f"mkdir -p {launcher_runtime.HOME} && chown 107:107 {launcher_runtime.HOME}")
        self.machine.check("cp", f"{self._files}/cni.conflist", f"{FOLDERS.run}/cni/10-none.conflist")
        path = {"PATH": f"{binaries()}:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.machine.start(
            str(binaries() / "containerd"), "--config", f"{self._files}/containerd.toml",
            log="/var/lib/lab/containerd.log", environment=path,
        )  # fmt: skip
        self.machine.wait_for(str(FOLDERS.runtime_socket), timeout=120)
        for archive in self._archives:
            self.machine.check(
                str(binaries() / "ctr"), "--address", str(FOLDERS.runtime_socket), "--namespace", "k8s.io",
                "images", "import", "--all-platforms", str(archive), timeout=120,
            )  # fmt: skip
        started = self._heartbeat()
        self.start_kubelet()
        deadline = time.monotonic() + _READY_SECONDS
        while not ((beat := self._heartbeat()) and beat != started):
            if time.monotonic() > deadline:
                raise LabError(f"the node isn't ready\n{self.logs()}")
            self.machine.check_running()
            time.sleep(0.5)

    def make_folders(self) -> None:
        """The folders that a node's programs expect."""
        folders = (FOLDERS.kubelet, FOLDERS.containerd, FOLDERS.cdi, FOLDERS.run / "cni")
        self.machine.check("mkdir", "-p", *map(str, folders))

    def load_modules(self) -> None:
        """Loads drivers, as an administrator has set up the node: those of vGPUs and of the network card before that of
        all NVMe controllers. Igb answers its virtual functions while its own interface is up, which has no address."""
        self.machine.check("modprobe", "--all", "vfio-pci", "mtty", "lab_vgpu", "lab_nic", "nvme", "igb")
        up = 'for link in /sys/bus/pci/drivers/igb/*/net/*; do ip link set "${link##*/}" addrgenmode none up; done'
        self.machine.check("sh", "-ec", up)

    def start_kubelet(self) -> None:
        path = {"PATH": f"{binaries()}:/usr/sbin:/usr/bin:/sbin:/bin"}
        arguments = kubelet_arguments(FOLDERS, self.name, self._files / "kubelet.json", self._files / "kubeconfig")
        arguments += ("--housekeeping-interval", "1m")  # of its statistics, which cost processor time inside
        self._kubelet = self.machine.start(
            str(binaries() / "kubelet"), *arguments, log="/var/lib/lab/kubelet.log", environment=path
        )

    def start_driver(self, policy: Mapping[str, object], *, halting: bool = False) -> None:
        """Starts ``virt-dra node-driver`` with a policy. It runs the programs in :data:`PROGRAMS` in place of the
        machine's. ``halting``: one that can be stopped at a write of its checkpoint (:mod:`.halting_driver`)."""
        (self._files / "policy.yaml").write_text(json.dumps(policy))
        environment = self._pod_of_driver()
        command: tuple[str, ...] = (str(Path(sys.executable).with_name("virt-dra")),)
        if halting:
            command = ("env", f"--chdir={ROOT}", sys.executable, "-m", halting_driver.__name__)
        self.driver = self.machine.start(
            *command, "node-driver", "--node", self.name, "--node-policy", f"{self._files}/policy.yaml",
            "--kubelet-root", str(FOLDERS.kubelet), "--cdi-dir", str(FOLDERS.cdi),
            log=DRIVER_LOG, environment=environment,
        )  # fmt: skip

    def _pod_of_driver(self) -> Mapping[str, str]:
        """The environment of a driver's pod, with its service account in place: a kubeconfig would have the driver
        import another 200 modules, 6 s of a processor inside."""
        account = self._files / f"account{next(_numbers)}"  # another one each time: inside, files are kept as read
        if not self._has_driver_rights:
            create_of_manifests(self.plane, *RIGHTS)
            self._has_driver_rights = True
        write_account(self.plane, account)
        secrets = "/var/run/secrets/kubernetes.io"
        self.machine.check(
            "sh",
            "-ec",
            f"mkdir -p {secrets} && rm -rf {secrets}/serviceaccount && ln -s {account} {secrets}/serviceaccount",
        )
        return {
            "PATH": f"{PROGRAMS}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(FOLDERS.run),
            "KUBERNETES_SERVICE_HOST": HOST_FROM_INSIDE,
            "KUBERNETES_SERVICE_PORT": str(self.plane.port),
            "SSL_CERT_FILE": "/dev/null",
        }

    def exec(self, container: str, *command: str) -> Finished:
        """Runs a program in a container, by its id."""
        return self.machine.run(
            str(binaries() / "ctr"), "--address", str(FOLDERS.runtime_socket), "--namespace", "k8s.io", "tasks", "exec",
            "--exec-id", f"e{next(_numbers)}", container, *command, timeout=120,
        )  # fmt: skip

    def container_root(self, container: str) -> str:
        """A container's root folder as the machine sees it, "" if it doesn't run: much cheaper than :meth:`exec`."""
        task = f"{FOLDERS.run}/containerd/io.containerd.runtime.v2.task/k8s.io/{container}/init.pid"
        return self.machine.run(
            "sh", "-c", f"root=/proc/$(cat {task})/root && test -d $root/dev && echo $root"
        ).out.strip()

    def container_log(self, pod: str, container: str) -> str:
        """What a container of a pod in the namespace ``default`` wrote."""
        return self.machine.run("sh", "-c", f"cat {FOLDERS.logs}/default_{pod}_*/{container}/*.log").out

    def logs(self) -> str:
        return self.machine.run("sh", "-c", "tail -n 30 /var/lib/lab/*.log").out

    def _heartbeat(self) -> str:
        """The time at which the kubelet last said that the node is ready; "" if it isn't."""
        nodes = self.plane.request("GET", "/api/v1/nodes")["items"]
        for node in nodes:
            if node["metadata"]["name"] == self.name:
                for condition in node["status"].get("conditions", ()):
                    if condition["type"] == "Ready" and condition["status"] == "True":
                        return str(condition["lastHeartbeatTime"])
        return ""
