"""A webhook server in a process of its own, which serves the objects of a file, and a connection that asks it."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import urlopen

PROGRAM = "from virt_dra.cli.main import main; main()"
Question = tuple[str, bytes]
"""Path and body."""
_CORES = sorted(os.sched_getaffinity(0))


def pin(pid: int) -> None:
    """Holds a server to one core and this process to the others, where there are several."""
    if len(_CORES) > 1:
        os.sched_setaffinity(pid, _CORES[:1])
        os.sched_setaffinity(0, _CORES[1:])


@contextmanager
def server_process(
    folder: Path, objects: Iterable[dict[str, Any]], *, pinned: bool = True
) -> Iterator[tuple[int, ssl.SSLContext, subprocess.Popen[str]]]:
    """A server of the objects: its port, what trusts its certificate, and its process."""
    with (folder / "cluster.json").open("w") as file:
        for obj in objects:
            file.write(json.dumps(obj) + "\n")
    tls = folder / "tls"
    options = ["--self-signed", str(tls), "--dns-name", "localhost", "--host", "127.0.0.1", "--port", "0"]
    files = ["-f", str(folder / "cluster.json"), "--plain-port", "0", "--announce", "0"]
    command = [sys.executable, "-c", PROGRAM, "webhook", *options, *files]
    with (folder / "log").open("w+") as log, subprocess.Popen(command, stderr=log, text=True) as process:
        if pinned:
            pin(process.pid)
        try:
            until = time.monotonic() + 180
            while not (line := (folder / "log").read_text().partition("\n")[0]) or not _ready(line):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("the server did not start")
                time.sleep(0.1)
            port = json.loads(line)["port"]
            yield port, ssl.create_default_context(cafile=str(tls / "current" / "ca.crt")), process
        finally:
            process.terminate()


def _ready(line: str) -> bool:
    """``line``: the first of the server's log."""
    try:
        with urlopen(f"http://127.0.0.1:{json.loads(line)['plainPort']}/readyz", timeout=10) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False


class AskingClient:
    """One connection that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int, trust: ssl.SSLContext) -> AskingClient:
        return cls(*await asyncio.open_connection("localhost", port, ssl=trust, family=2))

    async def ask(self, question: Question) -> tuple[int, bytes]:
        path, body = question
        head = (
            f"POST {path}?timeout=10s HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
            f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        return int(answered[9:12]), content

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):  # the server hangs up on a connection that asks nothing for long
            await self._writer.wait_closed()
