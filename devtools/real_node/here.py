"""A node on this machine: containerd and kubelet in mount and PID namespaces of their own, so that what they write
outside of their folders is covered, and all of it ends with the process that started it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from devtools import needs
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.supervisor import Supervisor
from devtools.real_node.configuration import (
    IMAGE,
    NodeFolders,
    cni_configuration,
    containerd_configuration,
    kubelet_arguments,
    kubelet_configuration,
    write_image,
)  # fmt: skip

VERSIONS: Final = "1.37.1-2.4.2"
PROGRAMS: Final = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox")
ADVICE: Final = "no node: run tools/node.sh as root on Debian with Go"
_COVERED: Final = ("/run/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers")
_SYSCTLS: Final = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes", "vm/panic_on_oom")  # fmt: skip
_TAIL_LINES: Final = 30
PODS: Final = "/api/v1/namespaces/default/pods"
EVENTS: Final = "/api/v1/namespaces/default/events"
_numbers = itertools.count()


class NodeError(Exception):
    """Why the node can't do what it was asked for; the text ends with what its programs said."""


def binaries() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "virt-dra" / "node" / VERSIONS / "bin"


def require() -> None:
    """Skip the test, with one line of advice, where a node can't be run; with CI=true fail it."""
    needs.use("node")
    if os.geteuid() or not all((binaries() / program).exists() for program in PROGRAMS):
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(ADVICE)


