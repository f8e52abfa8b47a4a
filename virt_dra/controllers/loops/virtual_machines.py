"""The VMI of a VirtualMachine: what its template says, under the VM's name (K-1.1), and how long the VM keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from virt_dra.api.core_v1 import FINISHED
from virt_dra.api.kubevirt_v1 import VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, controller_reference
from virt_dra.cluster.port import Reader, Writer

Strategy = Literal["Always", "RerunOnFailure", "Halted", "Manual", "Once", "WaitAsReceiver"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("Always", "RerunOnFailure", "Halted", "Manual", "Once", "WaitAsReceiver")
_STOPPED = ("Halted", "Manual", "WaitAsReceiver")
"""Run strategies that make no VMI by themselves."""


def instance_of(vm: VirtualMachine) -> VirtualMachineInstance:
    """The VMI that KubeVirt makes of a VM: same name and namespace, the template's labels, annotations and spec, owned
    by the VM."""
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
    """True if the VM is to run now. A VM with neither ``running`` nor ``runStrategy`` (KubeVirt refuses it) counts as
    running."""
    if vm.metadata.deletion_timestamp is not None or vm.spec.running is False:
        return False
    return vm.spec.run_strategy not in _STOPPED


def strategy_of(vm: VirtualMachine) -> Strategy | None:
    """The run strategy, or its equivalent in the older field ``running``; None if neither has a known value."""
    if vm.spec.running is not None:
        return "Always" if vm.spec.running else "Halted"
    return next((strategy for strategy in STRATEGIES if strategy == vm.spec.run_strategy), None)


def deletes_instance(strategy: Strategy | None, phase: str | None) -> bool:
    """True where a VM deletes its VMI in this phase: that of a stopped VM, and a finished one that is to be
    replaced."""
    if strategy == "Halted":
        return True
    if strategy == "Always":
        return phase in FINISHED
    return strategy == "RerunOnFailure" and phase == "Failed"


@dataclass(frozen=True)
class VirtualMachineInputs:
    """The VMs and VMIs of one namespace, or of all."""

    vms: tuple[VirtualMachine, ...]
    vmis: tuple[VirtualMachineInstance, ...]


async def gather(reader: Reader, *, namespace: str = "") -> VirtualMachineInputs:
    """Read the VMs and VMIs of one namespace, or of all."""
    vms = await reader.list(VirtualMachine, namespace)
    vmis = await reader.list(VirtualMachineInstance, namespace)
    return VirtualMachineInputs(vms.items, vmis.items)


def plan(inputs: VirtualMachineInputs) -> tuple[VirtualMachineInstance, ...]:
    """The VMIs to create: one per VM that is to run and whose name no VMI has.

    A VMI of that name that another owns is left alone, as KubeVirt leaves it.
    """
    taken = {vmi.key for vmi in inputs.vmis}
    return tuple(instance_of(vm) for vm in inputs.vms if wants_instance(vm) and vm.key not in taken)


async def apply(writer: Writer, instances: Iterable[VirtualMachineInstance]) -> tuple[VirtualMachineInstance, ...]:
    """Create the planned VMIs; the VMIs as stored. Raises what the cluster raises."""
    return tuple([await writer.create(instance) for instance in instances])
