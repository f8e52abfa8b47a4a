"""Prepares and releases claims: the driver behind the kubelet's two calls (D-14 to D-17, D-44 to D-51, D-58).

Nothing is remembered between calls but what the checkpoint says. A claim is worked on by one call at a time, and so is
what devices share, an IOMMU group or a card; claims that share nothing go on side by side.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from node_driver.claims.allocation import NodeAllocation, allocated_claim, check_name
from node_driver.claims.carrying_out import ClaimSteps
from node_driver.claims.planning import (
    check_free,
    cleanable,
    cleaned,
    handed_over,
    new_record,
    refreshed,
    to_clean,
    unclean_devices,
    unmet,
    with_changes,
)
from node_driver.claims.refusals import ClaimRefusal, ClaimRefusalReason
from node_driver.devices import PublishedSet
from node_driver.host.changes import HostBusy, HostError
from node_driver.host.locks import Locks
from node_driver.host.obstacles import first_of
from node_driver.state.checkpoint import Checkpoint, CheckpointError
from node_driver.state.records import ClaimRecord, DriverState, Stage, StuckChange, UncleanDevice
from node_driver.wire.service import ClaimName, FailedClaim, ReadyClaim, ReleasedClaim
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.cluster.port import ApiError, NotFound, Reader

_logger = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

LOCK_LIMIT: Final = 10.0
"""Seconds to wait for another call with the same claim or group (D-11)."""
API_LIMIT: Final = 10.0


class DeviceSource(Protocol):
    def published(self) -> PublishedSet:
        """What the policy publishes now."""


class NodeClaims:
    """:class:`node_driver.wire.service.ClaimService`."""

    def __init__(
        self, reader: Reader, devices: DeviceSource, work: ClaimSteps, checkpoint: Checkpoint, locks: Locks
    ) -> None:
        self._reader = reader
        self._devices = devices
        self._work = work
        self._checkpoint = checkpoint
        self._locks = locks

    async def prepare(self, name: ClaimName) -> ReadyClaim | FailedClaim:
        return await _answer(name, self._prepare)

    async def unprepare(self, name: ClaimName) -> ReleasedClaim | FailedClaim:
        return await _answer(name, self._unprepare)

    async def _prepare(self, name: ClaimName) -> ReadyClaim:
        """Also of a claim that was prepared before: a kubelet that starts again asks again, since what is prepared is
        in its memory only (D-15)."""
        check_name(name)
        claim = await self._allocated(name)
        async with self._locks.hold((claim_lock(name.namespace, name.name),), limit=LOCK_LIMIT):
            state = await self._checkpoint.read()
            record = state.claims.get(name.uid)
            wanted = refreshed(record, claim) if record is not None and record.stage is not Stage.REMOVING else None
            if record is not None and wanted is None:
                await self.release(record)
            if wanted is None:
                devices = self._devices.published().devices
                wanted = new_record(claim, {device.name: device for device in devices})
                wanted = replace(wanted, files=self._work.placement.paths(wanted))
            to_clean(state, wanted)  # before a lock is waited for that erasing holds for an hour
            return self._work.placement.answer(await self._prepared(wanted))

    async def _allocated(self, name: ClaimName) -> NodeAllocation:
        placement = self._work.placement
        try:
            async with asyncio.timeout(API_LIMIT):
                claim = await self._reader.get(ResourceClaim, name.name, name.namespace)
        except NotFound:
            message = f"ResourceClaim {name.namespace}/{name.name} doesn't exist (any more)"
            raise ClaimRefusal(ClaimRefusalReason.CLAIM_GONE, message) from None
        except (ApiError, TimeoutError) as error:
            message = f"ResourceClaim {name.namespace}/{name.name} can't be read from the API server"
            why = f"{str(error) or 'no answer'}; it is tried again"
            raise ClaimRefusal(ClaimRefusalReason.API_UNAVAILABLE, f"{message}: {why}") from error
        return allocated_claim(claim, name, placement.driver, placement.pool)

    async def mend(self, record: ClaimRecord) -> None:
        """Makes again what is missing of a prepared claim (D-51). Whoever calls it holds the claim's lock. Raises as
        :meth:`release`."""
        await self._prepared(record)

    async def _prepared(self, record: ClaimRecord) -> ClaimRecord:
        """The record of a claim whose devices are ready, also of one that was prepared before. Of an mdev the parent is
        locked, too, which may be a VF that is about to be taken away."""
        async with self._locks.hold(record.held_names | record.parents, limit=LOCK_LIMIT):
            return await self._make_ready(record)

    async def _make_ready(self, record: ClaimRecord) -> ClaimRecord:
        state = await self._checkpoint.read()
        record = replace(state.claims.get(record.uid, record), pods=record.pods)
        observed = await self._work.observed(record)
        record = with_changes(record, observed, state)
        await self._work.check_obstacles(record, observed)
        unclean = await self._checkpoint.update(lambda state: _claimed(state, record))
        try:
            await self._work.apply(unmet(record, observed))
            await self._work.reset(unclean.values())
            record = await self._work.with_hardware_addresses(record)
            written = await self._work.write_files(record, again=record.stage is Stage.DONE)
        except (HostError, ClaimRefusal) as error:
            await self._failed(record, error)
            raise
        done = replace(written, stage=Stage.DONE)
        await self._checkpoint.update(lambda state: (_unstuck(cleaned(state, unclean), done).with_claim(done), None))
        return done

    async def _failed(self, record: ClaimRecord, error: Exception) -> None:
        """Puts back what a prepare that failed has changed (D-46). What containers may use already stays, and so does
        what the kernel is still working on: the next call goes on with it, and until then it is remembered as stuck."""
        try:
            if isinstance(error, HostBusy):
                if error.change is not None:
                    change = StuckChange(error.change, str(error))
                    await self._checkpoint.update(lambda state: (_stuck(state, change), None))
            elif record.stage is not Stage.DONE:
                await self._put_back(record)
        except (HostError, ClaimRefusal, CheckpointError) as second:
            _logger.warning("claim %s/%s can't be rolled back yet: %s", record.namespace, record.name, second)

    async def _unprepare(self, name: ClaimName) -> ReleasedClaim:
        """By the checkpoint alone: of a pod that was deleted by force neither pod nor claim may be left (D-16)."""
        check_name(name)
        async with self._locks.hold((claim_lock(name.namespace, name.name),), limit=LOCK_LIMIT):
            record = (await self._checkpoint.read()).claims.get(name.uid)
            if record is not None:
                await self.release(record)
        return ReleasedClaim()

    async def release(self, record: ClaimRecord) -> None:
        """Removes all that was done for a claim. Whoever calls it holds the claim's lock. Raises :class:`ClaimRefusal`,
        :class:`HostError`, :class:`CheckpointError`; the record stays then."""
        async with self._locks.hold(record.held_names, limit=LOCK_LIMIT):
            # As it is now, with changes that another claim of the pod may have handed over (D-43).
            record = (await self._checkpoint.read()).claims.get(record.uid, record)
            if record.stage is Stage.STARTED:
                await self._put_back(record)
                return
            if holders := await self._work.holders(record):
                use = f"devices of ResourceClaim {record.namespace}/{record.name} are still open in {first_of(holders)}"
                raise ClaimRefusal(ClaimRefusalReason.IN_USE, f"{use}; they are released when it has ended")
            await self._put_back(replace(record, stage=Stage.REMOVING))

    async def _put_back(self, record: ClaimRecord) -> None:
        """Removes files, cleans devices and undoes changes. Devices that aren't clean then are remembered, and nothing
        else of the claim."""
        leaving = await self._checkpoint.update(lambda state: _leaving(state, record))
        record = leaving.record
        await self._work.remove_files(record, leaving.kept_files)
        clean = await self._work.cleaned(leaving.unclean)
        stuck = await self._work.undo(record)
        await self._checkpoint.update(lambda state: (_left(cleaned(state, clean), record, stuck), None))
        if stuck:
            raise HostError("; ".join(change.message for change in stuck))


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A claim that is being removed. ``kept_files``: that other claims need, too; ``unclean``: what can be
    cleaned now."""

    record: ClaimRecord
    kept_files: frozenset[str]
    unclean: Mapping[str, UncleanDevice]


