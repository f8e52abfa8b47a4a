"""Keeps the node's ResourceSlices in the cluster equal to what the driver wants published (D-18 to D-26).

Level-triggered: whatever wakes it, it lists the slices anew, plans and writes. The watch only wakes it, so that it
never decides by a state that its own writes have overtaken.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from node_driver.slices import (
    PoolOwner,
    SliceContent,
    StoredContent,
    content_of,
    disabled_features,
    plan_slices,
)
from virt_dra.api.core_v1 import Node
from virt_dra.api.resource_v1 import ResourceSlice
from virt_dra.cluster.port import ApiError, Cluster, Conflict, Invalid, NotFound
from virt_dra.cluster.watching.backoff import backoff
from virt_dra.cluster.watching.informer import Informer

log = logging.getLogger(__name__)

SETTLING: Final = 0.5
"""Seconds after somebody else's change: a kubelet deletes slices one by one, and all must be back within 2 s (D-19)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_REFUSED_PAUSE: Final = 300.0
"""After slices that the API server calls invalid; until then only other content helps."""


class PublishingObserver(Protocol):
    """The metrics of publishing. Must not raise."""

    def wrote(self, verb: str) -> None:
        """``create``, ``update`` or ``delete`` of a slice succeeded."""

    def failed(self, reason: str) -> None:
        """The error's reason."""


class NoPublishingObserver:
    """Records nothing."""

    def wrote(self, verb: str) -> None: ...
    def failed(self, reason: str) -> None: ...


class Publisher:
    """``run`` it once, in a task; :meth:`publish` says what is wanted, at any time."""

    def __init__(
        self,
        cluster: Cluster,
        driver: str,
        node: str,
        *,
        observer: PublishingObserver | None = None,
        settling: float = SETTLING,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster, self._driver, self._node = cluster, driver, node
        self._observer = observer or NoPublishingObserver()
        self._settling, self._chance = settling, chance
        self._wanted: tuple[SliceContent, ...] | None = None
        self._answers: dict[int, StoredContent] = {}
        self._woken, self._at_once = asyncio.Event(), asyncio.Event()
        self._published = asyncio.Event()
        self.refusal = ""
        """Why the API server doesn't take the slices, by its last answer."""

    def publish(self, contents: Sequence[SliceContent]) -> None:
        """What the slices shall say from now on. Nothing new is no reason to list them: a change of theirs is watched,
        and a write that failed is tried again."""
        wanted = tuple(contents)
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._published.clear()
        self._woken.set()
        self._at_once.set()

    async def published(self) -> None:
        """Returns once the cluster has what was given to :meth:`publish` last."""
        await self._published.wait()

    async def run(self) -> None:
        """Ends only by cancellation. While the API server can't be reached, it tries again."""
        fields = f"spec.driver={self._driver},spec.nodeName={self._node}"
        informer = Informer(self._cluster, ResourceSlice, fields=fields, longest_pause=_LONGEST_PAUSE)
        informer.on_change(lambda old, new: self._woken.set())
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run(), name="informer ResourceSlice")
            group.create_task(self._write_for_ever(fields), name="slices")

    async def _write_for_ever(self, fields: str) -> None:
        failures = 0
        while True:
            await self._woken.wait()
            if not self._at_once.is_set():
                await asyncio.sleep(self._settling)
            self._woken.clear()
            self._at_once.clear()
            if self._wanted is None:
                continue
            try:
                await self._synchronize(self._wanted, fields)
            except ApiError as error:
                failures += 1
                await self._failed(error, failures)
            else:
                failures, self.refusal = 0, ""

    async def _synchronize(self, wanted: tuple[SliceContent, ...], fields: str) -> None:
        existing = (await self._cluster.list(ResourceSlice, fields=fields)).items
        node = await self._cluster.get(Node, self._node)  # each time: a node that was made anew has another UID
        owner = PoolOwner(self._driver, self._node, node.metadata.uid)
        plan = plan_slices(wanted, existing, owner, self._answers)
        for obj in plan.deletes:  # first: what is gone must go, even if the API server refuses the rest
            await self._delete(obj)
        await self._write("update", plan.updates, wanted, self._cluster.update)
        await self._write("create", plan.creates, wanted, self._cluster.create)
        if wanted is self._wanted:
            self._published.set()

    async def _write(
        self,
        verb: str,
        objects: Mapping[int, ResourceSlice],
        wanted: tuple[SliceContent, ...],
        write: Callable[[ResourceSlice], Awaitable[ResourceSlice]],
    ) -> None:
        """Writes slices side by side: nobody reads a pool before it is whole, and of 16 each waits for the API server's
        disk. Raises the first failure once all have ended, :class:`ApiError`."""
        outcomes = await asyncio.gather(*map(write, objects.values()), return_exceptions=True)
        failures: list[BaseException] = []
        for index, outcome in zip(objects, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failures.append(outcome)
            else:
                self._stored(verb, index, wanted[index], outcome)
        for failure in failures[1:]:
            log.warning("another slice isn't written: %s", failure)
        if failures:
            raise failures[0]

    async def _delete(self, obj: ResourceSlice) -> None:
        try:
            await self._cluster.delete(
                ResourceSlice, obj.name, uid=obj.metadata.uid, resource_version=obj.metadata.resource_version
            )
        except NotFound:
            return
        self._observer.wrote("delete")

    def _stored(self, verb: str, index: int, written: SliceContent, stored: ResourceSlice) -> None:
        self._observer.wrote(verb)
        answer = StoredContent(written, content_of(stored))
        gates = disabled_features(answer)
        if gates:
            log.warning(
                "%s: the API server dropped fields; probably these feature gates are off: %s",
                stored.name, ", ".join(gates),
            )  # fmt: skip
            self._answers[index] = answer
        else:
            self._answers.pop(index, None)

    async def _failed(self, error: ApiError, failures: int) -> None:
        """Waits until the next attempt: for a while, or until something else is to be published."""
        log.log(logging.INFO if isinstance(error, Conflict) else logging.WARNING, "publishing: %s", error)
        self._observer.failed(error.reason)
        self.refusal = str(error)
        pause = backoff(failures, self._chance(), first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        pause = _REFUSED_PAUSE if isinstance(error, Invalid) else max(pause, error.retry_after or 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._at_once.wait()
        self._woken.set()
        self._at_once.set()
