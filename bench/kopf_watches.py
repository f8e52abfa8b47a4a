"""What kopf's handlers and our informers do with the watch of a kind of our own: with 5,000 DeviceProfiles of a real
API server, each in a process of its own, through a proxy that cuts connections and refuses watches (decision 0012).

Time is of the process's processors, so that it can be compared beside other work.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
import kopf
import yaml
from aiohttp import web
from rich.console import Console
from rich.table import Table

from devtools.cluster.control_plane import ControlPlane
from virt_dra.api.profiles.device_profile_v1alpha1 import DeviceProfile
from virt_dra.cluster.kube.cluster import connect
from virt_dra.cluster.watching.informer import Informer

PROFILES: Final = "/apis/virt-dra.io/v1alpha1/deviceprofiles"
_DEFINITION: Final = Path(__file__).parents[1] / "manifests" / "crds" / "profiles" / "deviceprofiles.yaml"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATIENCE: Final = 30.0
"""Seconds in which a watcher may notice something."""
Watcher = Literal["kopf", "informer"]


@dataclass
class Proxy:
    """A proxy before the API server. ``refusals``: statuses of the next watches; ``cut``: nobody gets through."""

    server: str
    context: Any
    refusals: list[int] = field(default_factory=list)
    cut: bool = False
    _open: set[asyncio.Task[Any]] = field(default_factory=set)

    def disconnect(self) -> None:
        for task in self._open:
            task.cancel()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        if self.cut:
            assert request.transport is not None
            request.transport.abort()
            return web.Response(status=502)
        if self.refusals and request.path == PROFILES and "watch" in request.query:
            code = self.refusals.pop(0)
            said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "refused"}
            if code == 410:  # an API server says this in the stream
                return web.Response(text=json.dumps({"type": "ERROR", "object": said}) + "\n")
            return web.json_response(said, status=code)
        self._open.add(task)
        try:
            return await self._passed(request)
        except aiohttp.ClientError:  # the watcher's process was ended
            return web.Response(status=502)
        finally:
            self._open.discard(task)

    async def _passed(self, request: web.BaseRequest) -> web.StreamResponse:
        connector = aiohttp.TCPConnector(ssl=self.context)
        async with (
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.request(
                request.method, f"{self.server}{request.path_qs}", data=await request.read() or None,
                headers={"Accept": request.headers.get("Accept", "*/*"), "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):  # fmt: skip
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for part in answer.content.iter_any():
                await response.write(part)
            return response


@asynccontextmanager
async def proxied(plane: ControlPlane) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy, and its address."""
    proxy = Proxy(plane.server, plane.context)
    runner = web.ServerRunner(web.Server(proxy.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield proxy, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        proxy.disconnect()
        await runner.cleanup()


# --- in the process of a watcher --------------------------------------------------------------------------------------


def watch(watcher: Watcher, address: str) -> None:
    """Watch until standard input ends; a line of JSON for each line of it."""
    logging.basicConfig(level=logging.ERROR)
    profiles: dict[str, str] = {}
    lag = [0.0]
    asyncio.run(_watching(watcher, address, profiles, lag))


async def _watching(watcher: Watcher, address: str, profiles: dict[str, str], lag: list[float]) -> None:
    loop = asyncio.get_running_loop()
    following = _by_kopf if watcher == "kopf" else _by_informer
    task = asyncio.create_task(following(address, profiles))
    pulse = asyncio.create_task(_pulse(lag))
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        said = {
            "profiles": len(profiles),
            "gone": "p-0" not in profiles,
            "changed": profiles.get("p-1", ""),
            "cpu": usage.ru_utime + usage.ru_stime,
            "rss": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
            "lag": lag[0],
            "ended": task.done(),
        }
        lag[0] = 0.0
        sys.stdout.write(f"{json.dumps(said)}\n")
        sys.stdout.flush()
    for running in (pulse, task):
        running.cancel()
    await asyncio.wait({pulse, task})
    if not task.cancelled():
        task.result()


async def _pulse(lag: list[float]) -> None:
    """The longest time for which the event loop didn't come round."""
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.005)
        lag[0] = max(lag[0], time.monotonic() - before - 0.005)


async def _by_kopf(address: str, profiles: dict[str, str]) -> None:
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=address)

    @kopf.on.event("virt-dra.io", "v1alpha1", "deviceprofiles", registry=registry)
    async def seen(event: Any, name: str, meta: Any, **_: Any) -> None:
        if event["type"] == "DELETED":
            profiles.pop(name, None)
        else:
            profiles[name] = meta.get("labels", {}).get("mark", "")

    await kopf.operator(registry=registry, settings=settings, standalone=True, clusterwide=True)


