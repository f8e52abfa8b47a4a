"""The scheduling queue: which pod is tried next, and when a pod that fitted nowhere is tried again (C-2.7, C-4.6). A
pod is *active* (by priority, then by the time it came), *backing off* after a failed attempt, *unschedulable* until an
event helps it or five minutes have passed, or held back (PreEnqueue), or *in flight*. A state machine: time is an
argument, in seconds of any clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, NamedTuple

from virt_dra.api.core_v1 import Pod
from virt_dra.scheduling.framework.events import ClusterEvent, Hint, target_pod_events
from virt_dra.scheduling.framework.refusals import FilterRefusal

LONGEST_UNSCHEDULABLE = 300.0
"""Seconds after which a pod is tried again without an event."""
_WINDOW = 0.25
"""Seconds: back-offs end at multiples of it, so that pods of one window come by their priority (upstream: 1 s)."""


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod, or the waiting pods of a pod group (C-9), and their history. ``uid``: the pod's, or the group's key.
    ``since``: when the last attempt failed, or it came. ``errors``: failures in a row. ``rejectors``: the plugins that
    refused it."""

    uid: str
    pods: dict[str, Pod]
    """By UID, in the order in which they came."""
    since: float
    unschedulable: int = 0
    errors: int = 0
    attempts: int = 0
    rejectors: frozenset[str] = frozenset()
    held_by: str = ""
    flush_from: float = 0.0
    place: int = 0
    """The number of its entry in a heap; other entries of it are void."""

    @property
    def pod(self) -> Pod:
        """The first one."""
        return next(iter(self.pods.values()))

    @property
    def is_group(self) -> bool:
        return self.uid not in self.pods


@dataclass(frozen=True)
class PodBackoff:
    """Back-off in seconds: the first, and the longest."""

    initial_backoff: float = 1.0
    longest_backoff: float = 10.0


class GroupFailure(Enum):
    """How an attempt for a group ended that left pods without node."""

    NONE = "enough of its pods have a node"
    REJECTED = "too few fit"
    ERROR = "an error"


@dataclass
class _Flight:
    """A pod that is being scheduled, and the events since."""

    events: list[tuple[ClusterEvent, Any, Any]] = field(default_factory=list)
    arrived: dict[str, Pod] = field(default_factory=dict)
    """Further pods of the group."""


class _BackingOff(NamedTuple):
    """An entry of the heap of pods that back off, out of date once the pod has another ``place``."""

    until: float
    order: int
    place: int
    queued: QueuedPod


