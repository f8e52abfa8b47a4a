"""The checkpoint file: what the driver has done on this node for which claim (D-50).

Two JSON objects, a line each: ``{"version": 1, "checksum": "SHA-256 of the second line"}`` and the state. It is read
anew for each step and written under ``serialize.lock``, since another instance of the driver may work at the same time
(D-8). A file that can't be read is kept as ``checkpoint.json.bad``; as long as that exists nothing is prepared or
released.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, TypeVar

from pydantic import TypeAdapter

from node_driver.host.locks import Locks
from node_driver.state.files import DriverFiles
from node_driver.state.records import DriverState

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

    async def read(self) -> DriverState:
        """What is remembered now; an empty state if there is no file. Raises :class:`CheckpointError`."""
        bad = f"{self.path}{BAD_SUFFIX}"
        try:
            if await self._files.read(bad) is not None:
                raise CheckpointError(_damaged(bad))
            text = await self._files.read(self.path)
            if text is None:
                return DriverState(self.boot_id)
            try:
                return decoded(text)
            except (ValueError, RecursionError):
                await self._files.rename(self.path, bad)
                raise CheckpointError(_damaged(bad)) from None
        except OSError as error:
            raise CheckpointError(f"the driver's checkpoint can't be read: {error}") from error

    async def update(self, step: Callable[[DriverState], tuple[DriverState, _R]], *, after_reboot: bool = False) -> _R:
        """Applies a step to what is remembered, writes it if it differs, and returns the step's other result. A step
        that raises changes nothing. ``after_reboot``: the step is the one that adapts what an earlier boot remembered,
        before which there is no other. Raises :class:`CheckpointError`; the old content is intact then."""
        async with self._locks.hold((SERIALIZE,), limit=LOCK_LIMIT):
            state = await self.read()
            if state.boot_id != self.boot_id and not after_reboot:
                raise CheckpointError(
                    "the driver hasn't looked through the node since its reboot yet; it is tried again"
                )
            new_state, result = step(state)
            if new_state != state:
                try:
                    await self._files.replace(self.path, encoded(new_state))
                except OSError as error:
                    raise CheckpointError(
                        f"the driver's checkpoint can't be written: {error}; free space on the node, then it is tried "
                        "again"
                    ) from error
                self._written()
            return result


def encoded(state: DriverState) -> str:
    data = _adapter().dump_json(state).decode()
    return f"{json.dumps({'version': VERSION, 'checksum': _checksum(data)})}\n{data}\n"


@lru_cache(maxsize=2)
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
    return _adapter().validate_json(data)


def _checksum(data: str) -> str:
    return hashlib.sha256(data.encode()).hexdigest()


@cache
def _adapter() -> TypeAdapter[DriverState]:
    return TypeAdapter(DriverState)


def _damaged(bad: str) -> str:
    return (
        f"the driver's checkpoint was damaged and is kept as {bad}; nothing is prepared or released on this node: "
        "drain it, reboot it, then delete that file"
    )
