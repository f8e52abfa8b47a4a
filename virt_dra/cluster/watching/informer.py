"""An informer: a local store of all objects of one kind, kept equal to the cluster by list and watch.

**Level-triggered.** Several changes may be merged into one, and after a gap (a watch that broke, a version that is too
old) only the difference is notified. Handlers must decide by the state, never by counting or by the kind of change.
Guarantees:

* every notification is ``(old, new)`` with ``None`` for "absent", and ``old`` is the ``new`` of the one before for that
  object; one that was recreated under its name (another UID) is notified as deleted first, then as created;
* the store has the new state before it is notified, in the cluster's order;
* once changes have ended, the store equals a list, and every difference was notified, deletions in gaps included;
* a resourceVersion that the store has already is not notified again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, Protocol

from virt_dra.api.meta import ObjectT, TypedObject
from virt_dra.cluster.large import beside_the_loop
from virt_dra.cluster.port import ApiError, Gone, Listed, NotFound, PagedReader, Reader, Watcher, WatchEvent
from virt_dra.cluster.watching.backoff import backoff

CacheKey = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""
IndexFunction = Callable[[ObjectT], Iterable[Hashable]]
"""The values under which an object is found; must take every object of its kind."""
ChangeHandler = Callable[[ObjectT | None, ObjectT | None], None]

log = logging.getLogger(__name__)

_TURN = 0.005
"""Seconds of applying a list before the event loop is yielded."""
_TRIES_FROM_A_VERSION = 5
"""After so many failures in a row the list is repeated: a restored server may not know our version."""


class ListerWatcher(Reader, Watcher, Protocol):
    """The part of the port that an informer uses."""


class InformerObserver(Protocol):
    """The metrics of informers. ``kind`` is the object's kind. Must not raise."""

    def listed(self, kind: str, objects: int, seconds: float) -> None:
        """A list was read: the first one, or one after a gap."""

    def received(self, kind: str, event: str) -> None:
        """An event of a watch, bookmarks included."""

    def restarted(self, kind: str, reason: str) -> None:
        """A list or watch failed or ended; ``reason`` is the error's reason, or ``Ended``."""


class NoInformerObserver:
    """Records nothing."""

    def listed(self, kind: str, objects: int, seconds: float) -> None: ...
    def received(self, kind: str, event: str) -> None: ...
    def restarted(self, kind: str, reason: str) -> None: ...


