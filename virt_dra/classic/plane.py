"""A release of classic DRA as scenarios play it: the cluster's kinds and rules, its loops, and scripted drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.scheme import known_kind
from virt_dra.api.reading.unknown_kinds import unknown_kind
from virt_dra.api.wire import Json
from virt_dra.classic.claim_controller import ClassicClaimController
from virt_dra.classic.driver import DriverSettings
from virt_dra.classic.driver_controller import DriverController
from virt_dra.classic.objects import KINDS, PodSchedulingContext
from virt_dra.classic.release import ClassicRelease
from virt_dra.classic.rules import classic_cluster
from virt_dra.classic.scheduling.scheduler import ClassicScheduler
from virt_dra.classic.scripted_driver import ScriptedDriver
from virt_dra.classic.versions import SERVED, STRUCTURED, read_classic, write_classic
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.patches import merged
from virt_dra.controllers.loops.context import ControlLoop, LoopContext

_BY_KIND: Final = {kind.KIND: kind for kind in KINDS} | {"PodScheduling": PodSchedulingContext}


class ClassicPlane:
    """The kinds, rules, loops and drivers of Kubernetes 1.26 to 1.31."""

    def __init__(self, minor: int, drivers: Mapping[str, Json]) -> None:
        """``drivers``: name -> settings, see :class:`ScriptedDriver`."""
        self._release = ClassicRelease(minor)
        self._version = self._release.api_version
        self._drivers = {name: ScriptedDriver(name, self._release, settings) for name, settings in drivers.items()}

    @staticmethod
    def kinds(minor: int) -> Mapping[str, str]:
        """The kinds of classic DRA that a release serves, and their version."""
        release = ClassicRelease(minor)
        served = SERVED[release.api_version]
        if not release.structured_parameters:
            served -= STRUCTURED
        return dict.fromkeys(sorted(served), release.api_version)

    def cluster(
        self, clock: Callable[[], datetime], names: Callable[[], str], uids: Callable[[], str]
    ) -> MemoryCluster:
        return classic_cluster(clock, names, uids, graceful_deletion=True)

    def loops(self) -> Iterator[tuple[str, Callable[[LoopContext], ControlLoop]]]:
        yield "classic claims", partial(ClassicClaimController, release=self._release)
        yield "classic scheduler", partial(ClassicScheduler, release=self._release)
        settings = DriverSettings(release=self._release)
        for name, driver in self._drivers.items():
            yield f"driver {name}", partial(DriverController, driver=driver, settings=settings)

    def drive(self, driver: str, settings: Json) -> None:
        self._drivers[driver].settings = settings

    def type_of(self, api_version: str, kind: str) -> type[TypedObject]:
        if kind in SERVED.get(api_version, ()):
            return _BY_KIND[kind]
        return known_kind(api_version, kind) or unknown_kind(api_version, kind)

    def read(self, raw: Json) -> TypedObject:
        return read_classic(raw)

    def write(self, obj: TypedObject) -> Json:
        return write_classic(obj, self._version) if isinstance(obj, KINDS) else obj.to_wire()

    async def patch(
        self, cluster: MemoryCluster, kind: type[TypedObject], name: str, namespace: str, patch: Json, subresource: str
    ) -> None:
        """Patches an object in the shape of the release, which may not be the stored one."""
        stored = await cluster.get(kind, name, namespace)
        patched: Any = merged(self.write(stored), patch)
        update = cluster.update_status if subresource == "status" else cluster.update
        await update(self.read(patched))
