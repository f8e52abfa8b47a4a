"""The driver's process: looks at the node, decides what is published, and serves the kubelet.

Starting: repair what was cut off, look, publish, then the sockets; what the API server doesn't take yet is published
later. Ending: taint all devices, then close the sockets (D-18). Of two instances on a node (D-8) one publishes, the
holder of the lock ``publish``; who waits for it holds ``successor``, so that a predecessor leaves the devices to it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from node_driver.at_rest import at_rest
from node_driver.conditions import (
    DEFAULT_EFFECTS,
    ConditionReason,
    DeviceCondition,
    Evaluation,
    NodeView,
    TaintEffect,
    driver_away,
    evaluate,
    health_reports,
    taints,
)
from node_driver.devices import PassthroughDevice, PublishedSet, Sanitizing
from node_driver.hardware.inventory import Hardware, VfCount
from node_driver.host.changes import Host, HostError
from node_driver.host.locks import LockBusy, Locks
from node_driver.last_reading import HardwareReader, LastReading
from node_driver.metrics import DriverMetrics
from node_driver.publishing import Publisher
from node_driver.slices import slice_contents
from node_driver.state.checkpoint import Checkpoint, CheckpointError
from node_driver.state.records import ClaimRecord, DriverState, Stage
from node_driver.vf_making import VfMaker, with_failures
from node_driver.wire.service import HealthReport

log = logging.getLogger(__name__)

RESCAN: Final = 60.0
"""Seconds after which everything is looked at again, whatever was reported and whatever claims have touched (D-42)."""
LEAVING: Final = 5.0
"""Seconds that the last taints may take; a kubelet gives a pod 30."""
FIRST_OBSTACLES: Final = 5.0
"""Seconds after which obstacles are looked for, though the devices aren't published: by another instance or not yet."""
_PUBLISH, _SUCCESSOR = "publish", "successor"
PAUSE: Final = 1.0
"""Seconds between two looks: many claims at once are seen together."""


class HardwareSource(HardwareReader, Protocol):
    async def links(self) -> Mapping[str, bool]:
        """PCI function with a network interface that is up -> whether it has a carrier."""

    async def changed(self) -> frozenset[str] | None:
        """What the kernel has reported as changed, addresses and UUIDs, once it has settled; None if it may be any."""


class PolicySource(Protocol):
    def published(self, hardware: Hardware) -> PublishedSet | None:
        """What the policies publish of this hardware; None as long as the policies aren't known."""

    def wanted_vfs(self, hardware: Hardware) -> Mapping[str, VfCount] | None:
        """PF -> the VFs that the policies want it to have; None as :meth:`published`."""

    async def changed(self) -> None:
        """Returns when the policies are others than at the last call of :meth:`published`."""


class NodeRepair(Protocol):
    """A part of :class:`node_driver.claims.repairing.ClaimRepair`. Each raises :class:`CheckpointError`."""

    async def at_start(self) -> None: ...
    async def release_orphans(self, now: float) -> None: ...
    async def erase_unclean(self) -> None: ...


@dataclass(frozen=True)
class DaemonSettings:
    driver: str
    node: str
    effects: Mapping[ConditionReason, TaintEffect] = field(default_factory=lambda: DEFAULT_EFFECTS)
    rescan: float = RESCAN
    pause: float = PAUSE


