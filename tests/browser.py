"""Chromium for tests of pages, by its DevTools protocol."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

Json = dict[str, Any]
_SECONDS = 60


class Tab:
    """A page of the browser, by its DevTools protocol. ``errors``: what its console has shown."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.errors: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Json:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            said: Json = await self._socket.receive_json(timeout=_SECONDS)
            if said.get("id") == number:
                assert "error" not in said, said
                result: Json = said["result"]
                return result
            if said["method"] == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(said["params"]["exceptionDetails"])[:500])
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.errors.append(said["params"]["entry"]["text"])

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Waits for an expression to be true, through navigations."""
        async with asyncio.timeout(_SECONDS):
            while True:
                with suppress(AssertionError):
                    if await self.value(expression):
                        return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium: apt install chromium")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors", "--window-size=900,500")
    port = folder / "DevToolsActivePort"
    process = await asyncio.create_subprocess_exec(
        browser, *options, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS):
            while not (port.exists() and port.read_text().count("\n")):
                await asyncio.sleep(0.05)
        address = f"http://127.0.0.1:{port.read_text().splitlines()[0]}"
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{address}/json/list") as answer:
                (page,) = [target for target in await answer.json() if target["type"] == "page"]
            async with client.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.call(f"{domain}.enable")
                yield tab
    finally:
        process.kill()
        await process.wait()
