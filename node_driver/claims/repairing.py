"""Mends what crashes and reboots left (D-51), and releases claims that nobody asks to release any more (D-52)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from node_driver.claims.carrying_out import ClaimSteps
from node_driver.claims.planning import after_reboot, cleaned
from node_driver.claims.refusals import ClaimRefusal
from node_driver.claims.service import NodeClaims, claim_lock
from node_driver.devices import Sanitizing
from node_driver.host.changes import HostError
from node_driver.host.locks import LockBusy, Locks
from node_driver.state.checkpoint import Checkpoint
from node_driver.state.records import ClaimRecord, DriverState, Stage
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.port import ApiError, NotFound, Reader

_logger = logging.getLogger(__name__)

ORPHAN_SECONDS: Final = 600.0
"""How long a claim must be away before it is released without the kubelet (D-52)."""
LOCK_LIMIT: Final = 1.0
"""Seconds; a claim that another instance works on needs no repair."""


class ClaimRepair:
    """What the daemon does beside the kubelet's calls."""

    def __init__(
        self, claims: NodeClaims, work: ClaimSteps, checkpoint: Checkpoint, locks: Locks, reader: Reader
    ) -> None:
        self._claims = claims
        self._work = work
        self._checkpoint = checkpoint
        self._locks = locks
        self._reader = reader
        self._missing_since: dict[str, float] = {}

    async def at_start(self) -> None:
        """Rolls back claims whose preparation was cut off, finishes releases that were, and writes again what is
        missing of prepared ones. After a reboot prepared claims wait for the kubelet, which asks again. Raises
        :class:`CheckpointError`; what can't be mended is logged and stays in the checkpoint."""
        state = await self._checkpoint.read()
        rebooted = state.boot_id != self._checkpoint.boot_id
        if rebooted:
            keys = {(change.property, change.target) for record in state.claims.values() for change in record.changes}
            observed = await self._work.values(keys)
            boot_id = self._checkpoint.boot_id
            await self._checkpoint.update(
                lambda earlier: (after_reboot(earlier, boot_id, observed), None), after_reboot=True
            )
        for record in state.claims.values():
            await self._worked_on(record, lambda record: self._repair(record, rebooted))

    async def _repair(self, record: ClaimRecord, rebooted: bool) -> None:
        if record.stage is not Stage.DONE:
            await self._claims.release(record)
        elif not rebooted:
            await self._claims.mend(record)

    async def release_orphans(self, now: float) -> None:
        """Releases claims that have been away from the API, or replaced, for ten minutes. ``now``: of a clock that
        never goes back, in seconds. Raises :class:`CheckpointError`."""
        claims = (await self._checkpoint.read()).claims
        missing_since: dict[str, float] = {}
        for uid, record in claims.items():
            exists = await self._exists(record)
            if exists is None and uid in self._missing_since:
                missing_since[uid] = self._missing_since[uid]
            elif exists is False:
                missing_since[uid] = self._missing_since.get(uid, now)
        self._missing_since = missing_since
        for uid, since in missing_since.items():
            if now - since >= ORPHAN_SECONDS:
                await self._worked_on(claims[uid], self._claims.release)
        left = (await self._checkpoint.read()).claims  # one that is prepared again has its time anew
        self._missing_since = {uid: since for uid, since in missing_since.items() if uid in left}

    async def erase_unclean(self) -> None:
        """Erases the devices that wait for it and that no claim holds, one after the other; each may take an hour.
        Raises :class:`CheckpointError`; what can't be erased is logged and stays unclean."""
        for address, unclean in (await self._checkpoint.read()).unclean.items():
            if unclean.sanitizing is not Sanitizing.ERASE:
                continue
            try:
                async with self._locks.hold((address, *unclean.members), limit=LOCK_LIMIT):
                    state = await self._checkpoint.read()
                    held = {name for record in state.claims.values() for name in record.held_names}
                    if state.unclean.get(address) != unclean or held & set(unclean.members):
                        continue
                    await self._work.erase(unclean)
                    await self._checkpoint.update(partial(_cleaned, address))
            except LockBusy:
                continue
            except HostError as error:
                _logger.warning("device %s stays unclean: %s", unclean.device, error)

    async def _exists(self, record: ClaimRecord) -> bool | None:
        """None if the API server doesn't say."""
        try:
            claim = await self._reader.get(ResourceClaim, record.name, record.namespace)
        except NotFound:
            return False
        except ApiError:
            return None
        return claim.metadata.uid == record.uid

    async def _worked_on(self, claim: ClaimRecord, work: Callable[[ClaimRecord], Awaitable[None]]) -> None:
        """Does something for a claim, if it is still there and nobody else works on it."""
        try:
            async with self._locks.hold((claim_lock(claim.namespace, claim.name),), limit=LOCK_LIMIT):
                record = (await self._checkpoint.read()).claims.get(claim.uid)
                if record is not None:
                    await work(record)
        except LockBusy:
            return
        except (ClaimRefusal, HostError) as error:
            _logger.warning("claim %s/%s isn't mended yet: %s", claim.namespace, claim.name, error)


def _cleaned(address: str, state: DriverState) -> tuple[DriverState, None]:
    return cleaned(state, {address}), None