class DeviceSurvey:
    """What the driver knows of the node's devices: the source of claims, of slices and of health."""

    def __init__(
        self,
        settings: DaemonSettings,
        hardware: HardwareSource,
        policy: PolicySource,
        host: Host,
        vfs: VfMaker,
        checkpoint: Checkpoint,
        publisher: Publisher,
        metrics: DriverMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._hardware, self._policy, self._host = hardware, policy, host
        self._vfs = vfs
        self._checkpoint, self._publisher, self._metrics = checkpoint, publisher, metrics
        self._clock = clock
        self._evaluation = Evaluation(PublishedSet())
        self._wanted: Evaluation | None = None
        """What is being published."""
        self._earlier: dict[str, PassthroughDevice] = {}
        self._last = LastReading(hardware)
        self._rest = Hardware()
        self._obstacles: dict[str, str] = {}
        self._woken, self._reported = asyncio.Event(), asyncio.Event()
        self.ready = False
        """Whether the devices have been looked at, and the policies are known."""

    # --- the ports of claims and of health --------------------------------------------------------------------------

    def published(self) -> PublishedSet:
        return self._evaluation.published

    def reports(self) -> tuple[HealthReport, ...]:
        return health_reports(self._evaluation, self._settings.node, int(self._clock()))

    async def changed(self) -> None:
        await self._reported.wait()

    # --- looking ------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Something that the driver did itself may have changed the devices' state."""
        self._woken.set()

    async def look(self) -> None:
        """Looks once, makes the VFs that are wanted, and publishes what it sees."""
        try:
            await self._last.renew(await self._claims())
            links = await self._hardware.links()
        except OSError as error:  # what was seen before still holds
            log.warning("the node's devices can't be read: %s", error)
            self._last.report(None)
            return
        hardware, before = self._last.hardware, self._last.claims
        try:
            state = await self._checkpoint.read()
        except CheckpointError as error:
            self._damaged(hardware, str(error))
            return
        claims = tuple(_as_seen(record, before) for record in state.claims.values())
        others = (record for uid, record in before.items() if record is not state.claims.get(uid))
        self._rest = at_rest(hardware, (*others, *claims), earlier=self._rest)
        wanted_vfs = self._policy.wanted_vfs(self._rest)
        published = self._policy.published(self._rest)
        if wanted_vfs is None or published is None:
            return
        if await self._vfs.make(self._rest, wanted_vfs):
            self._last.report(None)
            await self.look()
            return
        published = with_failures(published, self._vfs.failures(wanted_vfs))
        # Whatever needs a reset gets it when it is prepared.
        erased = ((at, unclean) for at, unclean in state.unclean.items() if unclean.sanitizing is Sanitizing.ERASE)
        unclean = {address: device.message for address, device in erased}
        stuck = {address: change.message for address, change in state.stuck.items()}
        view = NodeView(hardware, claims, self._obstacles, links, unclean, stuck)
        evaluation = evaluate(published, view, self._earlier)
        self._earlier = {device.name: device for device in evaluation.published.devices}
        self._show(evaluation, state)

    async def _claims(self) -> Mapping[str, ClaimRecord] | None:
        """Those of the checkpoint; None if it can't be read."""
        try:
            return (await self._checkpoint.read()).claims
        except CheckpointError:  # the look that follows says so
            return None

    async def look_for_obstacles(self) -> None:
        """Asks the host of each device that no claim has, one after the other: it takes a while."""
        claims = await self._claims()
        if claims is None:
            return
        claimed = {record.device for claim in claims.values() for record in claim.devices}
        obstacles: dict[str, str] = {}
        for device in self._evaluation.published.devices:
            if device.name in claimed or not device.members:
                continue
            try:
                text = await self._host.obstacle(device.members, device.target_driver)
            except (HostError, OSError, LockBusy) as error:
                text = str(error)
            if text:
                obstacles[device.name] = text
        if obstacles != self._obstacles:
            self._obstacles = obstacles
            self.wake()

    async def follow(self) -> None:
        """Looks whenever something may have changed. Ends only by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_hardware(), name="hardware")
            group.create_task(self._wake_when(self._policy.changed), name="policy")
            group.create_task(self._obstacles_for_ever(), name="obstacles")
            loop = asyncio.get_running_loop()
            rescan_at = loop.time() + self._settings.rescan
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(rescan_at):
                        await self._woken.wait()
                self._woken.clear()
                if loop.time() >= rescan_at:
                    self._last.report(None)
                    rescan_at = loop.time() + self._settings.rescan
                await self.look()
                await asyncio.sleep(self._settings.pause)

    async def leave(self) -> None:
        """Taints all devices, for a while: the API server may be away, too."""
        if not self.ready:
            return
        self._publish(driver_away(self._evaluation))
        try:
            async with asyncio.timeout(LEAVING):
                await self._publisher.published()
        except TimeoutError:
            log.warning("the devices can't be tainted before the driver goes: %s", self._publisher.refusal)

    async def _follow_hardware(self) -> None:
        while True:
            self._last.report(await self._hardware.changed())
            self.wake()

    async def _wake_when(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            await changed()
            self.wake()

    async def _obstacles_for_ever(self) -> None:
        """Once the devices are published, if that goes on at all: asking for a thousand takes a tenth of the start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_OBSTACLES):
                await self._publisher.published()
        while True:
            await self.look_for_obstacles()
            await asyncio.sleep(self._settings.rescan)

    def _damaged(self, hardware: Hardware, message: str) -> None:
        """Without a checkpoint nobody can say who has what: nothing new is published, and nothing can be given out
        (D-50)."""
        log.error("%s", message)
        published = self._evaluation.published
        if not published.devices:
            published = self._policy.published(hardware) or published
        stuck = tuple(DeviceCondition(device.name, ConditionReason.STUCK, message) for device in published.devices)
        self._show(Evaluation(published, stuck), DriverState())

    def _show(self, evaluation: Evaluation, state: DriverState) -> None:
        for condition in set(evaluation.conditions) - set(self._evaluation.conditions):
            log.warning("device %s is %s: %s", condition.device, condition.reason, condition.message)
        if evaluation.published.excluded != self._evaluation.published.excluded:
            for excluded in evaluation.published.excluded:
                log.info("%s isn't published (%s): %s", excluded.subject, excluded.reason, excluded.message)
        self._evaluation, self.ready = evaluation, True
        self._publish(evaluation)
        claims = state.claims.values()
        self._metrics.evaluated(evaluation, frozenset(device.device for claim in claims for device in claim.devices))
        reported, self._reported = self._reported, asyncio.Event()
        reported.set()

    def _publish(self, evaluation: Evaluation) -> None:
        """Most looks see what the last one saw; writing down 1,000 devices takes 20 ms, in which no claim is worked
        on."""
        if evaluation == self._wanted:
            return
        self._wanted = evaluation
        tainted = taints(evaluation, self._settings.driver, self._settings.effects)
        self._publisher.publish(slice_contents(evaluation.published, tainted))


