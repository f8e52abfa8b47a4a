"""A real control plane of a classic release as a target, with a driver on Kubernetes' own library."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from devtools.classic.scenario import CALM, COMPARED, DRIVER, PLAY, VERSIONS, ClassicScenario, Refusal, play
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.scenarios import scheduler_configuration
from virt_dra.api.wire import Json

LONGEST: Final = 60.0
_GATES: Final[Mapping[str, Mapping[str, bool]]] = {
    "1.30.14": {"DynamicResourceAllocation": True},
    "1.31.14": {"DynamicResourceAllocation": True, "DRAControlPlaneController": True},
}
_PLURALS: Final = {"ResourceClass": "resourceclasses", "DeviceClass": "deviceclasses"} | {
    kind: kind.lower() for kind in ("ResourceClassParameters", "ResourceClaimParameters")
}
_MERGE: Final = "application/merge-patch+json"


@contextmanager
def classic_plane(release: str) -> Iterator[ControlPlane]:
    """While in it, the control plane of a release runs."""
    with ControlPlane(version=release, gates=_GATES[release]) as plane:
        plane.start_scheduler(scheduler_configuration({}))
        plane.start_controllers("resourceclaim-controller", "garbage-collector-controller")
        yield plane


def play_really(scenario: ClassicScenario, plane: ControlPlane) -> Json:
    """The answer of a control plane that has nothing of another scenario, and is left so."""
    target = RealTarget(plane, VERSIONS[scenario.release])
    target.drive(scenario.driver)
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": PLAY}})
    plane.start_classic_driver(DRIVER, target.settings)
    try:
        return asyncio.run(play(scenario, target))
    finally:
        plane.stop_classic_driver()
        plane.delete_namespace(PLAY)
        for path in target.cluster_scoped():
            plane.request("DELETE", path)


class RealTarget:
    """Implements :class:`devtools.classic.scenario.Target`."""

    def __init__(self, plane: ControlPlane, api_version: str) -> None:
        self._plane, self._api_version = plane, api_version
        self.settings = plane.folder / "classic-driver.json"

    def drive(self, settings: Json) -> None:
        new = self.settings.with_suffix(".new")
        new.write_text(json.dumps(settings), encoding="utf-8")
        new.replace(self.settings)  # the driver never reads half of it

    async def apply(self, raw: Json) -> Refusal | None:
        if raw["kind"] == "Node":
            self._plane.create_node(raw["metadata"]["name"], raw["metadata"]["labels"])
            return None
        path = self._path(raw["apiVersion"], raw["kind"], raw["metadata"].get("namespace", ""))
        item = f"{path}/{raw['metadata']['name']}"
        rest = {name: value for name, value in raw.items() if name != "status"}
        try:
            if self._exists(item):
                if rest.keys() - {"apiVersion", "kind", "metadata"} or len(raw["metadata"]) > 2:
                    self._plane.request("PATCH", item, rest, _MERGE)
            else:
                self._plane.request("POST", path, rest)
            if "status" in raw:
                self._plane.request("PATCH", f"{item}/status", {"status": raw["status"]}, _MERGE)
        except RequestError as error:
            return Refusal(error.status, error.message)
        return None

    async def delete(self, kind: str, name: str, *, at_once: bool = False) -> Refusal | None:
        version = "v1" if kind == "Pod" else self._api_version
        path = self._path(version, kind, "" if kind in ("ResourceClass", "DeviceClass", "ResourceSlice") else PLAY)
        try:
            options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0} if at_once else None
            self._plane.request("DELETE", f"{path}/{name}", options)
        except RequestError as error:
            return Refusal(error.status, error.message)
        return None

    async def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    async def settle(self) -> None:
        end, seen, since = time.monotonic() + LONGEST, "", time.monotonic()
        while time.monotonic() < end and time.monotonic() - since < CALM:
            now = json.dumps([self._listed(kind) for kind in COMPARED])
            if now != seen:
                seen, since = now, time.monotonic()
            await self.wait(0.2)

    async def objects(self) -> Mapping[str, Sequence[Json]]:
        return {kind: self._listed(kind) for kind in (*COMPARED, "Event")}

    def cluster_scoped(self) -> Iterator[str]:
        """The paths of nodes, classes and slices."""
        kinds = ("Node", "ResourceClass" if self._api_version.endswith("2") else "DeviceClass", "ResourceSlice")
        for kind in kinds:
            path = self._path("v1" if kind == "Node" else self._api_version, kind, "")
            for raw in self._plane.request("GET", path)["items"]:
                yield f"{path}/{raw['metadata']['name']}"

    def _listed(self, kind: str) -> Sequence[Json]:
        version = "v1" if kind in ("Pod", "Event") else self._api_version
        items: Sequence[Json] = self._plane.request("GET", self._path(version, kind, PLAY))["items"]
        return items

    def _exists(self, item: str) -> bool:
        try:
            self._plane.request("GET", item)
        except RequestError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _path(self, version: str, kind: str, namespace: str) -> str:
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        plural = _PLURALS.get(kind, f"{kind.lower()}s")
        return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
