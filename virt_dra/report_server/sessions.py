"""Sessions of browsers: a random id in a cookie stands for a token, which stays here, in memory. Pure: clock and chance
are passed in."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_ID_BYTES: Final = 32


@dataclass(frozen=True)
class SessionLimits:
    """The limits of sessions. ``seconds``: how long a session lasts; ``of_user``, ``overall``: how many there may be,
    the oldest ends for a new one."""

    seconds: float = 3600.0
    of_user: int = 10
    overall: int = 1000


@dataclass(eq=False)
class Session:
    """A session. ``token``: what is reviewed again; ``end``: when it ends by itself; ``on_end``: called when it
    ends."""

    key: bytes
    token: str = field(repr=False)
    user: str
    end: float
    ended: bool = False
    on_end: set[Callable[[], None]] = field(default_factory=set, repr=False)


class Sessions:
    """The current sessions. They are found by a digest of their id, so the time of a lookup reveals no other ids."""

    def __init__(
        self, limits: SessionLimits | None = None, made: Callable[[], str] = lambda: secrets.token_urlsafe(_ID_BYTES)
    ) -> None:
        self._limits = limits or SessionLimits()
        self._made = made
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()
        """In the order in which they began, and end."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def seconds(self) -> float:
        """How long a session lasts."""
        return self._limits.seconds

    def begin(self, token: str, user: str, now: float) -> str:
        """Begins a session. Returns its id."""
        self.expire(now)
        own = [session for session in self._sessions.values() if session.user == user]
        if len(own) >= self._limits.of_user:
            self.finish(own[0])
        elif len(self._sessions) >= self._limits.overall:
            self.finish(next(iter(self._sessions.values())))
        made = self._made()
        key = _digest(made)
        self._sessions[key] = Session(key, token, user, now + self._limits.seconds)
        return made

    def find(self, id: str, now: float) -> Session | None:
        """The session of an id, if there is one that hasn't ended."""
        self.expire(now)
        return self._sessions.get(_digest(id))

    def finish(self, session: Session) -> None:
        """Ends a session, unless it has ended."""
        if self._sessions.pop(session.key, None) is None:
            return
        session.ended = True
        for callback in tuple(session.on_end):
            callback()

    def expire(self, now: float) -> None:
        """Ends the sessions whose time is over."""
        while self._sessions:
            oldest = next(iter(self._sessions.values()))
            if oldest.end > now:
                return
            self.finish(oldest)


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode(errors="replace")).digest()