async def _by_informer(address: str, profiles: dict[str, str]) -> None:
    configuration = Path(f"/proc/self/fd/{os.memfd_create('kubeconfig')}")
    configuration.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }))  # fmt: skip
    async with connect(str(configuration)) as cluster:
        informer = Informer(cluster, DeviceProfile, optional=True)

        def changed(old: DeviceProfile | None, new: DeviceProfile | None) -> None:
            if new is not None:
                profiles[new.name] = new.metadata.labels.get("mark", "")
            elif old is not None:
                profiles.pop(old.name, None)

        informer.on_change(changed)
        await informer.run()


# --- beside it --------------------------------------------------------------------------------------------------------


_ENDED: Final = {"ended": True, "profiles": 0, "gone": False, "changed": "", "lag": 0, "cpu": 0, "rss": 0}
"""The state of a watcher whose process has ended."""


@dataclass
class Child:
    """A watcher's process."""

    process: asyncio.subprocess.Process

    async def state(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        line = await asyncio.wait_for(self.process.stdout.readline(), _PATIENCE)
        return dict(json.loads(line)) if line else dict(_ENDED)

    async def until(self, holds: Callable[[dict[str, Any]], bool], patience: float = _PATIENCE) -> bool:
        end = time.monotonic() + patience
        while time.monotonic() < end:
            state = await self.state()
            if holds(state):
                return True
            if self.process.returncode is not None:
                return False
            await asyncio.sleep(0.25)
        return False


@asynccontextmanager
async def child(watcher: Watcher, address: str) -> AsyncIterator[Child]:
    command = (sys.executable, "-m", "bench.kopf_watches", watcher, address)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


Disturbance = Callable[[ControlPlane, Proxy], Awaitable[None]]


def _profile(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "virt-dra.io/v1alpha1", "kind": "DeviceProfile", "metadata": {"name": f"p-{number}"},
        "spec": {"devices": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]},
    }  # fmt: skip


async def _deleted_in_a_gap(plane: ControlPlane, proxy: Proxy) -> None:
    proxy.cut = True
    proxy.disconnect()
    await asyncio.sleep(1)
    await asyncio.to_thread(plane.request, "DELETE", f"{PROFILES}/p-0")
    # The old resourceVersion may be followed from again otherwise: then the API server itself reports the deletion.
    proxy.refusals = [410]
    proxy.cut = False


def _refused(*codes: int) -> Disturbance:
    async def disturb(plane: ControlPlane, proxy: Proxy) -> None:
        proxy.refusals = list(codes)
        proxy.disconnect()
        await asyncio.sleep(3)
        patch = {"metadata": {"labels": {"mark": f"after-{codes[0]}"}}}
        await asyncio.to_thread(plane.request, "PATCH", f"{PROFILES}/p-1", patch, "application/merge-patch+json")

    return disturb


async def _definition_anew(plane: ControlPlane, proxy: Proxy) -> None:
    definition = yaml.safe_load(_DEFINITION.read_text(encoding="utf-8"))
    name = definition["metadata"]["name"]
    await asyncio.to_thread(plane.request, "DELETE", f"{_DEFINITIONS}/{name}")
    await asyncio.to_thread(plane.wait_until_gone, f"{_DEFINITIONS}/{name}")
    await asyncio.sleep(3)
    await asyncio.to_thread(plane.request, "POST", _DEFINITIONS, definition)
    await asyncio.to_thread(plane.wait_until_established, name)
    await asyncio.to_thread(_create, plane, 3)


