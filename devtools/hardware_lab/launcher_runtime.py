"""The container runtime that launcher pods have inside of the machine, by the RuntimeClass :data:`NAME`: what a cluster
without KubeVirt has to give them, a KVM device and memory that may be locked; and, in place of an image, libvirt, QEMU
and this Python environment from the node. Pure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from devtools.hardware_lab.machine import ROOT

NAME: Final = "launcher"
HOME: Final = "/home/launcher"
"""A folder of the node, too: libvirt keeps there what it found out about QEMU."""
_USER: Final = 107
ACCOUNTS: Final = {
    "passwd": f"root:x:0:0::/root:/bin/false\nlauncher:x:{_USER}:{_USER}::{HOME}:/bin/false\n",
    "group": f"root:x:0:\nlauncher:x:{_USER}:\n",
}
"""Name in ``/etc`` -> text: libvirt refuses to run as a user without a name."""
_KVM: Final = {"type": "c", "major": 10, "minor": 232}
_UNLIMITED: Final = 2**64 - 1
_PROGRAMS: Final = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache")

PATH: Final = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin"
CLASS: Final = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": NAME}, "handler": NAME}


def containerd_settings(runc: Path, base: Path, *, default: bool = False) -> str:
    """To be appended to containerd's configuration. ``base``: a file with :func:`base_specification`. ``default``: for
    pods without a RuntimeClass, too."""
    containerd = '[plugins."io.containerd.cri.v1.runtime".containerd'
    runtime = f"{containerd}.runtimes.{NAME}"
    chosen = f'{containerd}]\ndefault_runtime_name = "{NAME}"\n' if default else ""
    return f"""{chosen}{runtime}]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "{base}"
{runtime}.options]
BinaryName = "{runc}"
"""


def base_specification(plain: str, accounts: Path) -> str:
    """An OCI runtime specification with what launchers need. ``plain``: containerd's own, which ``ctr oci spec``
    prints. ``accounts``: a folder of the node with :data:`ACCOUNTS`."""
    specification: dict[str, Any] = json.loads(plain)
    process, linux = specification["process"], specification["linux"]
    process["rlimits"] = [
        {"type": f"RLIMIT_{limit}", "soft": value, "hard": value}
        for limit, value in (("MEMLOCK", _UNLIMITED), ("NOFILE", 1 << 16))
    ]
    linux.setdefault("devices", []).append({"path": "/dev/kvm", "fileMode": 0o666, "uid": 0, "gid": 0, **_KVM})
    linux["resources"]["devices"].append({"allow": True, "access": "rw", **_KVM})
    shared = (*_PROGRAMS, *map(str, _python_folders()))
    specification["mounts"] += [_bound(path, path, "ro") for path in shared]
    specification["mounts"] += [_bound(str(accounts / name), f"/etc/{name}", "ro") for name in ACCOUNTS]
    specification["mounts"].append(_bound(HOME, HOME, "rw"))
    return json.dumps(specification)


def _python_folders() -> tuple[Path, ...]:
    """Those of this environment, the repository among them, without those that are below others or below
    ``/usr``."""
    folders = {ROOT, Path(sys.prefix), Path(sys.base_prefix), *(Path(entry) for entry in sys.path if entry)}
    kept = (
        folder
        for folder in sorted(folders)
        if folder.is_dir() and not {*folder.parents} & {*folders, Path("/usr")} and folder != Path("/usr")
    )
    return tuple(kept)


def _bound(source: str, target: str, mode: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "destination": target, "options": ["rbind", mode]}
