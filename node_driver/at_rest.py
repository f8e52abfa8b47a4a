"""A node's hardware as it would be if no claim had anything: what policies decide on. Pure.

A device that is claimed is on another driver, and an mdev takes what its card could give: neither may change what is
published, or each claim would rewrite slices, and a policy that names devices by driver would lose those in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from node_driver.hardware.inventory import Hardware, PciFunction
from node_driver.host.binding import Binding
from node_driver.host.changes import HostChange, HostProperty
from node_driver.state.records import ClaimRecord


def at_rest(hardware: Hardware, claims: Iterable[ClaimRecord]) -> Hardware:
    """Without the bindings, mdevs and profiles of claims. What cards in use could give when they were free is not in
    it: see :func:`node_driver.hardware.reading.with_earlier_offers` (D-49, D-61)."""
    changes = [change for claim in claims for change in claim.changes]
    ours = {change.target for change in changes if change.property is HostProperty.MDEV}
    profiles = {change.target: change.before for change in changes if change.property is HostProperty.VGPU_PROFILE}
    return replace(
        hardware,
        functions={**hardware.functions, **dict(_functions(hardware, changes))},
        mdevs={uuid: mdev for uuid, mdev in hardware.mdevs.items() if uuid not in ours},
        vgpus={
            address: replace(function, current_type=profiles.get(address, function.current_type))
            for address, function in hardware.vgpus.items()
        },
    )


def _functions(hardware: Hardware, changes: Iterable[HostChange]) -> Iterator[tuple[str, PciFunction]]:
    """Those that claims have bound, on their drivers of before."""
    for change in changes:
        function = hardware.functions.get(change.target)
        if change.property is HostProperty.DRIVER and function is not None:
            before = Binding.parse(change.before)
            yield change.target, replace(function, driver=before.driver, driver_override=before.override)