def _create(plane: ControlPlane, number: int) -> None:
    with ThreadPoolExecutor(16) as several:
        list(several.map(lambda index: plane.request("POST", PROFILES, _profile(index)), range(number)))


DISTURBANCES: Final[dict[str, tuple[Disturbance, Callable[[dict[str, Any]], bool]]]] = {
    "a deletion in a gap of the watch is seen": (_deleted_in_a_gap, lambda state: state["gone"]),
    "a watch refused once (403) goes on": (_refused(403), lambda state: state["changed"] == "after-403"),
    "a watch refused once (401) goes on": (_refused(401), lambda state: state["changed"] == "after-401"),
    "a watch refused once (404) goes on": (_refused(404), lambda state: state["changed"] == "after-404"),
    "a watch refused five times (500) goes on": (_refused(*[500] * 5), lambda state: state["changed"] == "after-500"),
    "a definition that goes and comes is followed": (
        _definition_anew, lambda state: state["profiles"] == 3 and state["changed"] == ""
    ),
}  # fmt: skip


async def _costs(plane: ControlPlane, number: int, watcher: Watcher) -> dict[str, str]:
    """What reading so many objects, which stay there, costs one watcher."""
    async with proxied(plane) as (_, address):
        async with child(watcher, address) as empty:
            await asyncio.sleep(4)
            before = await empty.state()
        await asyncio.to_thread(_create, plane, number)
        lags = [0.0]

        def all_read(state: dict[str, Any]) -> bool:
            lags.append(state["lag"])
            return bool(state["profiles"] == number)

        async with child(watcher, address) as full:
            read = await full.until(all_read, 300)
            state = await full.state()
    return {
        f"{number:,} objects are read": "yes" if read else f"no: {state['profiles']}",
        "processor for it, seconds": f"{state['cpu'] - before['cpu']:.1f}",
        "memory for it, MiB": f"{(state['rss'] - before['rss']) / 2**20:.0f}",
        "longest pause of the event loop, ms": f"{max(lags) * 1000:.0f}",
    }


async def _answers(plane: ControlPlane, watcher: Watcher) -> dict[str, str]:
    """What one watcher makes of each disturbance. There are some objects."""
    rows: dict[str, str] = {}
    async with proxied(plane) as (proxy, address):
        for question, (disturb, holds) in DISTURBANCES.items():
            proxy.refusals, proxy.cut = [], False
            async with child(watcher, address) as watching:
                there = await watching.until(lambda state: state["profiles"] >= 3)
                await asyncio.sleep(2)
                await disturb(plane, proxy)
                seen = await watching.until(holds)
                ended = watching.process.returncode is not None or (await watching.state())["ended"]
            rows[question] = ("yes" if seen else "no") + (", the process ended" if ended else "") if there else "-"
            if question.startswith("a deletion"):
                await asyncio.to_thread(plane.request, "POST", PROFILES, _profile(0))
    return rows


def main(quick: bool = False) -> None:
    """``quick``: with 200 objects."""
    number = 200 if quick else 5000
    answers: dict[Watcher, dict[str, str]] = {}
    for watcher in ("kopf", "informer"):
        with ControlPlane() as plane:
            definition = yaml.safe_load(_DEFINITION.read_text(encoding="utf-8"))
            plane.request("POST", _DEFINITIONS, definition)
            plane.wait_until_established(definition["metadata"]["name"])
            answers[watcher] = asyncio.run(_costs(plane, number, watcher)) | asyncio.run(_answers(plane, watcher))
    table = Table("", *answers, title=f"Watching {number:,} DeviceProfiles")
    for row in answers["kopf"]:
        table.add_row(row, *(answers[watcher].get(row, "-") for watcher in answers))
    Console(width=140).print(table)


if __name__ == "__main__":
    watch("kopf" if sys.argv[1] == "kopf" else "informer", sys.argv[2])
