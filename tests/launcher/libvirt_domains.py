"""Domains that tests define in libvirt, without starting them."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise

from launcher.process.libvirt_conn import DEFAULT_URI, _connection
from virt_dra.api.wire import Json


def define(xml: str, uri: str = DEFAULT_URI) -> str:
    """Define the domain persistently, and return its UUID. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        return str(connection.defineXML(xml).UUIDString())


def dumpxml(name: str, uri: str = DEFAULT_URI) -> str:
    """The domain as libvirt completed it. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        return str(connection.lookupByName(name).XMLDesc())


def undefine(name: str, uri: str = DEFAULT_URI) -> None:
    """Undefine the domain. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        connection.lookupByName(name).undefine()


def qemu_devices(xml: str, uri: str = DEFAULT_URI) -> list[Json]:
    """What QEMU would be told of each ``-device``. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        arguments = shlex.split(connection.domainXMLToNative("qemu-argv", xml))
    return [json.loads(value) for option, value in pairwise(arguments) if option == "-device"]
