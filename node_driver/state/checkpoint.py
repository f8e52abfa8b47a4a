"""The checkpoint file: what the driver has done on this node for which claim (D-50).

Two JSON objects, a line each: ``{"version": 1, "checksum": "SHA-256 of the second line"}`` and the state. It is read
anew for each step and written under ``serialize.lock``, since another instance of the driver may work at the same time
(D-8). A file that can't be read is kept as ``checkpoint.json.bad``; as long as that exists nothing is prepared or
released.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter

from node_driver.host.locks import Locks
from node_driver.state.files import DriverFiles
from node_driver.state.records import ClaimRecord, DriverState

_R = TypeVar("_R")

FILE_NAME: Final = "checkpoint.json"
BAD_SUFFIX: Final = ".bad"
VERSION: Final = 1
SERIALIZE: Final = "serialize"
LOCK_LIMIT: Final = 10.0
"""Seconds; a step takes milliseconds."""


class CheckpointError(Exception):
    """The checkpoint can't be read or written. ``str(error)`` says what to do; it reaches the pod's Event."""


class Checkpoint:
    """The one reader and writer of the file. ``boot_id``: of the running kernel. ``written`` is called after each
    write, for the metrics."""

    def __init__(
        self, folder: str, files: DriverFiles, locks: Locks, boot_id: str, written: Callable[[], None] = lambda: None
    ) -> None:
        self.path = f"{folder}/{FILE_NAME}"
        self.boot_id = boot_id
        self._files = files
        self._locks = locks
        self._written = written
        self._turn = asyncio.Lock()
        self._waiting: list[_Step[Any]] = []
        self._known: tuple[str, DriverState] | None = None
        """The content that was read or written last, and what it says: reading 1,000 claims takes 50 ms."""
        self._encoder = StateEncoder()

    async def read(self) -> DriverState:
        """What is remembered now; an empty state if there is no file. Raises :class:`CheckpointError`."""
        bad = f"{self.path}{BAD_SUFFIX}"
        try:
            if await self._files.read(bad) is not None:
                raise CheckpointError(_damaged(bad))
            text = await self._files.read(self.path, keep=True)
            if text is None:
                return DriverState(self.boot_id)
            try:
                return self._decoded(text)
            except (ValueError, RecursionError):
                await self._files.rename(self.path, bad)
                raise CheckpointError(_damaged(bad)) from None
        except OSError as error:
            raise CheckpointError(f"the driver's checkpoint can't be read: {error}") from error

    async def update(self, step: Callable[[DriverState], tuple[DriverState, _R]], *, after_reboot: bool = False) -> _R:
        """Applies a step to what is remembered, writes it if it differs, and returns the step's other result. A step
        that raises changes nothing. ``after_reboot``: the step is the one that adapts what an earlier boot remembered,
        before which there is no other. Raises :class:`CheckpointError`; the old content is intact then.

        Steps that come while a file is written are written together, by the first of them (group commit): what waits
        is one write, however many claims are prepared at once.
        """
        result: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Step(step, result, after_reboot))
        async with self._turn:
            if not result.done():
                await self._commit()
        return await result

    async def _commit(self) -> None:
        """Applies and writes all steps that wait; each of them has its result, or its error, then."""
        steps, self._waiting = self._waiting, []
        try:
            async with self._locks.hold((SERIALIZE,), limit=LOCK_LIMIT):
                state = first = await self.read()
                applied = []
                for step in steps:
                    try:
                        state, result = step.applied(state, self.boot_id)
                        applied.append((step, result))
                    except Exception as error:  # noqa: BLE001 - it is raised to whoever brought the step
                        step.result.set_exception(error)
                if state != first:
                    await self._write(state)
            for step, result in applied:
                step.result.set_result(result)
        except Exception as error:  # noqa: BLE001 - the same
            for step in steps:
                if not step.result.done():
                    step.result.set_exception(error)
        finally:  # this task may have been cancelled: whether the file was written isn't known then
            cut_off = CheckpointError("writing the driver's checkpoint was cut off; it is tried again")
            for step in steps:
                if not step.result.done():
                    step.result.set_exception(cut_off)

    def _decoded(self, text: str) -> DriverState:
        if self._known is None or self._known[0] != text:
            self._known = text, decoded(text)
        return self._known[1]

    async def _write(self, state: DriverState) -> None:
        text = self._encoder.encoded(state)
        try:
            await self._files.replace(self.path, text)
        except OSError as error:
            cure = "free space on the node, then it is tried again"
            raise CheckpointError(f"the driver's checkpoint can't be written: {error}; {cure}") from error
        self._known = text, state
        self._written()


@dataclass(frozen=True, slots=True)
class _Step(Generic[_R]):
    apply: Callable[[DriverState], tuple[DriverState, _R]]
    result: asyncio.Future[_R]
    after_reboot: bool

    def applied(self, state: DriverState, boot_id: str) -> tuple[DriverState, _R]:
        if state.boot_id != boot_id and not self.after_reboot:
            raise CheckpointError("the driver hasn't looked through the node since its reboot yet; it is tried again")
        return self.apply(state)


class StateEncoder:
    """Encodes one state after the other. Claims that are the same objects as the last time aren't encoded again: a
    step changes one of perhaps a thousand."""

    def __init__(self) -> None:
        self._claims: Mapping[str, ClaimRecord] = {}
        self._members: dict[str, str] = {}
        """UID -> its member of the JSON object ``claims``."""

    def encoded(self, state: DriverState) -> str:
        earlier, members = self._claims, self._members
        changed = {uid: record for uid, record in state.claims.items() if earlier.get(uid) is not record}
        for uid in earlier.keys() - state.claims.keys():
            del members[uid]
        for uid, record in changed.items():
            members[uid] = _claims_adapter().dump_json({uid: record})[1:-1].decode()
        self._claims = state.claims
        others = _state_adapter().dump_json(state, exclude={"claims"}).decode()
        data = f'{others.removesuffix("}")},"claims":{{{",".join(members.values())}}}}}'
        return f"{json.dumps({'version': VERSION, 'checksum': _checksum(data)})}\n{data}\n"


def decoded(text: str) -> DriverState:
    """Raises :class:`ValueError` if the text isn't a whole checkpoint, :class:`CheckpointError` if a newer driver wrote
    it."""
    first, _, data = text.removesuffix("\n").partition("\n")
    header = json.loads(first)
    if not isinstance(header, dict):
        raise ValueError("no object")
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(f"a newer driver wrote the checkpoint (version {version}); run that one on this node")
    if version != VERSION or header.get("checksum") != _checksum(data):
        raise ValueError("the version or the checksum is wrong")
    return _state_adapter().validate_json(data)


def _checksum(data: str) -> str:
    return hashlib.sha256(data.encode()).hexdigest()


@cache
def _state_adapter() -> TypeAdapter[DriverState]:
    return TypeAdapter(DriverState)


@cache
def _claims_adapter() -> TypeAdapter[Mapping[str, ClaimRecord]]:
    return TypeAdapter(Mapping[str, ClaimRecord])


def _damaged(bad: str) -> str:
    cure = "nothing is prepared or released on this node: drain it, reboot it, then delete that file"
    return f"the driver's checkpoint was damaged and is kept as {bad}; {cure}"