class InformerStore(Generic[ObjectT]):
    """Objects by namespace and name, and by named indexes. Only its informer changes it."""

    def __init__(self, indexes: Mapping[str, IndexFunction[ObjectT]] | None = None) -> None:
        self._functions = dict(indexes or {})
        self._objects: dict[CacheKey, ObjectT] = {}
        self._indexes: dict[str, dict[Hashable, dict[CacheKey, None]]] = {name: {} for name in self._functions}

    def add_index(self, name: str, function: IndexFunction[ObjectT]) -> None:
        """Add an index over all objects, present and future. Raises ValueError for a name that is taken."""
        if name in self._functions:
            raise ValueError(f"there is an index {name} already")
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = None

    def get(self, name: str, namespace: str = "") -> ObjectT | None:
        return self._objects.get((namespace, name))

    def values(self) -> tuple[ObjectT, ...]:
        """In no particular order."""
        return tuple(self._objects.values())

    def keys(self) -> tuple[CacheKey, ...]:
        return tuple(self._objects)

    def by_index(self, index: str, value: Hashable) -> tuple[ObjectT, ...]:
        """The objects that the index's function found this value for, sorted. Raises KeyError for an unknown index."""
        return tuple(self._objects[key] for key in sorted(self._indexes[index].get(value, ())))

    def index_values(self, index: str) -> tuple[Hashable, ...]:
        """All values of an index that have objects. Raises KeyError for an unknown index."""
        return tuple(self._indexes[index])

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, obj: ObjectT) -> None:
        key = key_of(obj)
        self.remove(key)
        self._objects[key] = obj
        for name, function in self._functions.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, {})[key] = None

    def remove(self, key: CacheKey) -> None:
        """Remove an object, if it is there."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        for name, function in self._functions.items():
            entries = self._indexes[name]
            for value in function(old):
                bucket = entries.get(value, {})
                bucket.pop(key, None)
                if not bucket:
                    entries.pop(value, None)


class Informer(Generic[ObjectT]):
    """An informer of one kind. ``run`` it once, in a task."""

    def __init__(
        self,
        cluster: ListerWatcher,
        kind: type[ObjectT],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[ObjectT]] | None = None,
        transform: Callable[[ObjectT], ObjectT] | None = None,
        optional: bool = False,
        observer: InformerObserver | None = None,
        first_pause: float = 0.2,
        longest_pause: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``transform`` makes what is stored of what is read; it must keep name, namespace, uid and resourceVersion.
        ``optional``: a kind that isn't served (yet) counts as one without objects, looked for again every
        ``longest_pause`` seconds; otherwise the informer isn't synced before it is served. Pauses after failures are in
        seconds."""
        self.kind = kind
        self.store: InformerStore[ObjectT] = InformerStore(indexes)
        self._cluster = cluster
        self._namespace, self._labels, self._fields = namespace, labels, fields
        self._transform = transform
        self._optional = optional
        self._observer: InformerObserver = observer or NoInformerObserver()
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._clock, self._chance = clock, chance
        self._handlers: list[ChangeHandler[ObjectT]] = []
        self._synced = asyncio.Event()
        self._version = ""
        self.not_served = False
        """True if the cluster doesn't serve the kind, by its last answer."""
        self._last_contact: float | None = None
        self._failures = 0
        self._at_once = False

    @property
    def has_synced(self) -> bool:
        """Whether a whole list has been read."""
        return self._synced.is_set()

    @property
    def age(self) -> float:
        """Seconds since the last contact; infinite before the first."""
        return float("inf") if self._last_contact is None else self._clock() - self._last_contact

    async def synced(self) -> None:
        """Return when the first list is in the store and its objects have been notified."""
        await self._synced.wait()

    def on_change(self, handler: ChangeHandler[ObjectT]) -> None:
        """Call ``handler(old, new)`` for every change from now on, and at once for every object in the store. It must
        be quick (put a key into a queue) and must not raise: that ends the informer."""
        self._handlers.append(handler)
        for obj in self.store.values():
            handler(None, obj)

    async def run(self) -> None:
        """Lists and watches, for ever; ends only by cancellation. Failures are logged, observed and tried again."""
        while True:
            began = self._clock()
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                reason = "Ended"
            except Gone as error:
                self._version, reason = "", error.reason
            except ApiError as error:
                reason = error.reason or str(error.status)
                expected = self._optional and isinstance(error, NotFound)
                log.log(logging.DEBUG if expected else logging.WARNING, "%s: %s", self._what, error)
                if isinstance(error, NotFound):
                    self._not_served()
                elif self._failures >= _TRIES_FROM_A_VERSION:
                    self._version = ""
            self._observer.restarted(self.kind.KIND, reason)
            lasted = self._clock() - began > self._longest_pause  # of a quiet kind, without an event that would show it
            self._failures = 1 if lasted else self._failures + 1
            if self._failures > 1 or reason != "Ended":
                await asyncio.sleep(
                    backoff(self._failures, self._chance(), first=self._first_pause, longest=self._longest_pause)
                )

    async def _list(self) -> None:
        began = self._clock()
        items: list[ObjectT] = []
        version = ""
        async for page in self._pages():
            items += await beside_the_loop(page.size, self._kept_of, page.items)
            version = page.resource_version
        self._observer.listed(self.kind.KIND, len(items), self._clock() - began)
        self._contact()
        self.not_served = False
        await self._replace_yielding(items)
        self._version = version
        self._synced.set()

    async def _pages(self) -> AsyncIterator[Listed[ObjectT]]:
        """The list, in parts where the cluster offers them, so that what ``transform`` drops is never held for all
        objects at once. In one part if the listed state expired during the previous attempt."""
        if isinstance(self._cluster, PagedReader) and not self._at_once:
            try:
                async for page in self._cluster.pages(
                    self.kind, self._namespace, labels=self._labels, fields=self._fields
                ):
                    yield page
            except Gone:
                self._at_once = True
                raise
        else:
            self._at_once = False
            yield await self._cluster.list(self.kind, self._namespace, labels=self._labels, fields=self._fields)

    def _kept_of(self, objects: Sequence[ObjectT]) -> list[ObjectT]:
        return [self._kept(obj) for obj in objects]

    def _kept(self, obj: ObjectT) -> ObjectT:
        """The object to store: the stored one if it has this version already, else the transformed one."""
        stored = self.store.get(obj.metadata.name, obj.metadata.namespace)
        if stored is not None and _same_state(stored, obj):
            return stored
        return obj if self._transform is None else self._transform(obj)

    async def _follow(self) -> None:
        """Apply events until the watch ends or fails."""
        events = self._cluster.watch(
            self.kind, self._namespace, resource_version=self._version, labels=self._labels, fields=self._fields
        )
        try:
            async for event in events:
                self._failures = 0
                self._contact()
                self._observer.received(self.kind.KIND, event.type)
                await self._receive(event)
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def _receive(self, event: WatchEvent[ObjectT]) -> None:
        if event.type == "DELETED":
            self._delete(key_of(event.object))
        elif event.type != "BOOKMARK":
            self._upsert(await beside_the_loop(event.size, self._kept, event.object))
        self._version = event.object.metadata.resource_version or self._version

    async def _replace_yielding(self, items: Sequence[ObjectT]) -> None:
        """Makes the store equal to a list, yielding the event loop; between yields some objects are as before."""
        there = {key_of(obj) for obj in items}
        until = asyncio.get_running_loop().time() + _TURN
        for key in self.store.keys():  # noqa: SIM118 - no mapping: its keys are copied, since the loop removes some
            if key not in there:
                self._delete(key)
                until = await _after(until)
        for obj in items:
            self._upsert(obj)
            until = await _after(until)

    def _upsert(self, obj: ObjectT) -> None:
        old = self.store.get(obj.metadata.name, obj.metadata.namespace)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self._delete(key_of(obj))
            old = None
        if old is not None and _same_state(old, obj):
            return
        self.store.put(obj)
        self._notify(old, obj)

    def _delete(self, key: CacheKey) -> None:
        namespace, name = key
        old = self.store.get(name, namespace)
        if old is not None:
            self.store.remove(key)
            self._notify(old, None)

    def _notify(self, old: ObjectT | None, new: ObjectT | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _not_served(self) -> None:
        """The cluster doesn't serve the kind: it never did, or its CRD was deleted with all objects."""
        self._version = ""
        self.not_served = True
        if self._optional or self.has_synced:
            for key in self.store.keys():  # noqa: SIM118 - as above
                self._delete(key)
            self._synced.set()

    def _contact(self) -> None:
        self._last_contact = self._clock()

    @property
    def _what(self) -> str:
        return f"{self.kind.KIND} in {self._namespace}" if self._namespace else self.kind.KIND


@asynccontextmanager
async def running(*informers: Informer[Any]) -> AsyncIterator[None]:
    """Runs informers while the body does; the body begins when all have synced. A handler's exception ends the body and
    is raised as it is; only several at once come out as a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run(), name=f"informer {informer.kind.KIND}") for informer in informers]
            for informer in informers:
                await informer.synced()
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        if len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise


async def _after(until: float) -> float:
    """Yield the event loop if ``until`` has passed; returns the time of the next yield."""
    now = asyncio.get_running_loop().time  # under virtual time a run must not depend on how fast the machine is
    if now() < until:
        return until
    await asyncio.sleep(0)
    return now() + _TURN


def _same_state(left: TypedObject, right: TypedObject) -> bool:
    return left.metadata.uid == right.metadata.uid and left.metadata.resource_version == right.metadata.resource_version


def key_of(obj: TypedObject) -> CacheKey:
    return obj.metadata.namespace, obj.metadata.name
