"""KubeVirt's side of the hooks, as its ``pkg/hooks`` and ``virtwrap/plugins`` do it: sockets are collected from a
folder, Info is asked once, the newest common version is called, each call on a connection of its own.

Messages are encoded here by hand, so that a wrong field number of the product's tables can't cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

VERSIONS = ("v1alpha3", "v1alpha2", "v1alpha1")
"""Newest first."""
Fields = Mapping[int, str | bytes]


def encoded(fields: Fields) -> bytes:
    """A message of length-delimited fields; empty ones aren't sent."""
    pairs = ((number, text.encode() if isinstance(text, str) else text) for number, text in fields.items())
    return b"".join(_varint(number << 3 | 2) + _varint(len(text)) + text for number, text in pairs if text)


def decoded(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        value, position = _read_varint(message, position)
        if key & 7 == 0:
            yield key >> 3, value
        else:
            assert key & 7 == 2
            yield key >> 3, message[position : position + value]
            position += value


def _varint(number: int) -> bytes:
    octets = []
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        octet = message[position]
        number |= (octet & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if octet < 0x80:
            return number, position


async def call(socket: Path, method: str, fields: Fields, timeout: float = 60.0) -> list[tuple[int, bytes | int]]:
    """``method``: ``/package.Service/Method``. Raises :class:`grpc.aio.AioRpcError`."""
    options = [("grpc.default_authority", "localhost")]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options) as channel:
        return list(decoded(await channel.unary_unary(method)(encoded(fields), timeout=timeout)))


@dataclass(frozen=True)
class Callback:
    """A sidecar that was collected: its socket, the version that is spoken with it, and the points that it wants."""

    socket: Path
    version: str
    hook_points: tuple[str, ...]

    async def call(self, method: str, fields: Fields) -> list[tuple[int, bytes | int]]:
        return await call(self.socket, f"/kubevirt.hooks.{self.version}.Callbacks/{method}", fields)

    async def on_define_domain(self, domain: bytes, vmi: bytes) -> bytes:
        answers = dict(await self.call("OnDefineDomain", {1: domain, 2: vmi}))
        text = answers.get(1, b"")
        assert isinstance(text, bytes)
        return text


async def collect(folder: Path, versions: tuple[str, ...] = VERSIONS) -> list[Callback]:
    """The sidecars below the shared folder, each in a folder named after its container. ``versions``: those that this
    KubeVirt knows, newest first."""
    collected = []
    for socket in sorted(folder.glob("*/*")):
        info = await call(socket, "/kubevirt.hooks.info.Info/Info", {}, timeout=1.0)
        published = [value for number, value in info if number == 4]
        version = next(version for version in versions if version.encode() in published)
        points = [dict(decoded(value)) for number, value in info if number == 3 and isinstance(value, bytes)]
        points.sort(key=lambda point: (-int(point.get(2, 0)), point[1]))
        names = tuple(point[1].decode() for point in points if isinstance(point[1], bytes))
        collected.append(Callback(socket, version, names))
    return collected


async def mutate_domain(socket: Path, domain: bytes, vmi: bytes, invocation_context: str) -> bytes:
    """The domain hook of a plugin. Raises :class:`grpc.aio.AioRpcError`."""
    fields: Fields = {1: "libvirt", 2: domain, 3: vmi, 4: encoded({1: invocation_context})}
    method = "/kubevirt.hooks.plugins.v1alpha1.DomainHookService/MutateDomain"
    answer = dict(await call(socket, method, fields, timeout=30.0))[1]
    assert isinstance(answer, bytes)
    return answer
