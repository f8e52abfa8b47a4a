"""A node's hardware as it would be if no claim had anything: what policies decide on. Pure.

A device that is claimed is on another driver, an mdev takes what its card could give: neither may change what is
published, or each claim would rewrite slices, and a policy that names devices by driver would lose those in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from node_driver.hardware.inventory import Hardware, MdevType, PciFunction, VgpuFunction
from node_driver.host.binding import Binding
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import ClaimRecord


def at_rest(hardware: Hardware, claims: Iterable[ClaimRecord], earlier: Hardware | None = None) -> Hardware:
    """``earlier``: the last result, which remembers what a card in use could give when it was free (D-49, D-61)."""
    changes = [change for claim in claims for change in claim.changes]
    ours = {change.target for change in changes if change.property is HostProperty.MDEV}
    parents = {mdev.parent for uuid, mdev in hardware.mdevs.items() if uuid in ours}
    return replace(
        hardware,
        functions={**hardware.functions, **dict(_functions(hardware, changes))},
        mdevs={uuid: mdev for uuid, mdev in hardware.mdevs.items() if uuid not in ours},
        mdev_types={
            parent: _mdev_types(hardware, parent, ours, earlier) if parent in parents else types
            for parent, types in hardware.mdev_types.items()
        },
        vgpus=dict(_vgpus(hardware, changes, earlier)),
    )


def _functions(hardware: Hardware, changes: Iterable[HostChange]) -> Iterator[tuple[str, PciFunction]]:
    """Those that claims have bound, on their drivers of before."""
    for change in changes:
        function = hardware.functions.get(change.target)
        if change.property is HostProperty.DRIVER and function is not None:
            before = Binding.parse(change.before)
            yield change.target, replace(function, driver=before.driver, driver_override=before.override)


def _mdev_types(hardware: Hardware, parent: str, ours: set[str], earlier: Hardware | None) -> tuple[MdevType, ...]:
    """The types of a parent that has mdevs of ours: as many of each as before, at least what there is and was made."""
    before = {entry.type_id: entry.available for entry in earlier.mdev_types.get(parent, ())} if earlier else {}
    made = [mdev.type_id for uuid, mdev in hardware.mdevs.items() if uuid in ours and mdev.parent == parent]
    return tuple(
        replace(entry, available=max(before.get(entry.type_id, 0), entry.available + made.count(entry.type_id)))
        for entry in hardware.mdev_types[parent]
    )


def _vgpus(
    hardware: Hardware, changes: Iterable[HostChange], earlier: Hardware | None
) -> Iterator[tuple[str, VgpuFunction]]:
    """The VFs with vGPU profiles; those of a card on which claims have set one can give what they could before."""
    before = {change.target: change.before for change in changes if change.property is HostProperty.VGPU_PROFILE}
    cards = {_card(hardware.functions, address) for address in before}
    remembered: Mapping[str, VgpuFunction] = earlier.vgpus if earlier is not None else {}
    for address, function in hardware.vgpus.items():
        creatable = function.creatable
        if _card(hardware.functions, address) in cards and address in remembered:
            creatable = {**remembered[address].creatable, **creatable}
        yield address, replace(function, current_type=before.get(address, function.current_type), creatable=creatable)


def _card(functions: Mapping[str, PciFunction], address: str) -> str:
    return functions[address].physical_function if address in functions else ""