def let_nodes_in(plane: ControlPlane) -> None:
    """Gives kubelets their rights by RBAC: the API server has no node authorizer here."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node"}
    nodes = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "kubelets"}, "roleRef": role, "subjects": [nodes],
    }  # fmt: skip
    plane.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)


class Node:
    """Use as a context manager. ``folders``: where the kubelet has its sockets, and CDI files are read from."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane, self.name = plane, name
        self._mounts: dict[str, Path] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="vdn-"))
        self.folders = NodeFolders(self.folder / "k", self.folder / "c", self.folder / "r")
        self._supervisor = Supervisor(self.folder)
        self._pids: dict[str, int] = {}

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self.start_runtime()
            self.start_kubelet()
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._supervisor.close()

    def mount(self, path: str, folder: Path) -> None:
        """From its start on, containerd finds ``folder`` at ``path``."""
        self._mounts[path] = folder

    # --- life -------------------------------------------------------------------------------------------------------

    def start_runtime(self) -> None:
        """Starts containerd and imports the image."""
        covered = [f"mkdir -p {path} && mount -t tmpfs cover {path}" for path in _COVERED]
        covered += [
            f"cp /proc/sys/{name} {self.folder}/sysctl && mount --bind {self.folder}/sysctl /proc/sys/{name}"
            for name in _SYSCTLS
            if Path(f"/proc/sys/{name}").exists()
        ]
        covered += [f"mkdir -p {path} && mount --bind {folder} {path}" for path, folder in self._mounts.items()]
        start = f"exec {binaries()}/containerd --config {self.folder}/containerd.toml"
        script = "\n".join(["set -e", *covered, start])
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--")
        self._start("containerd", *namespaces, "sh", "-c", script)
        self._wait(self.folders.runtime_socket.exists, "containerd has no socket")
        self._inside("ctr", "--address", str(self.folders.runtime_socket), "--namespace", "k8s.io", "images", "import",
            "--all-platforms", str(self.folder / "image.tar"))  # fmt: skip

    def start_kubelet(self) -> None:
        arguments = kubelet_arguments(self.folders, self.name, self.folder / "kubelet.json", self.folder / "kubeconfig")
        target = str(self._child(self._pids["containerd"]))
        self._start(
            "kubelet", "nsenter", "--target", target, "--mount", "--pid", "--", f"{binaries()}/kubelet", *arguments
        )

    def start(self, name: str, *argv: str) -> int:
        """Starts a further program on the node, outside of its namespaces; the process id. It ends with the node."""
        self._start(name, *argv)
        return self._pids[name]

    def stop(self, name: str, number: int = signal.SIGKILL) -> None:
        """Ends a program that :meth:`start` started, and waits for it."""
        pid = self._pids.pop(name)
        self._supervisor.signal(pid, number)
        self._wait(lambda: self._supervisor.status(pid) is not None, f"{name} goes on")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def stop_kubelet(self) -> None:
        """Kills it; pods go on."""
        os.kill(self._child(self._pids["kubelet"]), signal.SIGKILL)
        self._supervisor.end(self._pids.pop("kubelet"))

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        self._wait(self._is_ready, "the node isn't ready", seconds)

    # --- pods -------------------------------------------------------------------------------------------------------

    def create_pod(self, name: str, *, command: Sequence[str] = (), **spec: Any) -> None:
        """Creates a pod of one container ``main`` in namespace default. ``spec``: further fields of the pod's spec;
        ``resources`` goes to the container."""
        container: dict[str, Any] = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}
        if command:
            container["command"] = list(command)
        if "resources" in spec:
            container["resources"] = spec.pop("resources")
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
        }  # fmt: skip
        self.plane.request("POST", PODS, pod)

    def wait_for_pod(self, name: str, phase: str, seconds: float = 60.0) -> dict[str, Any]:
        """The pod once it is in that phase. Raises :class:`NodeError` with its Events."""
        pod: dict[str, Any] = {}

        def there() -> bool:
            pod.update(self.plane.request("GET", f"{PODS}/{name}"))
            return bool(pod["status"].get("phase") == phase)

        try:
            self._wait(there, f"pod {name} isn't {phase}", seconds)
        except NodeError as error:
            raise NodeError("\n".join((*self.events(name), str(error)))) from None
        return pod

    def events(self, pod: str) -> tuple[str, ...]:
        """``reason: message`` of the pod's Events, oldest first."""
        events = self.plane.request("GET", f"{EVENTS}?fieldSelector=involvedObject.name={pod}")["items"]
        return tuple(f"{event['reason']}: {event['message']}" for event in events)

    def delete_pod(self, name: str, seconds: float = 30.0) -> None:
        """Deletes it and waits until it is gone."""
        self.plane.request("DELETE", f"{PODS}/{name}")

        def gone() -> bool:
            try:
                self.plane.request("GET", f"{PODS}/{name}")
            except RequestError as error:
                return error.status == HTTPStatus.NOT_FOUND
            return False

        self._wait(gone, f"pod {name} isn't gone", seconds)

    def container_id(self, pod: str) -> str:
        status = self.plane.request("GET", f"{PODS}/{pod}")["status"]["containerStatuses"][0]
        return str(status["containerID"]).partition("//")[2]

    def exec(self, pod: str, *command: str) -> str:
        """What a program printed that ran in the pod's container. Raises :class:`NodeError` unless it ended with 0."""
        return self._inside(
            "ctr", "--address", str(self.folders.runtime_socket), "--namespace", "k8s.io", "tasks", "exec",
            "--exec-id", f"e{next(_numbers)}", self.container_id(pod), *command,
        )  # fmt: skip

    # --- inside -----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        for folder in (self.folders.kubelet, self.folders.containerd, self.folders.cdi, self.folders.run / "cni"):
            folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "containerd.toml").write_text(containerd_configuration(self.folders, binaries()))
        (self.folders.run / "cni" / "10-none.conflist").write_text(json.dumps(cni_configuration()))
        ports = (_free_port(), _free_port())
        (self.folder / "kubelet.json").write_text(json.dumps(kubelet_configuration(self.folders, *ports)))
        kubeconfig = self.plane.kubeconfig_of_user(f"system:node:{self.name}", ("system:nodes",))
        (self.folder / "kubeconfig").write_bytes(kubeconfig.read_bytes())
        write_image(binaries() / "busybox", self.folder / "image.tar")

    def _start(self, name: str, *argv: str) -> None:
        path = {"PATH": f"{binaries()}:{os.environ['PATH']}"}
        self._pids[name] = self._supervisor.start(argv, self.folder / f"{name}.log", path)

    def _inside(self, program: str, *arguments: str) -> str:
        target = str(self._child(self._pids["containerd"]))
        argv = ["nsenter", "--target", target, "--mount", "--pid", "--", str(binaries() / program), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise self._failed(f"{shlex.join(argv)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def _child(self, pid: int) -> int:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        self._wait(lambda: bool(children.read_text().split()), f"process {pid} has no child")
        return int(children.read_text().split()[0])

    def _is_ready(self) -> bool:
        with contextlib.suppress(Exception):
            node = self.plane.request("GET", f"/api/v1/nodes/{self.name}")
            return any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", ())
            )
        return False

    def _wait(self, condition: Callable[[], bool], problem: str, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            for name, pid in self._pids.items():
                if (status := self._supervisor.status(pid)) is not None:
                    raise self._failed(f"{problem}: {name} ended with {status}")
            if time.monotonic() > deadline:
                raise self._failed(f"{problem} after {seconds:.0f} s")
            time.sleep(0.05)

    def _failed(self, text: str) -> NodeError:
        said = [text]
        for name in self._pids:
            with contextlib.suppress(OSError):
                lines = (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
                said += [f"{name}: {line}" for line in lines[-_TAIL_LINES:]]
        return NodeError("\n".join(said))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
