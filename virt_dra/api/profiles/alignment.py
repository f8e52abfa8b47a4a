"""Alignments that are preferred: written into a VM's claims where a node can serve them. Pure values; who chooses is
:mod:`virt_dra.scheduling.alignment`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from virt_dra.api.counting import listed
from virt_dra.api.profiles.device_profile_v1alpha1 import NUMA_NODE, PCIE_ROOT, STANDARD_ATTRIBUTES
from virt_dra.api.resource_v1 import DeviceConstraint, ResourceClaimSpec

_PLACES: Final = {STANDARD_ATTRIBUTES[PCIE_ROOT]: "PCIe root", STANDARD_ATTRIBUTES[NUMA_NODE]: "NUMA node"}


@dataclass(frozen=True)
class PreferredAlignment:
    """Devices of a claim that would be better together. ``entry``: the VM's name for the claim; ``devices``: their
    names, which are those of the requests."""

    entry: str
    devices: tuple[str, ...]
    constraint: DeviceConstraint

    @property
    def given_up(self) -> str:
        """What it means that it doesn't hold: ``gpu and nic on different PCIe roots: no node has both free on one``."""
        attribute = self.constraint.match_attribute or ""
        place = _PLACES.get(attribute)
        free = "both" if len(self.devices) == 2 else "all of them"
        where, on = (f"on different {place}s", "on one") if place else (f"with different {attribute}", "with one")
        return f"{_together(self.devices)} {where}: no node has {free} free {on}"


def with_alignments(spec: ResourceClaimSpec, held: Iterable[PreferredAlignment]) -> ResourceClaimSpec:
    """The claim with these alignments after those that are required."""
    constraints = (*spec.devices.constraints, *(alignment.constraint for alignment in held))
    if len(constraints) == len(spec.devices.constraints):
        return spec
    return spec.with_(devices=spec.devices.with_(constraints=constraints))


def _together(names: tuple[str, ...]) -> str:
    return " and ".join(names) if len(names) <= 2 else listed(names, 4)
