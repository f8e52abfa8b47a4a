"""The namespaces of an NVMe controller, in sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from node_driver.host.kernel_files import KernelFiles

_CONTROLLER: Final = re.compile(r"nvme\d+")
_NAMESPACE: Final = re.compile(r"nvme\d+n\d+")
_SUBSYSTEMS: Final = "/sys/class/nvme-subsystem"


def nvme_namespaces(files: KernelFiles, folder: str) -> Iterator[str]:
    """The folders of the namespaces that have a device node, of the function in ``folder``. With several paths to a
    namespace the node is the subsystem's, and the controller has a hidden one (``nvme0c0n1``)."""
    controllers = [name for name in files.names(f"{folder}/nvme") if _CONTROLLER.fullmatch(name)]
    folders = [f"{folder}/nvme/{controller}" for controller in controllers]
    for subsystem in files.names(_SUBSYSTEMS) if controllers else ():
        if not set(controllers).isdisjoint(files.names(f"{_SUBSYSTEMS}/{subsystem}")):
            folders.append(f"{_SUBSYSTEMS}/{subsystem}")
    for parent in folders:
        yield from (f"{parent}/{name}" for name in files.names(parent) if _NAMESPACE.fullmatch(name))
