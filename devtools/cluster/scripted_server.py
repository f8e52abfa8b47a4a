"""An API server that says what a test wants: answers by method and path, in order, over real HTTP. And a proxy that
cuts connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.kube.transport import KubeObserver

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

VERSION = {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}


class ScriptedServer:
    """``script[method, path]`` has the answers still to come; the last one is given again and again. Everything asked
    is in ``asked``."""

    def __init__(self) -> None:
        self.script: dict[tuple[str, str], list[Answer]] = {("GET", "/version"): [json_answer(VERSION)]}
        self.asked: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []
        self.url = ""

    def answers(self, method: str, path: str, *answers: Answer) -> None:
        self.script[method, path] = list(answers)

    def asked_for(self, path: str) -> list[web.BaseRequest]:
        return [request for request in self.asked if request.path == path]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        self.bodies.append(await request.read())
        answers = self.script.get((request.method, request.path))
        if not answers:
            return await status(404, "NotFound", "the server could not find the requested resource")(request)
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)


@asynccontextmanager
async def scripted_server() -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking(
    server: ScriptedServer,
    folder: Path,
    *,
    user: dict[str, Any] | None = None,
    observer: KubeObserver | None = None,
    limits: Mapping[str, float] | None = None,
) -> AsyncIterator[KubeCluster]:
    """A client of the server, patient for seconds, not minutes."""
    path = write_kubeconfig(folder, server.url, user or {})
    quick: dict[str, Any] = {"qps": 0, "timeout": 5, "patience": 10, **(limits or {})}
    async with connect(str(path), limits=ClientLimits(**quick), observer=observer) as cluster:
        yield cluster


def write_kubeconfig(folder: Path, server: str, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, **(cluster or {})}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })
    )  # fmt: skip
    return path


def json_answer(body: object, code: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(body, status=code, headers=headers)

    return answer


def status(code: int, reason: str, message: str, headers: dict[str, str] | None = None, **details: object) -> Answer:
    return json_answer(status_object(code, reason, message, **details), code, headers)


def status_object(code: int, reason: str, message: str, **details: object) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def text_answer(text: str, code: int = 200) -> Answer:
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text, status=code)

    return answer


def cut_answer() -> Answer:
    """The connection ends without an answer."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def stream_answer(*pieces: bytes, then: str = "end", pause: float = 0.0) -> Answer:
    """A watch: pieces of bytes, then the regular ``end``, a ``cut``, or ``silence`` until the client goes."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            if pause:
                await asyncio.sleep(pause)
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif then == "silence":
            await asyncio.sleep(60)
        return response

    return answer


def event_line(type_: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


class CuttingProxy:
    """A TCP proxy to a server: ``cut`` ends all connections at once; while ``refuse`` new ones end at once, while
    ``hang`` nothing is passed on."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._open: set[asyncio.StreamWriter] = set()
        self.refuse = False
        self.hang = False
        self.port = 0
        self.connections = 0
        self.serving: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        if self.refuse:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
        except OSError:  # the server is being restarted
            writer.transport.abort()
            return
        self._open |= {writer, back}
        try:
            await asyncio.gather(self._pumped(reader, back), self._pumped(there, writer))
        finally:
            self._open -= {writer, back}
            writer.transport.abort()
            back.transport.abort()

    async def _pumped(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**16):
                if not self.hang:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass  # cut
        finally:
            writer.transport.abort()


@asynccontextmanager
async def cutting_proxy(host: str, port: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(host, port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        while proxy.serving:
            proxy.cut()
            await asyncio.wait(proxy.serving, timeout=0.05)
        await asyncio.sleep(0)  # what was aborted is closed when the loop comes to it
