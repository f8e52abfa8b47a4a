"""What a VMI with dedicated CPUs needs of its node, on which pod and domain must agree (K-8.1)."""

from __future__ import annotations

from typing import Final

from virt_dra.api.kubevirt_v1 import VirtualMachineInstance

CPU_MANAGER_LABEL: Final = "cpumanager"
"""``true`` on nodes whose kubelet gives containers CPUs of their own; KubeVirt's virt-handler sets it."""
_EVEN_PARITY: Final = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"


def has_dedicated_cpus(vmi: VirtualMachineInstance) -> bool:
    cpu = vmi.spec.domain.cpu
    return cpu is not None and bool(cpu.dedicated_cpu_placement)


def emulator_threads(vmi: VirtualMachineInstance, vcpus: int) -> int:
    """The CPUs of the emulator's threads beside those of the guest's ``vcpus``: none, one, or two where the annotation
    asks for an even number of CPUs in all."""
    cpu = vmi.spec.domain.cpu
    if cpu is None or not cpu.isolate_emulator_thread:
        return 0
    return 2 if _EVEN_PARITY in vmi.metadata.annotations and vcpus % 2 == 0 else 1
