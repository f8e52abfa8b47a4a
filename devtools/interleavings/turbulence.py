"""A cluster between a loop and the embedded one: slow, sometimes refusing, with watches that break, lag and repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeVar

from virt_dra.api.meta import ObjectT
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Conflict, Gone, Listed, Unavailable, WatchEvent

T = TypeVar("T")


@dataclass(frozen=True)
class TurbulenceRates:
    """How often something happens, as a share of all requests or events."""

    conflict: float = 0.05
    """A write that is refused although nothing changed."""
    unavailable: float = 0.04
    """A request that isn't performed."""
    answer_lost: float = 0.04
    """A write that is performed and answered with an error."""
    crash: float = 0.03
    """A write before or after which the loop ends."""
    watch_ends: float = 0.03
    """An event before which a watch ends …"""
    too_old: float = 0.5
    """… and of these, how many can't go on from where they were, so that what happened between is lost."""
    repeated: float = 0.05
    """An event that comes twice."""
    longest_delay: float = 0.4
    """Seconds that an event or a request may take."""


@dataclass
class Weather:
    """Whether there is turbulence now. Requests are delayed in any weather, so that the order is random in calm,
    too."""

    rates: TurbulenceRates
    rough: bool = False
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    """Kinds whose events wait until theirs is set."""


class TurbulentCluster:
    """Implements the port. ``crashed`` is set where the loop is to end; the request that it happened at is never
    answered."""

    def __init__(self, cluster: MemoryCluster, chance: Random, weather: Weather) -> None:
        self._cluster, self._chance, self._weather = cluster, chance, weather
        self.crashed = asyncio.Event()

    # --- reading --------------------------------------------------------------------------------------------------

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        await self._read()
        return await self._cluster.get(kind, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        await self._read()
        return await self._cluster.list(kind, namespace, labels=labels, fields=fields)

    async def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        events = self._cluster.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)
        try:
            async for event in events:
                await self._delay()
                if held := self._weather.held.get(kind.KIND):
                    await held.wait()
                if self._happens(self._weather.rates.watch_ends):
                    if self._chance.random() < self._weather.rates.too_old:
                        raise Gone("too old resource version")
                    return
                yield event
                if self._happens(self._weather.rates.repeated):
                    yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    # --- writing --------------------------------------------------------------------------------------------------

    async def create(self, obj: ObjectT) -> ObjectT:
        return await self._written(lambda: self._cluster.create(obj), conflicts=False)

    async def update(self, obj: ObjectT) -> ObjectT:
        return await self._written(lambda: self._cluster.update(obj))

    async def update_status(self, obj: ObjectT) -> ObjectT:
        return await self._written(lambda: self._cluster.update_status(obj))

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        return await self._written(
            lambda: self._cluster.patch(
                kind, name, namespace, merge=merge, operations=operations, subresource=subresource
            )
        )

    async def delete(
        self, kind: type[ObjectT], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        await self._written(
            lambda: self._cluster.delete(
                kind, name, namespace, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
            )
        )

    def __getattr__(self, name: str) -> Any:
        """Further writes of the port, such as a pod's binding."""
        method = getattr(self._cluster, name)

        async def written(*args: Any, **kwargs: Any) -> Any:
            return await self._written(lambda: method(*args, **kwargs))

        return written

    # --- what happens ---------------------------------------------------------------------------------------------

    def _happens(self, share: float) -> bool:
        return self._weather.rough and self._chance.random() < share

    async def _delay(self) -> None:
        await asyncio.sleep(self._chance.random() * self._weather.rates.longest_delay * self._chance.random())

    async def _read(self) -> None:
        await self._delay()
        if self._happens(self._weather.rates.unavailable):
            raise Unavailable("the server is currently unable to handle the request")

    async def _written(self, perform: Callable[[], Awaitable[T]], *, conflicts: bool = True) -> T:
        await self._read()
        if conflicts and self._happens(self._weather.rates.conflict):
            raise Conflict(
                "the object has been modified; please apply your changes to the latest version and try again"
            )
        if self._happens(self._weather.rates.crash / 2):
            await self._crash()
        answer = await perform()
        if self._happens(self._weather.rates.crash / 2):
            await self._crash()
        if self._happens(self._weather.rates.answer_lost):
            raise Unavailable("unexpected EOF")
        await self._delay()
        return answer

    async def _crash(self) -> None:
        self.crashed.set()
        await asyncio.Event().wait()
