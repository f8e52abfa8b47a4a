"""Pins each vCPU to a CPU of the host, as KubeVirt's launcher chooses it (K-8.11). Pure.

Threads of one vCPU core go, in this order, on one host core; on what is left of several cores of one NUMA node; and,
unless the guest mirrors the host's nodes, anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from launcher.errors import NOT_ENOUGH_CPUS, LauncherError
from launcher.guest_shape import CpuShape
from launcher.placement.host import HostTopology

_FIELD: Final = "spec.domain.cpu"


@dataclass(frozen=True)
class Pinning:
    """The CPUs of a guest. ``vcpus``: the host CPU of each vCPU; ``emulator``: those of the emulator thread, none if it
    isn't isolated."""

    vcpus: tuple[int, ...]
    emulator: tuple[int, ...] = ()


def pin(
    shape: CpuShape, host: HostTopology, cpus: Collection[int], *, one_node_per_core: bool, emulator_threads: int = 0
) -> Pinning:
    """Pin all vCPUs to some of these CPUs. Raises :class:`LauncherError` if they don't suffice.

    ``one_node_per_core``: the threads of a vCPU core must be on one NUMA node.
    """
    pools = [_NodePool(host, node, frozenset(cpus), shape.threads) for node in host.nodes]
    wanted = shape.vcpus
    pinned: list[int] = []
    for take in (_NodePool.whole_core, _NodePool.fragments_of_core):
        for pool in pools:
            while len(pinned) < wanted and (threads := take(pool)):
                pinned += threads
    if not one_node_per_core:
        for pool in pools:
            while len(pinned) < wanted and pool.fragments:
                pinned.append(pool.fragments.popleft())
    if len(pinned) < wanted:
        cores = max(1, (wanted - len(pinned)) // shape.threads)
        message = f"not enough exclusive threads provided, could not fit {cores} core(s)"
        if one_node_per_core and len(cpus) >= wanted:
            message = f"could not fit {cores} core(s) without crossing numa cell boundaries for individual cores"
        raise LauncherError(NOT_ENOUGH_CPUS, _FIELD, message)
    return Pinning(tuple(pinned), tuple(_emulator_thread(pools, number) for number in range(emulator_threads)))


def _emulator_thread(pools: list[_NodePool], number: int) -> int:
    for pool in pools:
        if (thread := pool.thread()) is not None:
            return thread
    which = "second CPU" if number else "CPU"
    message = f"no {which} allocated for the emulation thread: no remaining unassigned threads"
    raise LauncherError(NOT_ENOUGH_CPUS, _FIELD, message)


class _NodePool:
    """The CPUs of one NUMA node that are still free: cores with room for a vCPU core, and what is left of others."""

    def __init__(self, host: HostTopology, node: int, cpus: frozenset[int], threads: int) -> None:
        self._threads = threads
        self._cores: deque[list[int]] = deque()
        self.fragments: deque[int] = deque()
        seen: set[int] = set()
        for cpu in host.nodes[node]:
            if cpu in seen:
                continue
            core = host.siblings.get(cpu, (cpu,))
            seen.update(core)
            self._add([thread for thread in core if thread in cpus])

    def _add(self, core: list[int], *, first: bool = False) -> None:
        if len(core) < self._threads:
            self.fragments += core
        elif first:
            self._cores.appendleft(core)
        else:
            self._cores.append(core)

    def whole_core(self) -> list[int]:
        """Threads of one core of the host; none if no core has enough."""
        return self._of_first_core(self._threads) if self._cores else []

    def fragments_of_core(self) -> list[int]:
        """As many threads, of what is left of several cores; none if that doesn't suffice."""
        if len(self.fragments) < self._threads:
            return []
        return [self.fragments.popleft() for _ in range(self._threads)]

    def thread(self) -> int | None:
        """A free thread, preferably of what is left of cores; None if nothing is free."""
        if self.fragments:
            return self.fragments.popleft()
        return self._of_first_core(1)[0] if self._cores else None

    def _of_first_core(self, count: int) -> list[int]:
        core = self._cores.popleft()
        self._add(core[count:], first=True)
        return core[:count]
