"""A node's hardware as it would be if no claim had anything: what policies decide on. Pure.

A device that is claimed is on another driver, and an mdev takes what its card could give: neither may change what is
published, or each claim would rewrite slices, and a policy that names devices by driver would lose those in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from node_driver.hardware.inventory import Hardware, MdevType, MediatedDevice, PciFunction, VgpuFunction
from node_driver.host.binding import Binding
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import ClaimRecord


def at_rest(hardware: Hardware, claims: Iterable[ClaimRecord], earlier: Hardware) -> Hardware:
    """Without the bindings, mdevs and profiles of claims. ``earlier``: the node at rest as it was seen before; what its
    cards could give then, they can when they are free again (D-49, D-61)."""
    changes = [change for claim in claims for change in claim.changes]
    ours = {change.target for change in changes if change.property is HostProperty.MDEV}
    profiles = {change.target: change.before for change in changes if change.property is HostProperty.VGPU_PROFILE}
    return replace(
        hardware,
        functions={**hardware.functions, **dict(_functions(hardware, changes))},
        mdev_types=_mdev_types(hardware, [mdev for uuid, mdev in hardware.mdevs.items() if uuid in ours], earlier),
        mdevs={uuid: mdev for uuid, mdev in hardware.mdevs.items() if uuid not in ours},
        vgpus={
            address: VgpuFunction(
                address,
                profiles.get(address, function.current_type),
                {**earlier.vgpus.get(address, function).creatable, **function.creatable},
            )
            for address, function in hardware.vgpus.items()
        },
    )


def _mdev_types(
    hardware: Hardware, ours: list[MediatedDevice], earlier: Hardware
) -> Mapping[str, tuple[MdevType, ...]]:
    """What each parent can make, with what claims have of it."""
    made = [(mdev.parent, mdev.type_id) for mdev in ours]
    before = {(item.parent, item.type_id): item.available for types in earlier.mdev_types.values() for item in types}

    def available(item: MdevType) -> int:
        key = item.parent, item.type_id
        return max(item.available + made.count(key), before.get(key, 0))

    return {
        parent: tuple(replace(item, available=available(item)) for item in types)
        for parent, types in hardware.mdev_types.items()
    }


def _functions(hardware: Hardware, changes: Iterable[HostChange]) -> Iterator[tuple[str, PciFunction]]:
    """Those that claims have bound, on their drivers of before."""
    for change in changes:
        function = hardware.functions.get(change.target)
        if change.property is HostProperty.DRIVER and function is not None:
            before = Binding.parse(change.before)
            yield change.target, replace(function, driver=before.driver, driver_override=before.override)