def _claimed(state: DriverState, record: ClaimRecord) -> tuple[DriverState, Mapping[str, UncleanDevice]]:
    """The state in which a claim has its devices, and what of them must be cleaned before it is answered."""
    check_free(state, record)
    return state.with_claim(record), to_clean(state, record)


def _leaving(state: DriverState, record: ClaimRecord) -> tuple[DriverState, _Leaving]:
    """The state in which a claim is being removed. What no container could use is as clean as before."""
    state, record = handed_over(state, record)
    if record.stage is Stage.REMOVING:
        state = replace(state, unclean={**state.unclean, **unclean_devices(record)})
    ours = frozenset(record.files)
    others = [other.files for other in state.claims.values() if other.uid != record.uid]
    kept = frozenset().union(*(files for files in others if not ours.isdisjoint(files)))
    return state, _Leaving(record, kept, cleanable(state, record))


def _left(state: DriverState, record: ClaimRecord, stuck: Sequence[StuckChange]) -> DriverState:
    """The state after a claim was removed, or as far as it could be."""
    state = _unstuck(state, record)
    if not stuck:
        return state.without_claim(record.uid)
    for change in stuck:
        state = _stuck(state, change)
    return state


def _stuck(state: DriverState, change: StuckChange) -> DriverState:
    return replace(state, stuck={**state.stuck, change.change.target: change})


def _unstuck(state: DriverState, record: ClaimRecord) -> DriverState:
    targets = {change.target for change in record.changes}
    return replace(state, stuck={target: change for target, change in state.stuck.items() if target not in targets})


def claim_lock(namespace: str, name: str) -> str:
    """The name of the lock under which one call at a time works on a claim, and on those that had or get its name:
    their metadata have the same place."""
    return f"claim {namespace}/{name}"


async def _answer(name: ClaimName, work: Callable[[ClaimName], Awaitable[_Answer]]) -> _Answer | FailedClaim:
    try:
        return await work(name)
    except (ClaimRefusal, HostError, CheckpointError) as error:
        return FailedClaim(str(error))
    except Exception as error:
        _logger.exception("claim %s/%s", name.namespace, name.name)
        return FailedClaim(f"the driver failed: {error!r}; its log says more")
