"""The kernel's files of this node."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from node_driver.hardware.addresses import addressed_interfaces
from node_driver.hardware.file_tree import FileTree
from node_driver.hardware.protection import needed_functions
from node_driver.host.changes import HostBusy
from node_driver.host.child import AttributeHelper, StillRunning
from node_driver.host.file_locks import FileLocks
from node_driver.host.kernel_files import LIMIT, AttributeRead, KernelOperation

_Seen = TypeVar("_Seen")

NEEDED_AGE: Final = 0.5
"""Seconds: what the node needs is asked of each published device in turn."""


class SharedLook(Generic[_Seen]):
    """Looks at something in a thread. A call takes a look that began at most ``age`` seconds before it, so that those
    that come while another looks share the next one."""

    def __init__(self, look: Callable[[], _Seen], age: float = 0.0) -> None:
        self._look, self._age = look, age
        self._turn = asyncio.Lock()
        self._began = 0.0
        self._seen: _Seen | None = None

    async def look(self) -> _Seen:
        called = time.monotonic()
        async with self._turn:
            if self._seen is None or self._began < called - self._age:
                self._began, self._seen = time.monotonic(), None
                self._seen = await asyncio.to_thread(self._look)
            return self._seen


class NodeFiles:
    """:class:`node_driver.host.kernel_files.KernelFiles`. ``root``: "" or where a copy of these trees is, for tests."""

    def __init__(self, locks: FileLocks, helper: AttributeHelper, *, root: str = "") -> None:
        self._locks = locks
        self._helper = helper
        self._root = root
        self._open_nodes = SharedLook(self._look_for_open_nodes)
        self._needed = {
            addresses: SharedLook(partial(self._look_for_needed, addresses), NEEDED_AGE) for addresses in (False, True)
        }

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._root + path)

    def link(self, path: str) -> str:
        try:
            return Path(self._root + path).readlink().name
        except OSError:
            return ""

    def names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(self._root + path)))  # noqa: PTH208 - names
        except OSError:
            return ()

    def is_character_device(self, path: str) -> bool:
        try:
            return stat.S_ISCHR(Path(self._root + path).stat().st_mode)
        except OSError:
            return False

    async def holders(self, nodes: frozenset[str]) -> tuple[str, ...]:
        open_nodes = await self._open_nodes.look() if nodes else {}
        processes = (process for node in sorted(nodes) for process in open_nodes.get(node, ()))
        return tuple(dict.fromkeys(processes))

    async def needed_functions(self, *, addresses: bool) -> Mapping[str, str]:
        return await self._needed[addresses].look()

    async def operate(self, target: str, *operations: KernelOperation, limit: float = LIMIT) -> tuple[str, ...]:
        words = [word for operation in operations for word in self._words(operation)]
        try:
            async with self._locks.descriptor(f"kernel {target}", limit=limit) as lock:
                if not words:
                    return ()
                status, *texts = await self._helper.operate(words, limit=limit, lock=lock)
        except StillRunning:
            raise HostBusy(
                f"the kernel hasn't finished changing {target} within {limit:.0f} s; it goes on and is waited for again"
            ) from None
        if status != "0":
            raise OSError(int(status), os.strerror(int(status)), texts[0].removeprefix(self._root))
        return tuple(texts)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _words(self, operation: KernelOperation) -> tuple[str, ...]:
        path = self._root + operation.path
        return ("r", path) if isinstance(operation, AttributeRead) else ("w", path, operation.text)

    def _look_for_needed(self, addresses: bool) -> Mapping[str, str]:
        sysfs, proc = FileTree(f"{self._root}/sys"), FileTree(f"{self._root}/proc")
        return needed_functions(sysfs, proc, addressed_interfaces() if addresses and not self._root else ())

    def _look_for_open_nodes(self) -> Mapping[str, tuple[str, ...]]:
        """Device node -> the processes that have it open. By the names of open files: asking for a file's status could
        wait for a dead network disk."""
        processes: dict[str, dict[str, None]] = {}
        for process in filter(str.isdigit, self.names("/proc")):
            folder = f"/proc/{process}/fd"
            for node in {self._target(f"{folder}/{descriptor}") for descriptor in self.names(folder)}:
                if node.startswith("/dev/"):
                    processes.setdefault(node, {})[process] = None
        return {node: tuple(f"{self._command(p)} ({p})" for p in holders) for node, holders in processes.items()}

    def _target(self, path: str) -> str:
        try:
            return os.readlink(self._root + path)  # noqa: PTH115 - a name, not a path
        except OSError:
            return ""

    def _command(self, process: str) -> str:
        try:
            return Path(f"{self._root}/proc/{process}/comm").read_text(errors="replace").strip()
        except OSError:
            return "a process"
