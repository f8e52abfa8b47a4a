"""Whether a VM is being deleted: then KubeVirt makes no launcher pod for it any more."""

from __future__ import annotations

from typing import Final

from virt_dra.api.go_text import visible
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance

TERMINATING: Final = "Terminating"
"""The VM or its VMI is being deleted."""


def deletion_text(*objects: VirtualMachine | VirtualMachineInstance | None) -> str:
    """A sentence about the first of a VM's objects that is being deleted; "" if none is."""
    for obj in objects:
        if obj is not None and obj.metadata.deletion_timestamp is not None:
            return f"{obj.KIND} {visible(obj.key)} is being deleted; until it is gone, its claims keep their devices"
    return ""
