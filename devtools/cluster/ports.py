"""Free ports of loopback for servers that are started beside a test."""

from __future__ import annotations

import secrets
import socket

PORTS = range(20_000, 32_000)
"""The ports that are given away. Below the range of ephemeral ports (net.ipv4.ip_local_port_range begins at 32,768):
the system gives none of these to a client."""


def free_port() -> int:
    """A free TCP port of 127.0.0.1, unlikely to be taken before the server that it is for.

    The number comes from the system's source of randomness: a seed of ``random`` that several test processes share
    would give them the same ports.
    """
    while True:
        number = secrets.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
        return number
