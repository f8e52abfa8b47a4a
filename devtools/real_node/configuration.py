"""The settings of kubelet and containerd, and the image that pods run. Texts and command lines; pure but for the
image's file.

The settings are those under which a node runs in a container, without systemd and on cgroup v1 or v2
(docs/spec/driver.md, "Witnesses").
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

IMAGE: Final = "docker.io/library/node-test:1"
"""Busybox with a shell, which waits for ever unless a pod has a command. It is the sandbox's image, too."""
_WAIT: Final = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_APPLETS: Final = ("sh", "sleep", "cat", "ls", "env", "test", "echo", "head", "dd", "stat", "true", "false")


@dataclass(frozen=True)
class NodeFolders:
    """Where a node has its files. Short, since sockets are below ``kubelet`` (D-2); ``run`` is removed at a reboot,
    ``kubelet`` isn't."""

    kubelet: Path
    containerd: Path
    run: Path

    @property
    def runtime_socket(self) -> Path:
        return self.run / "c.sock"

    @property
    def cdi(self) -> Path:
        return self.run / "cdi"

    @property
    def logs(self) -> Path:
        return self.run / "pods"


def kubelet_configuration(folders: NodeFolders, port: int, health_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": health_port,
        "containerRuntimeEndpoint": f"unix://{folders.runtime_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": str(folders.logs),
        "resolvConf": "",
        "syncFrequency": "10s",
        "registerNode": True,
    }


def kubelet_arguments(folders: NodeFolders, name: str, configuration: Path, kubeconfig: Path) -> tuple[str, ...]:
    return (
        "--config", str(configuration), "--kubeconfig", str(kubeconfig), "--hostname-override", name,
        "--root-dir", str(folders.kubelet), "--node-ip", "127.0.0.1", "--v", "2",
    )  # fmt: skip


def containerd_configuration(folders: NodeFolders, binaries: Path) -> str:
    """In version 3 of its format. Scores for the OOM killer are
    restricted, since without CAP_SYS_RESOURCE runc can't lower them."""
    return f"""version = 3
root = "{folders.containerd}"
state = "{folders.run}/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri",
]
[grpc]
address = "{folders.runtime_socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{IMAGE}"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["{folders.cdi}"]
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{folders.run}/cni"]
conf_dir = "{folders.run}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{binaries}/runc"
"""


def cni_configuration() -> dict[str, Any]:
    """A network list that makes the runtime say that networking is ready; pods use the host's network."""
    return {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}


def write_image(
    busybox: Path, archive: Path, name: str = IMAGE, entrypoint: Sequence[str] = _WAIT, path: str = "/bin"
) -> None:
    """Writes an OCI archive for ``ctr images import``. ``path``: where its programs are looked for."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("bin", "tmp", "etc", "dev", "proc", "sys"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        program = tarfile.TarInfo("bin/busybox")
        content = busybox.read_bytes()
        program.size, program.mode = len(content), 0o755
        tar.addfile(program, io.BytesIO(content))
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    blobs: dict[str, bytes] = {}

    def stored(content: bytes, media_type: str) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    diff = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    config = {
        "architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [diff]},
        "config": {"Entrypoint": list(entrypoint), "Env": [f"PATH={path}"]}
    }  # fmt: skip
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": stored(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [stored(layer.getvalue(), "application/vnd.oci.image.layer.v1.tar")],
    }
    described = stored(json.dumps(manifest).encode(), _MANIFEST)
    described["annotations"] = {"io.containerd.image.name": name}
    index = {"schemaVersion": 2, "manifests": [described]}
    blobs |= {"index.json": json.dumps(index).encode(), "oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}
    with tarfile.open(archive, "w") as tar:
        for name, content in blobs.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
