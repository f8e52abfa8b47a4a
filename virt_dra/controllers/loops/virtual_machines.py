"""The VMI of a VirtualMachine: what its template says, under the VM's name (K-1.1), and how long the VM keeps it."""

from __future__ import annotations

from typing import Final, Literal

from virt_dra.api.core_v1 import FINISHED
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, controller_reference

Strategy = Literal["Always", "RerunOnFailure", "Halted", "Manual", "Once", "WaitAsReceiver"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("Always", "RerunOnFailure", "Halted", "Manual", "Once", "WaitAsReceiver")
_STOPPED = ("Halted", "Manual", "WaitAsReceiver")
"""Run strategies that make no VMI by themselves."""


def instance_of(vm: VirtualMachine) -> VirtualMachineInstance:
    """The VMI that KubeVirt makes of a VM: its name, the template's labels, annotations and spec, owned by the VM."""
    template = vm.spec.template
    metadata = ObjectMeta(
        name=vm.name,
        namespace=vm.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(controller_reference(vm, blocks_deletion=True),),
    )
    return VirtualMachineInstance(metadata=metadata, spec=template.spec)


def wants_instance(vm: VirtualMachine) -> bool:
    """True if the VM is to run now; also one with neither ``running`` nor ``runStrategy``, which KubeVirt refuses."""
    if vm.metadata.deletion_timestamp is not None or vm.spec.running is False:
        return False
    return vm.spec.run_strategy not in _STOPPED


def strategy_of(vm: VirtualMachine) -> Strategy | None:
    """The run strategy, or its equivalent in the older field ``running``; None if neither has a known value."""
    if vm.spec.running is not None:
        return "Always" if vm.spec.running else "Halted"
    return next((strategy for strategy in STRATEGIES if strategy == vm.spec.run_strategy), None)


def deletes_instance(strategy: Strategy | None, phase: str | None) -> bool:
    """True where a VM deletes its VMI in this phase: of a stopped VM, or finished and to be replaced."""
    if strategy == "Halted":
        return True
    if strategy == "Always":
        return phase in FINISHED
    return strategy == "RerunOnFailure" and phase == "Failed"
