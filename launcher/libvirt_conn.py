"""The connection to libvirt; the only module that imports its binding, and only when it is used.

The binding has no wheels, so it is an extra: ``pip install 'virt-dra[libvirt]'`` (needs libvirt's headers).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE, LauncherError

DEFAULT_URI = "qemu:///system"


def define(xml: str, uri: str = DEFAULT_URI) -> str:
    """Define the domain persistently, without starting it; answers its UUID. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        return str(connection.defineXML(xml).UUIDString())


def dumpxml(name: str, uri: str = DEFAULT_URI) -> str:
    """The domain as libvirt completed it. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        return str(connection.lookupByName(name).XMLDesc())


def undefine(name: str, uri: str = DEFAULT_URI) -> None:
    """Forget the domain. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        connection.lookupByName(name).undefine()


@contextmanager
def _connection(uri: str) -> Iterator[Any]:  # Any: the binding publishes no types
    try:
        import libvirt
    except ImportError as error:
        message = f"libvirt's Python binding is not installed ({error}); install it with: pip install 'virt-dra[libvirt]'"
        raise LauncherError(LIBVIRT_UNAVAILABLE, uri, message) from None
    # Without a handler of ours libvirt writes every error to standard error as well.
    libvirt.registerErrorHandler(lambda context, error: None, None)
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise LauncherError(LIBVIRT_UNAVAILABLE, uri, f"{uri}: {error}; is the libvirt daemon running?") from None
    try:
        yield connection
    except libvirt.libvirtError as error:
        raise LauncherError(LIBVIRT_REFUSED, uri, f"{uri}: {error}") from None
    finally:
        connection.close()
