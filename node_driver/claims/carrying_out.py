"""Makes the node what a claim's record says, and puts it back: the host's values, the CDI files and the metadata
files."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from node_driver.claims.placement import CDI_MODE, METADATA_MODE, FilePlacement
from node_driver.claims.planning import Observed, unmet, wanted_values
from node_driver.claims.refusals import ClaimRefusal, ClaimRefusalReason
from node_driver.devices import Sanitizing
from node_driver.host.changes import Host, HostBusy, HostChange, HostError, HostProperty, TargetGone
from node_driver.state.files import DriverFiles
from node_driver.state.records import ClaimRecord, StuckChange, UncleanDevice

_logger = logging.getLogger(__name__)


class ClaimSteps:
    """The steps of one claim. Whoever calls them holds the claim's locks and has written what they do to the
    checkpoint."""

    def __init__(self, host: Host, files: DriverFiles, placement: FilePlacement) -> None:
        self._host = host
        self._files = files
        self.placement = placement

    async def observed(self, record: ClaimRecord) -> Observed:
        """What the properties that the claim needs are now."""
        keys = {(value.property, value.target) for device in record.devices for value in wanted_values(device)}
        return await self.values(keys)

    async def values(self, keys: Iterable[tuple[HostProperty, str]]) -> Observed:
        values = {}
        for host_property, target in sorted(keys):
            try:
                values[host_property, target] = await self._host.value(host_property, target)
            except TargetGone:
                continue
        return values

    async def check_obstacles(self, record: ClaimRecord, observed: Observed) -> None:
        """Raises :class:`ClaimRefusal` if a function that has to be bound is in use, or can't be (D-45)."""
        pending = {change.target for change in unmet(record, observed) if change.property is HostProperty.DRIVER}
        for device in record.devices:
            if pending & set(device.members) and (
                obstacle := await self._host.obstacle(device.members, device.target_driver)
            ):
                raise ClaimRefusal(ClaimRefusalReason.OBSTACLE, f"device {device.device}: {obstacle}")

    async def apply(self, changes: Iterable[HostChange]) -> None:
        """Raises :class:`HostError` for the first change that fails."""
        for change in changes:
            try:
                await self._host.set_value(change.property, change.target, change.after)
            except HostBusy as error:
                error.change = change
                raise

    async def reset(self, devices: Iterable[UncleanDevice]) -> None:
        """Raises :class:`HostError`."""
        for device in devices:
            await self._host.reset(device.members)

    async def erase(self, device: UncleanDevice) -> None:
        """Raises :class:`HostError`."""
        for member in device.members:
            await self._host.erase(member)

    async def cleaned(self, devices: Mapping[str, UncleanDevice]) -> frozenset[str]:
        """Resets what can be reset, and returns the addresses of what is clean then. The others stay unclean."""
        clean = []
        for address, device in devices.items():
            if device.sanitizing is Sanitizing.RESET:
                try:
                    await self.reset((device,))
                    clean.append(address)
                except HostError as error:
                    _logger.warning("device %s stays unclean: %s", device.device, error)
        return frozenset(clean)

    async def with_hardware_addresses(self, record: ClaimRecord) -> ClaimRecord:
        """The record with the addresses of the network functions that it sets up, for the metadata."""
        devices = []
        for device in record.devices:
            if device.network and not device.admin_access:
                settings = json.loads(await self._host.value(HostProperty.NETWORK_FUNCTION, device.address))
                device = replace(device, hardware_address=settings.get("mac", ""))
            devices.append(device)
        return replace(record, devices=tuple(devices))

    async def undo(self, record: ClaimRecord) -> list[StuckChange]:
        """Puts back what the record's changes have changed, in reverse order; what can't be put back is returned. A
        profile or an mdev that somebody else has set since is left alone (D-61)."""
        stuck = []
        for change in reversed(list(record.changes)):
            try:
                if change.property in (HostProperty.MDEV, HostProperty.VGPU_PROFILE):
                    now = await self._host.value(change.property, change.target)
                    if now not in (change.before, change.after):
                        continue
                await self._host.set_value(change.property, change.target, change.before)
            except TargetGone:
                continue
            except HostError as error:
                stuck.append(StuckChange(change, str(error)))
        return stuck

    async def write_files(self, record: ClaimRecord, *, again: bool) -> ClaimRecord:
        """Writes what is missing or differs, once all nodes exist. ``again``: somebody may have read the metadata, so
        that its generation grows where it is written (D-35). Raises :class:`HostError`, :class:`ClaimRefusal`."""
        nodes = {
            device.device: await self._nodes(record, index)
            for index, device in enumerate(record.devices)
            if not device.admin_access
        }
        try:
            metadata = await self._missing(self.placement.metadata_files(record), METADATA_MODE)
            if metadata:
                record = replace(record, generation=record.generation + again)
                metadata = [(path, text, METADATA_MODE) for path, text in self.placement.metadata_files(record)]
            missing = await self._missing(self.placement.cdi_files(record, nodes), CDI_MODE)
            # At once, as each waits for the disk; all are waited for, as none may be written after a rollback.
            writes = (self._files.replace(path, text, mode=mode) for path, text, mode in (*metadata, *missing))
            for outcome in await asyncio.gather(*writes, return_exceptions=True):
                if outcome is not None:
                    raise outcome
        except OSError as error:
            raise ClaimRefusal(ClaimRefusalReason.FILES, f"the claim's files can't be written: {error}") from error
        return record

    async def remove_files(self, record: ClaimRecord, kept: frozenset[str]) -> None:
        """``kept``: files of other claims; one that was replaced under the same name has the same metadata path."""
        try:
            for path in record.files:
                if path not in kept:
                    await self._files.remove(path, up_to=self.placement.metadata_folder)
        except OSError as error:
            raise ClaimRefusal(ClaimRefusalReason.FILES, f"the claim's files can't be removed: {error}") from error

    async def holders(self, record: ClaimRecord) -> tuple[str, ...]:
        """The processes that have one of the claim's devices open."""
        addresses = [device.address for device in record.devices if not device.admin_access]
        return tuple([holder for address in addresses for holder in await self._host.holders(address)])

    async def _nodes(self, record: ClaimRecord, index: int) -> tuple[str, ...]:
        """Of a device and of the functions that go with it, each once."""
        device = record.devices[index]
        addresses = dict.fromkeys((device.address, *device.members))
        nodes = [node for address in addresses for node in await self._host.vfio_nodes(address)]
        return tuple(dict.fromkeys(nodes))

    async def _missing(self, files: Iterable[tuple[str, str]], mode: int) -> list[tuple[str, str, int]]:
        """Path, text and mode of each file that isn't there, or has another text."""
        wanted = list(files)
        there = await asyncio.gather(*(self._files.read(path) for path, _ in wanted))
        return [(path, text, mode) for (path, text), read in zip(wanted, there, strict=True) if read != text]
