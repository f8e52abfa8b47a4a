"""The table of a server's connections, which evicts one for a new one when it is full. Pure.

    standing   UNPROVEN < PROVEN (a review of it got a verdict) < VERIFIED (it has shown an API server's certificate)
    phase      WAITING (handshake, or idle) | READING (a request is arriving) | BUSY (it is being decided)

A new connection evicts one of the lowest standing; of these, one of the address with most connections; of these, one
that is WAITING rather than READING; of these, the one that has been in this phase longest. A BUSY connection is never
evicted. So a client with many idle connections loses these first, and a flood from one address costs other addresses
nothing. Each address has a limit, to which verified connections don't count: several API servers may come from one
address, and so may attackers beside them.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

UNKNOWN_ADDRESS: Final = "?"


class Standing(IntEnum):
    """The trust in a connection; the lowest is evicted first."""

    UNPROVEN = 0
    PROVEN = 1
    VERIFIED = 2


class ConnectionPhase(IntEnum):
    """The state of a connection's current request."""

    WAITING = 0
    READING = 1
    BUSY = 2


@dataclass(eq=False)
class ConnectionEntry:
    """A connection. ``since``: when its phase began. ``group``: the address or network that it counts to
    (:func:`group_of`)."""

    group: str
    since: float
    standing: Standing = Standing.UNPROVEN
    phase: ConnectionPhase = ConnectionPhase.WAITING


def group_of(address: object) -> str:
    """The group that a peer address (of ``socket.accept``) counts to: IPv4 by address, IPv6 by /64, which one host may
    own."""
    if not isinstance(address, tuple) or not address:
        return UNKNOWN_ADDRESS
    try:
        ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
    except ValueError:
        return UNKNOWN_ADDRESS
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


class ConnectionTable:
    """The connections. ``limit``: of all; ``per_group``: of a group, without verified ones; ``reserved``: for verified
    ones only."""

    def __init__(self, limit: int, per_group: int, reserved: int) -> None:
        self._limit, self._per_group, self._reserved = limit, per_group, reserved
        self._entries: set[ConnectionEntry] = set()
        self._sizes: Counter[str] = Counter()
        """Number of connections of each group, without verified ones."""
        self._evictable: dict[Standing, dict[str, dict[ConnectionPhase, dict[ConnectionEntry, None]]]] = {
            standing: {} for standing in Standing
        }
        """Connections that may be evicted, by standing, group and phase, in the order in which their phase began."""

    def __len__(self) -> int:
        return len(self._entries)

    def enter(self, group: str, now: float) -> tuple[ConnectionEntry | None, ConnectionEntry | None]:
        """Add a connection: its entry, None where it is refused; and the entry that was evicted for it, if one was."""
        evicted: ConnectionEntry | None = None
        own = group if self._sizes[group] >= self._per_group else None
        if own is not None or self._sizes.total() >= self._limit - self._reserved or len(self._entries) >= self._limit:
            evicted = self._victim(own)
            if evicted is None:
                return None, None
            self.leave(evicted)
        entry = ConnectionEntry(group, now)
        self._entries.add(entry)
        self._sizes[group] += 1
        self._queue(entry)
        return entry, evicted

    def leave(self, entry: ConnectionEntry) -> None:
        """Remove a connection, if it is still in the table."""
        if entry not in self._entries:
            return
        self._entries.remove(entry)
        self._unqueue(entry)
        if entry.standing != Standing.VERIFIED:
            self._shrink(entry.group)

    def change(
        self, entry: ConnectionEntry, now: float, phase: ConnectionPhase | None = None, standing: Standing | None = None
    ) -> None:
        """Set a connection's phase, and raise its standing; a lower standing is ignored."""
        self._unqueue(entry)
        if phase is not None:
            entry.phase, entry.since = phase, now
        if standing is not None and standing > entry.standing:
            if standing == Standing.VERIFIED and entry in self._entries:
                self._shrink(entry.group)
            entry.standing = standing
        if entry in self._entries:
            self._queue(entry)

    def _shrink(self, group: str) -> None:
        self._sizes[group] -= 1
        if not self._sizes[group]:
            del self._sizes[group]

    def _queue(self, entry: ConnectionEntry) -> None:
        if entry.phase != ConnectionPhase.BUSY and entry.standing != Standing.VERIFIED:  # verified: never evicted
            self._evictable[entry.standing].setdefault(entry.group, {}).setdefault(entry.phase, {})[entry] = None

    def _unqueue(self, entry: ConnectionEntry) -> None:
        groups = self._evictable[entry.standing]
        phases = groups.get(entry.group, {})
        if entry not in phases.get(entry.phase, {}):
            return
        del phases[entry.phase][entry]
        if not phases[entry.phase]:
            del phases[entry.phase]
        if not phases:
            del groups[entry.group]

    def _victim(self, group: str | None) -> ConnectionEntry | None:
        """The connection to evict, of a group or of any; None if all are busy or verified."""
        for standing in Standing:
            groups = self._evictable[standing]
            largest = max(groups, key=self._sizes.__getitem__, default=None) if group is None else group
            if largest in groups:
                phases = groups[largest]
                return next(iter(phases[min(phases)]))
        return None
