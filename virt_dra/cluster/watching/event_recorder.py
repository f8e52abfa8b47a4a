"""A recorder of core/v1 Events that never blocks its caller: repetitions are counted, floods throttled, failures
logged.

As ``client-go/tools/record``: a repetition within a window increments the count of the existing Event; an object that
causes many Events gets one every five minutes after the first 25.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from virt_dra.api.core_v1 import ObjectReference
from virt_dra.api.meta import format_time
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.wire import Json
from virt_dra.cluster.port import ApiError, NotFound, Writer

log = logging.getLogger(__name__)

EVENT = unknown_kind("v1", "Event")
EventType = Literal["Normal", "Warning"]

MESSAGE_LIMIT = 1024
"""Characters of a message; longer ones are cut, as the API of Events asks."""
_NAME_LIMIT = 253
COMBINED: Final = "(combined from similar events): "


@dataclass(frozen=True)
class EventLimits:
    window: timedelta = timedelta(minutes=10)
    """A repetition within this time increments the count of the existing Event."""
    different: int = 10
    """Messages of Events that are equal otherwise; from this one on they are one Event, as client-go combines them."""
    burst: int = 25
    """Events about one object that are written in a burst …"""
    refill: timedelta = timedelta(minutes=5)
    """… and the interval between later ones."""
    waiting: int = 1000
    """Events that may wait to be written; the oldest are dropped."""
    remembered: int = 4096
    """Limit of the remembered Events, and of the remembered objects."""


@dataclass(frozen=True)
class _QueuedEvent:
    regarding: ObjectReference
    type: EventType
    reason: str
    message: str
    at: datetime

    @property
    def subject(self) -> tuple[str, ...]:
        it = self.regarding
        return it.api_version, it.kind, it.namespace, it.name, it.uid


@dataclass
class _Similar:
    """Events about one object that differ in the message only: the messages that were written."""

    messages: set[str]
    last: datetime


@dataclass
class _Written:
    namespace: str
    name: str
    count: int
    last: datetime


class EventRecorder:
    """:meth:`record` never waits nor raises; :meth:`run` writes. ``suffixes``: makes names unique (uuid4().hex)."""

    def __init__(
        self, cluster: Writer, component: str, instance: str, *,
        clock: Callable[[], datetime], suffixes: Callable[[], str], limits: EventLimits = EventLimits(),
    ) -> None:  # fmt: skip
        self._cluster = cluster
        self._component, self._instance = component, instance
        self._clock, self._suffixes, self._limits = clock, suffixes, limits
        self._waiting: deque[_QueuedEvent] = deque(maxlen=limits.waiting)
        self._wake = asyncio.Event()
        self._closed = False
        self._written: OrderedDict[tuple[object, ...], _Written] = OrderedDict()
        self._similar: OrderedDict[tuple[object, ...], _Similar] = OrderedDict()
        self._tokens: OrderedDict[tuple[str, ...], tuple[float, datetime]] = OrderedDict()
        self.dropped = 0
        """Events that were never written: held back, pushed out by newer ones, or refused."""

    def record(self, regarding: ObjectReference, type_: EventType, reason: str, message: str) -> None:
        """Queue an Event about an object; ``reason`` is one CamelCase word."""
        if len(self._waiting) == self._limits.waiting:
            self.dropped += 1
        self._waiting.append(_QueuedEvent(regarding, type_, reason, _cut(message, MESSAGE_LIMIT), self._clock()))
        self._wake.set()

    async def run(self) -> None:
        """Write the recorded Events, until :meth:`close`."""
        while True:
            await self.flush()
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()

    def close(self) -> None:
        """End :meth:`run` once all recorded Events are written."""
        self._closed = True
        self._wake.set()

    async def flush(self) -> None:
        """Write the Events recorded so far."""
        while self._waiting:
            event = self._waiting.popleft()
            if not self._takes_token(event):
                self.dropped += 1
                continue
            try:
                await self._write(event)
            except ApiError as error:
                self.dropped += 1
                log.warning(
                    "an event about %s %s could not be written: %s", event.regarding.kind, event.regarding.name, error
                )

    def _combined(self, event: _QueuedEvent) -> bool:
        """True if too many others differ from the Event in the message only."""
        key = (event.subject, event.type, event.reason)
        similar = self._similar.get(key)
        if similar is None or not timedelta(0) <= event.at - similar.last <= self._limits.window:
            similar = self._similar[key] = _Similar(set(), event.at)
            while len(self._similar) > self._limits.remembered:
                self._similar.popitem(last=False)
        self._similar.move_to_end(key)
        similar.last = event.at
        if event.message in similar.messages:
            return False
        if len(similar.messages) + 1 >= self._limits.different:
            return True
        similar.messages.add(event.message)
        return False

    async def _write(self, event: _QueuedEvent) -> None:
        key: tuple[object, ...] = (event.subject, event.type, event.reason, event.message)
        if self._combined(event):
            key = key[:-1]
            event = replace(event, message=_cut(f"{COMBINED}{event.message}", MESSAGE_LIMIT))
        written = self._written.get(key)
        # A time before the last one means that the clock was set back: the distance is unknown.
        if written is not None and timedelta(0) <= event.at - written.last <= self._limits.window:
            changes: Json = {
                "count": written.count + 1,
                "lastTimestamp": format_time(event.at),
                "message": event.message,
            }
            try:
                await self._cluster.patch(EVENT, written.name, written.namespace, merge=changes)
            except NotFound:  # Events are kept for an hour only
                pass
            else:
                written.count, written.last = written.count + 1, event.at
                self._written.move_to_end(key)
                return
        created = await self._cluster.create(EVENT.from_wire(self._event(event)))
        self._written[key] = _Written(created.metadata.namespace, created.metadata.name, 1, event.at)
        self._written.move_to_end(key)
        if len(self._written) > self._limits.remembered:
            self._written.popitem(last=False)

    def _event(self, event: _QueuedEvent) -> dict[str, Any]:
        suffix, at = self._suffixes(), format_time(event.at)
        name = f"{event.regarding.name[: _NAME_LIMIT - len(suffix) - 1]}.{suffix}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": event.regarding.namespace or "default"},
            "involvedObject": event.regarding.to_wire(),
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
        }

    def _takes_token(self, event: _QueuedEvent) -> bool:
        """True if the token bucket of the Event's object has a token, which is taken."""
        limits = self._limits
        tokens, since = self._tokens.get(event.subject, (float(limits.burst), event.at))
        tokens = min(tokens + max((event.at - since) / limits.refill, 0.0), float(limits.burst))
        allowed = tokens >= 1
        self._tokens[event.subject] = (tokens - 1 if allowed else tokens), event.at
        self._tokens.move_to_end(event.subject)
        if len(self._tokens) > limits.remembered:
            self._tokens.popitem(last=False)
        return allowed


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
