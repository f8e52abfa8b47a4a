"""Mistakes to put into the driver: each is one that somebody could make in a line of it. What the judge of histories is
worth is in how soon it finds each out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from devtools.node import histories
from devtools.node.disk import MemoryLocks
from node_driver import last_reading, vf_making
from node_driver.claims import carrying_out, planning, repairing, service
from node_driver.claims.carrying_out import ClaimSteps
from node_driver.claims.planning import WantedValue
from node_driver.claims.repairing import ClaimRepair
from node_driver.claims.service import NodeClaims
from node_driver.devices import DeviceKind, Sanitizing
from node_driver.host import binding
from node_driver.host.changes import HostError, HostProperty
from node_driver.host.sanitizing import Sanitizer
from node_driver.state.records import ClaimRecord, DriverState, Stage, StuckChange
from virt_dra.simulator.virtual_time import run_virtually

Mistake = Callable[[], Any]
"""Makes it while it is entered."""


def found_out(mistake: str, seeds: range) -> int:
    """Which of these histories finds a mistake out, from 1; 0 if none does."""
    with MISTAKES[mistake]():
        return run_virtually(_failing(seeds))


async def _failing(seeds: range) -> int:
    for number, seed in enumerate(seeds, start=1):
        try:
            await histories.play(seed)
        except (histories.Broken, TimeoutError):
            return number
    return 0


def _in_place(owner: Any, name: str, wrong: Any) -> Mistake:
    return lambda: mock.patch.object(owner, name, wrong)


@contextmanager
def _all(*mistakes: Mistake) -> Iterator[None]:
    with ExitStack() as stack:
        for mistake in mistakes:
            stack.enter_context(mistake())
        yield


async def _nothing(*_: Any, **__: Any) -> Any:
    return ()


def _wanted_values(wrong: Callable[[Any], Any]) -> Mistake:
    right = planning.wanted_values

    def values(device: Any) -> Iterator[WantedValue]:
        return right(wrong(device))

    return lambda: _all(_in_place(planning, "wanted_values", values), _in_place(carrying_out, "wanted_values", values))


async def _host_before_checkpoint(self: NodeClaims, record: ClaimRecord) -> ClaimRecord:
    state = await self._checkpoint.read()
    record = replace(state.claims.get(record.uid, record), pods=record.pods)
    observed = await self._work.observed(record)
    record = planning.with_changes(record, observed, state)
    await self._work.check_obstacles(record, observed)
    unclean = service._claimed(state, record)[1]
    await self._work.apply(planning.unmet(record, observed))
    await self._work.reset(unclean.values())
    record = await self._work.with_hardware_addresses(record)
    done = replace(await self._work.write_files(record, again=False), stage=Stage.DONE)
    await self._checkpoint.update(lambda state: (service._claimed(planning.cleaned(state, unclean), done)[0], None))
    return done


async def _as_remembered(self: NodeClaims, record: ClaimRecord) -> ClaimRecord:
    if record.stage is Stage.DONE:
        return record
    async with self._locks.hold(record.held_names | record.parents, limit=service.LOCK_LIMIT):
        return await self._make_ready(record)


async def _clean_unseen(self: ClaimSteps, devices: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(devices)


async def _busy_is_failed(self: NodeClaims, record: ClaimRecord, error: Exception) -> None:
    try:
        if record.stage is not Stage.DONE:
            await self._put_back(record)
    except HostError:
        pass


async def _undo_of_others(self: ClaimSteps, record: ClaimRecord) -> Any:
    stuck = []
    for change in reversed(list(record.changes)):
        try:
            await self._host.set_value(change.property, change.target, change.before)
        except HostError as error:
            if type(error).__name__ != "TargetGone":
                stuck.append(StuckChange(change, str(error)))
    return stuck


_RIGHT_REMOVE: Final = ClaimSteps.remove_files
_RIGHT_REPAIR: Final = ClaimRepair._repair
_RIGHT_EXISTS: Final = ClaimRepair._exists


async def _remove_all_files(self: ClaimSteps, record: ClaimRecord, kept: frozenset[str]) -> None:
    await _RIGHT_REMOVE(self, record, frozenset())


async def _repair_done_only(self: ClaimRepair, record: ClaimRecord, rebooted: bool) -> None:
    if record.stage is Stage.DONE:
        await _RIGHT_REPAIR(self, record, rebooted)


async def _repair_undone_only(self: ClaimRepair, record: ClaimRecord, rebooted: bool) -> None:
    if record.stage is not Stage.DONE:
        await _RIGHT_REPAIR(self, record, rebooted)


def _dirty_given(state: DriverState, record: ClaimRecord) -> Any:
    entries = {} if record.stage is Stage.DONE else planning.cleanable(state, record)
    return {name: unclean for name, unclean in entries.items() if unclean.sanitizing is not Sanitizing.ERASE}


def _cleaned_in_use(state: DriverState, record: ClaimRecord) -> Any:
    members = {member for device in record.devices for member in device.members}
    return {name: unclean for name, unclean in state.unclean.items() if not members.isdisjoint(unclean.members)}


def _conflict(device: Any, other: Any, same_pods: bool) -> str:
    same = device.device == other.device or device.address == other.address
    return "is held by" if same else ""


def _conflict_without_parents(device: Any, other: Any, same_pods: bool) -> str:
    if device.device == other.device or device.address == other.address:
        return "is held by"
    return "shares" if not same_pods and device.held_names & other.held_names else ""


def _nothing_handed_over(state: DriverState, record: ClaimRecord) -> tuple[DriverState, ClaimRecord]:
    return state.with_claim(record), record


def _as_before_the_reboot(state: DriverState, boot_id: str, observed: Any) -> DriverState:
    return replace(state, boot_id=boot_id, stuck={})


def _changes_made_anew(record: ClaimRecord, observed: Any, state: DriverState) -> ClaimRecord:
    without = replace(record, devices=tuple(replace(device, changes=()) for device in record.devices))
    others = replace(state, claims={uid: other for uid, other in state.claims.items() if uid != record.uid})
    return _RIGHT_CHANGES(without, observed, others)


def _changes_of_others_unknown(record: ClaimRecord, observed: Any, state: DriverState) -> ClaimRecord:
    return _RIGHT_CHANGES(record, observed, replace(state, claims={}))


_RIGHT_CHANGES: Final = planning.with_changes


def _stuck_and_forgotten(state: DriverState, record: ClaimRecord, stuck: Any) -> DriverState:
    return state.without_claim(record.uid)


@asynccontextmanager
async def _no_lock(self: MemoryLocks, names: Iterable[str], *, limit: float) -> AsyncIterator[None]:
    yield


async def _exists_by_name(self: ClaimRepair, record: ClaimRecord) -> bool | None:
    exists = await _RIGHT_EXISTS(self, record)
    return exists if exists is None else False


async def _looks_at_nothing(self: Any, claims: Mapping[str, ClaimRecord]) -> None:
    self.claims = claims
    await asyncio.sleep(0)


def _no_other_owner(wanted: WantedValue, now: str) -> bool:
    return False


def _before_is_unknown(self: WantedValue, now: str) -> str:
    return "/" if self.property is HostProperty.DRIVER else now


async def _files_are_there(self: ClaimSteps, files: Any, mode: int) -> list[Any]:
    return []


def _no_mdevs(device: Any) -> Any:
    return replace(device, admin_access=True) if device.kind is DeviceKind.MDEV else device


MISTAKES: Final[Mapping[str, Mistake]] = {
    "prepare: what failed isn't put back": _in_place(NodeClaims, "_failed", _nothing),
    "prepare: a kernel that is busy has failed": _in_place(NodeClaims, "_failed", _busy_is_failed),
    "prepare: the host is changed before the checkpoint": _in_place(NodeClaims, "_make_ready", _host_before_checkpoint),
    "prepare: what is remembered is answered unseen": _in_place(NodeClaims, "_prepared", _as_remembered),
    "prepare: others' devices are given": _in_place(service, "check_free", lambda state, record: None),
    "prepare: groups and cards are no reason": _in_place(planning, "conflict", _conflict),
    "prepare: a card and its mdevs are both given": _in_place(planning, "conflict", _conflict_without_parents),
    "prepare: companions of a group stay as they are": _wanted_values(
        lambda device: replace(device, members=device.members[:1])
    ),
    "prepare: mdevs aren't made": _wanted_values(_no_mdevs),
    "prepare: obstacles aren't asked for": _in_place(ClaimSteps, "check_obstacles", _nothing),
    "prepare: profiles of others are taken": _in_place(planning, "_has_other_owner", _no_other_owner),
    "prepare: changes are made anew by a retry": _in_place(service, "with_changes", _changes_made_anew),
    "prepare: changes of others aren't known": _in_place(service, "with_changes", _changes_of_others_unknown),
    "prepare: the former driver isn't noted": _in_place(WantedValue, "before", _before_is_unknown),
    "prepare: files aren't written": _in_place(ClaimSteps, "_missing", _files_are_there),
    "unclean: nothing is reset": lambda: _all(
        _in_place(ClaimSteps, "reset", _nothing), _in_place(ClaimSteps, "cleaned", _clean_unseen)
    ),
    "unclean: nothing is noted": _in_place(service, "unclean_devices", lambda record: {}),
    "unclean: a drive is given before it is erased": _in_place(service, "to_clean", _dirty_given),
    "unclean: an erase does nothing": _in_place(Sanitizer, "_erase", _nothing),
    "unclean: devices in use are cleaned": lambda: _all(
        _in_place(planning, "cleanable", _cleaned_in_use), _in_place(service, "cleanable", _cleaned_in_use)
    ),
    "release: devices that are open are released": _in_place(ClaimSteps, "holders", _nothing),
    "release: shared changes aren't handed over": _in_place(service, "handed_over", _nothing_handed_over),
    "release: files of other claims are removed": _in_place(ClaimSteps, "remove_files", _remove_all_files),
    "release: a later owner's profile is cleared": _in_place(ClaimSteps, "undo", _undo_of_others),
    "release: what is stuck is forgotten": _in_place(service, "_left", _stuck_and_forgotten),
    "repair: what was begun stays": _in_place(ClaimRepair, "_repair", _repair_done_only),
    "repair: what is missing stays so": _in_place(ClaimRepair, "_repair", _repair_undone_only),
    "repair: a reboot changes nothing": _in_place(repairing, "after_reboot", _as_before_the_reboot),
    "repair: claims that exist are orphans": _in_place(ClaimRepair, "_exists", _exists_by_name),
    "repair: orphans aren't waited for": _in_place(repairing, "ORPHAN_SECONDS", 0.0),
    "functions: VFs that are being made are prepared": _in_place(binding, "vfs_made", _nothing),
    "functions: VFs of claims are taken away": _in_place(vf_making, "use_by_claims", lambda function, claims: ""),
    "locks: nothing is locked": _in_place(MemoryLocks, "hold", _no_lock),
    "look: nothing is read again": _in_place(last_reading.LastReading, "renew", _looks_at_nothing),
}

HARMLESS: Final[Mapping[str, str]] = {
    "prepare: a card and its mdevs are both given": "a card with mdevs isn't bound, and one that is bound makes none",
    "unclean: devices in use are cleaned": "a claim isn't released while a process has its group open",
}
"""Those that no history finds out -> what stands behind them."""
