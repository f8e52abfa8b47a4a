"""The network of pods that are processes of this machine: each pod has an address, behind which is an address of
loopback.

A pod's ``10.244.a.b`` is ``127.n.a.b`` here, which any Linux user may listen on, so that replicas keep their ports and
root isn't needed; each network of this machine has an n of its own. The API server reaches pods as in clusters whose
nodes it can't reach directly: by an HTTP CONNECT proxy (its egress selector), which is :meth:`PodNetwork.served`; and
with aggregator routing it is the API server that chooses among a Service's endpoints. What else a cluster's network has
(names, other pods' way to a Service, NetworkPolicies) isn't here.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_PODS: Final = "10.244."
_NETWORKS: Final = range(100, 250)
_RESERVED: Final = ("255.254", 10250)
"""Address and port that reserve a network: the process that binds them has it."""
_CHUNK: Final = 64 * 1024
_HEAD_BYTES: Final = 8 * 1024
_CONNECT_SECONDS: Final = 5.0


class PodNetwork:
    """``folder`` gets the proxy's socket and the API server's configuration for it. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._socket, self._configuration = folder / "egress.sock", folder / "egress.json"
        self._numbers: dict[str, int] = {}
        self._network = 0
        self._reservation: socket.socket | None = None

    def __enter__(self) -> Self:
        """Raises OSError where all networks of this machine are taken."""
        for network in _NETWORKS:
            reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                reservation.bind((f"127.{network}.{_RESERVED[0]}", _RESERVED[1]))
            except OSError:
                reservation.close()
                continue
            self._network, self._reservation = network, reservation
            return self
        raise OSError(f"no network of 127.{_NETWORKS[0]} to 127.{_NETWORKS[-1]} is free")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reservation is not None:
            self._reservation.close()

    def loopback_of(self, address: str) -> str:
        """Where a pod of this address listens. Raises ValueError for other addresses."""
        if not address.startswith(_PODS):
            raise ValueError(f"{address} is no pod's address")
        return f"127.{self._network}.{address.removeprefix(_PODS)}"

    def address_of(self, pod_uid: str) -> str:
        """The same for the same pod, and never given to another one."""
        number = self._numbers.setdefault(pod_uid, len(self._numbers) + 1)
        return f"{_PODS}{number // 256}.{number % 256}"

    def server_arguments(self) -> tuple[str, ...]:
        """Of kube-apiserver, so that it reaches pods and Services."""
        selection = {
            "name": "cluster",
            "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self._socket)}}},
        }
        configuration = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [selection],
        }
        self._configuration.write_text(json.dumps(configuration), encoding="utf-8")
        return "--enable-aggregator-routing=true", f"--egress-selector-config-file={self._configuration}"

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """The proxy, while the body runs."""
        server = await asyncio.start_unix_server(self._tunnel, str(self._socket), limit=_CHUNK)
        try:
            yield
        finally:
            server.close()  # without waiting for tunnels, which last as long as the API server

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the API server: ``CONNECT address:port``, then bytes in both directions until one side
        ends."""
        with closing(writer):
            try:
                target = await self._target(reader)
                async with asyncio.timeout(_CONNECT_SECONDS):
                    pod_reader, pod_writer = await asyncio.open_connection(*target, limit=_CHUNK)
            except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                writer.write(
                    f"HTTP/1.1 502 Bad Gateway\r\nContent-Length: {len(str(error).encode())}\r\n\r\n{error}".encode()
                )
                return
            with closing(pod_writer):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                ways = [asyncio.create_task(_pump(reader, pod_writer)), asyncio.create_task(_pump(pod_reader, writer))]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()

    async def _target(self, reader: asyncio.StreamReader) -> tuple[str, int]:
        """Raises ValueError and the reader's errors."""
        head = await reader.readuntil(b"\r\n\r\n")
        words = head[:_HEAD_BYTES].split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
        if len(words) != 3 or words[0] != "CONNECT":
            raise ValueError("only CONNECT address:port is served")
        address, _, port = words[1].rpartition(":")
        return self.loopback_of(address), int(port)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        return  # the other side notices the end of the connection
