"""The connection to libvirt: the only module that imports its Python binding, lazily.

The binding has no wheels, so it is an extra: ``pip install 'virt-dra[libvirt]'`` (needs libvirt's headers).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE, LauncherError

DEFAULT_URI = "qemu:///system"


class Guest:
    """A started domain, with the connection that keeps it alive."""

    def __init__(self, domain: Any, binding: Any) -> None:  # Any: the binding publishes no types
        self._domain = domain
        self._binding = binding

    def end(self) -> str | None:
        """``None`` while it runs (or is paused); else how it ended: ``shutdown`` (by the guest, or asked to),
        ``destroyed``, ``crashed``, ``failed``. Raises :class:`LauncherError`."""
        state, reason = self._domain.state()
        if state == self._binding.VIR_DOMAIN_CRASHED:
            return "crashed"
        if state != self._binding.VIR_DOMAIN_SHUTOFF:
            return None
        return {
            self._binding.VIR_DOMAIN_SHUTOFF_CRASHED: "crashed",
            self._binding.VIR_DOMAIN_SHUTOFF_FAILED: "failed",
            self._binding.VIR_DOMAIN_SHUTOFF_DESTROYED: "destroyed",
        }.get(reason, "shutdown")

    def shutdown(self) -> None:
        """Request a shutdown (ACPI), which the guest may delay or ignore. Raises :class:`LauncherError`."""
        self._domain.shutdown()

    def destroy(self) -> None:
        """Destroy the domain, as if its power were cut. Raises :class:`LauncherError`."""
        self._domain.destroy()


@contextmanager
def started(xml: str, uri: str = DEFAULT_URI) -> Iterator[Guest]:
    """Define and start the domain; it is destroyed and undefined at the end. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        domain = connection.defineXML(xml)
        try:
            domain.create()
            yield Guest(domain, _binding())
        except BaseException:
            with suppress(_binding().libvirtError):  # the error to report is the first one, not one of the clean-up
                _remove(domain)
            raise
        _remove(domain)


def _remove(domain: Any) -> None:  # Any: the binding publishes no types
    if domain.isActive():
        domain.destroy()
    domain.undefine()


def answers(uri: str = DEFAULT_URI) -> bool:
    """True if a daemon accepts connections. Raises :class:`LauncherError` where the binding isn't installed."""
    _binding()
    try:
        with _connection(uri):
            return True
    except LauncherError:
        return False


def _binding() -> Any:  # Any: the binding publishes no types
    try:
        import libvirt
    except ImportError as error:
        message = (
            f"libvirt's Python binding is not installed ({error}); install it with: pip install 'virt-dra[libvirt]'"
        )
        raise LauncherError(LIBVIRT_UNAVAILABLE, "libvirt", message) from None
    return libvirt


@contextmanager
def _connection(uri: str) -> Iterator[Any]:  # Any: the binding publishes no types
    libvirt = _binding()
    # Without this handler libvirt also writes every error to standard error.
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