def _as_seen(record: ClaimRecord, before: Mapping[str, ClaimRecord]) -> ClaimRecord:
    """A claim's record as far as the hardware shows it that was read since ``before``. What was done meanwhile, the
    next look sees: until then nothing is wrong with a device that isn't as its claim needs it."""
    return record if record == before.get(record.uid) else replace(record, stage=Stage.STARTED)


async def drive(
    devices: DeviceSurvey,
    repair: NodeRepair,
    publisher: Publisher,
    server: AbstractAsyncContextManager[object],
    locks: Locks,
    stop: asyncio.Event,
) -> None:
    """Runs until ``stop`` is set. ``server``: serves and registers while it is entered. Raises what ends a part that
    should not end."""
    try:
        await repair.at_start()
    except CheckpointError as error:
        log.error("nothing is repaired: %s", error)
    await devices.look()
    async with asyncio.TaskGroup() as group:
        publishing = group.create_task(_publish_in_turn(publisher, locks), name="publishing")
        repairing = [
            group.create_task(_release_orphans(repair), name="orphans"),
            group.create_task(_erase(repair, devices), name="erasing"),
        ]
        following = group.create_task(devices.follow(), name="devices")
        async with server:
            await stop.wait()
            following.cancel()
            if not await _has_successor(locks):
                await devices.leave()
        publishing.cancel()
        for task in repairing:
            task.cancel()


async def _publish_in_turn(publisher: Publisher, locks: Locks) -> None:
    async with AsyncExitStack() as waiting:
        await waiting.enter_async_context(locks.hold((_SUCCESSOR,), limit=math.inf))
        async with locks.hold((_PUBLISH,), limit=math.inf):
            await waiting.aclose()
            await publisher.run()


async def _has_successor(locks: Locks) -> bool:
    try:
        async with locks.hold((_SUCCESSOR,), limit=0.0):
            return False
    except LockBusy:
        return True


async def _release_orphans(repair: NodeRepair) -> None:
    while True:
        await asyncio.sleep(RESCAN)
        with suppress(CheckpointError):  # reported by each look
            await repair.release_orphans(asyncio.get_running_loop().time())


async def _erase(repair: NodeRepair, devices: DeviceSurvey) -> None:
    while True:
        with suppress(CheckpointError):
            await repair.erase_unclean()
        devices.wake()
        await asyncio.sleep(RESCAN)
