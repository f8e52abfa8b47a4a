"""Gives PFs the VFs that policies want (D-48): when the driver starts, and later only to PFs that have none, so that
nobody loses a VF to an edited policy. A number is tried once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from node_driver.devices import PublishedSet
from node_driver.hardware.inventory import Hardware, PciFunction, VfCount
from node_driver.host.changes import Host, HostError, HostProperty
from node_driver.host.locks import Locks
from node_driver.policy.exclusions import ExclusionReason
from node_driver.state.checkpoint import Checkpoint, CheckpointError
from node_driver.state.records import ClaimRecord

log = logging.getLogger(__name__)

LOCK_LIMIT: Final = 1.0
"""Seconds; a function that is just being prepared for a claim is in use."""


class VfMaker:
    """Makes VFs, beside claims that are prepared and other instances of the driver."""

    def __init__(self, host: Host, checkpoint: Checkpoint, locks: Locks) -> None:
        self._host, self._checkpoint, self._locks = host, checkpoint, locks
        self._starting = True
        self._attempts: dict[tuple[str, VfCount], str] = {}
        """PF and number -> why it couldn't be given them, "" if it could."""

    async def make(self, hardware: Hardware, wanted: Mapping[str, VfCount]) -> bool:
        """True if something was tried: then the hardware may be different. Raises nothing; see :meth:`failures`."""
        due = {
            address: count
            for address, count in wanted.items()
            if (address, count) not in self._attempts
            and (has := len(hardware.functions[address].virtual_functions)) != count.number
            and (self._starting or not has)
        }
        self._starting = False
        for address, count in due.items():
            failure = await self._give(hardware.functions[address], count, hardware)
            self._attempts[address, count] = failure
            if failure:
                log.warning("%s doesn't get %d virtual functions: %s", address, count.number, failure)
            else:
                log.info("%s has %d virtual functions", address, count.number)
        return bool(due)

    def failures(self, wanted: Mapping[str, VfCount]) -> Mapping[str, str]:
        """PF -> why it couldn't be given the VFs that it should have."""
        failures = {address: self._attempts.get((address, count), "") for address, count in wanted.items()}
        return {address: failure for address, failure in failures.items() if failure}

    async def _give(self, function: PciFunction, count: VfCount, hardware: Hardware) -> str:
        """Why it doesn't get them, "" if it does. The locks are those of claims that have the functions."""
        address = function.address
        try:
            async with self._locks.hold((address, *function.virtual_functions), limit=LOCK_LIMIT):
                has = VfCount.parse(await self._host.value(HostProperty.VF_COUNT, address)).number
                if has == count.number:
                    return ""
                if has != len(function.virtual_functions):
                    return f"somebody else has just given it {has}"
                claims = (await self._checkpoint.read()).claims.values()
                if use := use_by_claims(function, claims) or use_by_others(function, hardware):
                    return use
                await self._host.set_value(HostProperty.VF_COUNT, address, str(count))
        except (HostError, CheckpointError) as error:
            return str(error)
        return ""


def use_by_claims(function: PciFunction, claims: Iterable[ClaimRecord]) -> str:
    """Which claim has the PF or one of its VFs, "" if none has."""
    addresses = {function.address, *function.virtual_functions}
    for claim in claims:
        for device in claim.devices:
            if addresses & (device.held_names | {device.parent}):
                return f"device {device.device} is in use by ResourceClaim {claim.namespace}/{claim.name}"
    return ""


def use_by_others(function: PciFunction, hardware: Hardware) -> str:
    """What else needs one of its VFs, as far as the hardware shows it."""
    parents = {mdev.parent for mdev in hardware.mdevs.values()}
    for address in function.virtual_functions:
        if address in hardware.protected:
            return f"{address} {hardware.protected[address]}"
        if address in parents:
            return f"{address} has mediated devices"
        if address in hardware.vgpus and hardware.vgpus[address].current_type != "0":
            return f"{address} has a vGPU profile"
    return ""


def with_failures(published: PublishedSet, failures: Mapping[str, str]) -> PublishedSet:
    """What is published, with what came of it in place of what was to be done."""
    excluded = []
    for exclusion in published.excluded:
        if exclusion.reason == ExclusionReason.NO_VIRTUAL_FUNCTIONS and exclusion.subject in failures:
            why = f"it can't be given its virtual functions: {failures[exclusion.subject]}"
            exclusion = replace(exclusion, message=f"{why}; the driver tries it again when it starts")
        excluded.append(exclusion)
    return replace(published, excluded=tuple(dict.fromkeys(excluded)))