class SchedulingQueue:
    """The pods that wait for a node, in their four places. ``hints`` by plugin. ``held``: the refusal of the first
    plugin that holds a pod back at PreEnqueue. ``group``: the key of a pod's group, which is held back if one of its
    pods is."""

    def __init__(
        self,
        hints: Mapping[str, tuple[Hint, ...]],
        held: Callable[[Pod], FilterRefusal | None],
        limits: PodBackoff = PodBackoff(),
        group: Callable[[Pod], str | None] = lambda pod: None,
    ) -> None:
        self._hints = hints
        self._held = held
        self._limits = limits
        self._group = group
        self._entry_of: dict[str, str] = {}
        """By UID, the key of the group of pods that have one."""
        self._active: dict[str, QueuedPod] = {}
        self._backoff: dict[str, QueuedPod] = {}
        self._waiting: dict[str, QueuedPod] = {}
        self._by_rejector: dict[str, dict[str, QueuedPod]] = {}
        """Of the unschedulable pods."""
        self._flights: dict[str, _Flight] = {}
        self._active_order: list[tuple[int, float, int, QueuedPod]] = []
        self._backoff_order: list[_BackingOff] = []
        self._flush_order: list[tuple[float, int, QueuedPod]] = []
        self._numbers = count(1)
        self._interested: dict[ClusterEvent, tuple[str, ...]] = {}
        for event in ClusterEvent:
            self._interested[event] = tuple(
                name for name, of_plugin in hints.items() if any(event in hint.events for hint in of_plugin)
            )

    def __len__(self) -> int:
        """All pods but those in flight."""
        return len(self._active) + len(self._backoff) + len(self._waiting)

    def depths(self) -> dict[str, int]:
        """The number of pods in each place, by the names of kube-scheduler's metric ``pending_pods``."""
        gated = sum(bool(queued.held_by) for queued in self._waiting.values())
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._waiting) - gated,
            "gated": gated,
        }

    def knows(self, uid: str) -> bool:
        """Whether the pod or group is in any place."""
        key = self._entry_of.get(uid, uid)
        return key in self._flights or key in self._active or key in self._backoff or key in self._waiting

    # --- pods ----------------------------------------------------------------------------------------------------

    def add(self, pod: Pod, now: float) -> None:
        """Adds a new pod unless it is in the queue."""
        uid = pod.metadata.uid
        group = self._group(pod)
        if group is not None:
            self._entry_of[uid] = group
            self._join(group, pod, now)
        elif not self.knows(uid):
            self._activate(QueuedPod(uid, {uid: pod}, now), now)

    def _join(self, group: str, pod: Pod, now: float, errors: int = 0) -> None:
        """Adds a pod to the waiting ones of its group."""
        uid = pod.metadata.uid
        if group in self._flights:
            self._flights[group].arrived[uid] = pod
            return
        queued = self._active.get(group) or self._backoff.get(group) or self._waiting.get(group)
        if queued is None:
            self._requeue(QueuedPod(group, {uid: pod}, now, errors=errors), now)
        elif uid not in queued.pods:
            queued.pods[uid] = pod
            if group in self._waiting:
                self._requeue(queued, now)

    def update(self, old: Pod, new: Pod, now: float) -> None:
        """Takes over a changed pod, which may have become schedulable."""
        uid = new.metadata.uid
        key = self._entry_of.get(uid, uid)
        events = target_pod_events(old, new)
        if key in self._flights:
            self._flights[key].events.extend((event, old, new) for event in events)
            return
        for place in (self._active, self._backoff):
            if key in place:
                place[key].pods[uid] = new
                return
        queued = self._waiting.get(key)
        if queued is None:
            self.add(new, now)
            return
        queued.pods[uid] = new
        if any(self._helps(queued, event, old, new) for event in events):
            self._requeue(queued, now)

    def delete(self, uid: str) -> None:
        """Removes a pod that was deleted or has a node. One in flight is dropped when its attempt ends."""
        key = self._entry_of.pop(uid, uid)
        flight = self._flights.get(key)
        if flight is not None:
            flight.arrived.pop(uid, None)
        queued = self._active.get(key) or self._backoff.get(key) or self._waiting.get(key)
        if queued is None:
            return
        queued.pods.pop(uid, None)
        if not queued.pods:
            self._active.pop(key, None)
            self._backoff.pop(key, None)
            self._stop_waiting(key)
            queued.place = 0

    # --- attempts ------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """The next pod, in flight from now on. If none is active, one that backs off is taken early."""
        self.flush(now)
        queued = self._next_active() or self._next_backing_off()
        if queued is not None:
            self._flights[queued.uid] = _Flight()
            queued.attempts += 1
        return queued

    def done(self, uid: str, now: float = 0.0) -> None:
        """Ends an attempt whose decision stands. Pods of the group that came meanwhile are next."""
        flight = self._flights.pop(uid, None)
        for pod in flight.arrived.values() if flight is not None else ():
            self._join(uid, pod, now)

    def failed(self, queued: QueuedPod, pod: Pod, rejectors: frozenset[str], now: float) -> None:
        """Returns a pod to the queue after a failed attempt. Without ``rejectors`` it was an error. ``pod``: now."""
        flight = self._flights.pop(queued.uid, None) or _Flight()
        if self.knows(queued.uid):
            return
        queued.pods, queued.rejectors, queued.held_by, queued.since = {queued.uid: pod}, rejectors, "", now
        if rejectors:
            queued.unschedulable, queued.errors = queued.unschedulable + 1, 0
        else:
            queued.errors += 1
        if not rejectors or any(self._helps(queued, *event) for event in flight.events):
            self._requeue(queued, now)
        else:
            self._wait(queued)

    def group_failed(self, queued: QueuedPod, pods: Iterable[Pod], failure: GroupFailure, now: float) -> None:
        """Returns pods of a group that got no node to the queue: they are tried again after a back-off."""
        flight = self._flights.pop(queued.uid, None) or _Flight()
        queued.pods = {pod.metadata.uid: pod for pod in pods} | flight.arrived
        for uid in queued.pods:
            self._entry_of[uid] = queued.uid
        if not queued.pods or self.knows(queued.uid):
            return
        queued.rejectors, queued.held_by, queued.since = frozenset(), "", now
        queued.errors = queued.errors + 1 if failure is GroupFailure.ERROR else 0
        queued.unschedulable = (
            queued.unschedulable + (failure is GroupFailure.REJECTED) if failure is not GroupFailure.NONE else 0
        )
        self._requeue(queued, now)

    def member_failed(self, pod: Pod, group: str, now: float) -> None:
        """Returns a pod of a group that couldn't be bound."""
        self._entry_of[pod.metadata.uid] = group
        self._join(group, pod, now, errors=1)

    # --- events --------------------------------------------------------------------------------------------------

    def event(self, event: ClusterEvent, old: Any, new: Any, now: float) -> None:
        """Tries pods again that a change in the cluster may help."""
        for flight in self._flights.values():
            flight.events.append((event, old, new))
        helped: dict[str, QueuedPod] = {}
        for name in self._interested[event]:
            waiting = self._by_rejector.get(name)
            if waiting:
                for hint in self._hints[name]:
                    if event in hint.events:
                        helped.update(self._helped(hint, waiting, old, new))
        for queued in sorted(helped.values(), key=_in_order):
            self._requeue(queued, now)

    def flush(self, now: float) -> None:
        """End back-offs that are over, and waits that are too long."""
        while self._backoff_order and self._backoff_order[0].until <= now:
            entry = heapq.heappop(self._backoff_order)
            queued = entry.queued
            if queued.place == entry.place and queued.uid in self._backoff:
                del self._backoff[queued.uid]
                self._push_active(queued)
        while self._flush_order and self._flush_order[0][0] <= now:
            at, _, queued = heapq.heappop(self._flush_order)
            if self._waiting.get(queued.uid) is queued and queued.flush_from + LONGEST_UNSCHEDULABLE == at:
                queued.flush_from = now
                self._requeue(queued, now)

    def next_time(self) -> float | None:
        """The earliest time at which :meth:`flush` changes the queue."""
        times = [order[0][0] for order in (self._backoff_order, self._flush_order) if order]
        return min(times) if times else None

    # --- places --------------------------------------------------------------------------------------------------

    def _activate(self, queued: QueuedPod, now: float) -> None:
        """Makes the pod active unless a plugin holds it back."""
        if not self._hold(queued):
            self._push_active(queued)

    def _requeue(self, queued: QueuedPod, now: float) -> None:
        """Active, or backing off if its last failure isn't long enough ago."""
        self._stop_waiting(queued.uid)
        until = self._backoff_end(queued)
        if until <= now:
            self._activate(queued, now)
        elif not self._hold(queued):
            queued.place = next(self._numbers)
            self._backoff[queued.uid] = queued
            heapq.heappush(self._backoff_order, _BackingOff(until, -queued.pod.priority, queued.place, queued))

    def _hold(self, queued: QueuedPod) -> bool:
        refusal = next((refusal for pod in queued.pods.values() if (refusal := self._held(pod)) is not None), None)
        queued.held_by = "" if refusal is None else refusal.plugin
        if refusal is None:
            return False
        queued.rejectors |= {refusal.plugin}
        self._wait(queued)
        return True

    def _wait(self, queued: QueuedPod) -> None:
        self._waiting[queued.uid] = queued
        for name in (queued.held_by,) if queued.held_by else queued.rejectors:
            self._by_rejector.setdefault(name, {})[queued.uid] = queued
        queued.flush_from = max(queued.since, queued.flush_from)
        heapq.heappush(self._flush_order, (queued.flush_from + LONGEST_UNSCHEDULABLE, next(self._numbers), queued))

    def _stop_waiting(self, uid: str) -> None:
        queued = self._waiting.pop(uid, None)
        if queued is not None:
            for waiting in self._by_rejector.values():
                waiting.pop(uid, None)

    def _push_active(self, queued: QueuedPod) -> None:
        queued.place = next(self._numbers)
        self._active[queued.uid] = queued
        heapq.heappush(self._active_order, (-queued.pod.priority, queued.since, queued.place, queued))

    def _next_active(self) -> QueuedPod | None:
        while self._active_order:
            _, _, number, queued = heapq.heappop(self._active_order)
            if queued.place == number and self._active.get(queued.uid) is queued:
                del self._active[queued.uid]
                return queued
        return None

    def _next_backing_off(self) -> QueuedPod | None:
        """A pod whose last failure was no error. Groups wait, since no event is needed to try them again."""
        if not self._backoff:
            return None
        kept, popped = [], None
        while self._backoff_order and popped is None:
            entry = heapq.heappop(self._backoff_order)
            queued = entry.queued
            if queued.place != entry.place or self._backoff.get(queued.uid) is not queued:
                continue
            if queued.errors or queued.is_group:
                kept.append(entry)
            else:
                popped = self._backoff.pop(queued.uid)
        for entry in kept:
            heapq.heappush(self._backoff_order, entry)
        return popped

    def _backoff_end(self, queued: QueuedPod) -> float:
        """The back-off is doubled with every failure in a row. It ends with the window in which it would be over."""
        failures = queued.errors or queued.unschedulable
        if not failures:
            return queued.since
        longest = self._limits.longest_backoff * math.sqrt(len(queued.pods))
        seconds = min(self._limits.initial_backoff * 2.0 ** min(failures - 1, 30), longest)
        return (math.floor((queued.since + seconds) / _WINDOW) + 1) * _WINDOW

    def _helps(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> bool:
        names: Iterable[str] = (queued.held_by,) if queued.held_by else queued.rejectors
        alone = {queued.uid: queued}
        return any(
            event in hint.events and bool(self._helped(hint, alone, old, new))
            for name in names
            for hint in self._hints.get(name, ())
        )

    def _helped(self, hint: Hint, waiting: Mapping[str, QueuedPod], old: Any, new: Any) -> dict[str, QueuedPod]:
        narrowed = None if hint.pods is None else hint.pods(old, new)
        if narrowed is None:
            candidates = dict(waiting)
        else:
            keys = [self._entry_of.get(uid, uid) for uid in narrowed]
            candidates = {key: waiting[key] for key in keys if key in waiting}
        return {
            key: queued
            for key, queued in candidates.items()
            if any(hint.decide(pod, old, new) for pod in queued.pods.values())
        }


def _in_order(queued: QueuedPod) -> tuple[int, float, int]:
    return -queued.pod.priority, queued.since, queued.place
