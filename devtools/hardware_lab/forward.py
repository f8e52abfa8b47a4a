"""A program: ``python -I forward.py ADDRESS PORT HOST PORT`` forwards each connection to ADDRESS, as kube-proxy does
for a Service. It imports the standard library only."""

from __future__ import annotations

import asyncio
import sys


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while octets := await reader.read(1 << 16):
            writer.write(octets)
            await writer.drain()
    except OSError:
        pass  # either side has gone, which the other one learns by the end of its stream
    finally:
        writer.close()


async def main(address: str, port: str, host: str, host_port: str) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, int(host_port))
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    async with await asyncio.start_server(forward, address, int(port)) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
