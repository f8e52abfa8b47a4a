"""The connection to libvirt: the only module that imports its Python binding, lazily.

The binding has no wheels, so it is an extra: ``pip install 'virt-dra[libvirt]'`` (needs libvirt's headers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from launcher.errors import LIBVIRT_REFUSED, LIBVIRT_UNAVAILABLE, LauncherError

DEFAULT_URI = "qemu:///system"
AnswerT = TypeVar("AnswerT")


class Guest:
    """A domain that was started, by whichever connection reaches it: it runs on while its daemon is restarted.

    Every method raises :class:`LauncherError`: LIBVIRT_UNAVAILABLE while no daemon answers, after which it may be
    called again, LIBVIRT_REFUSED for what libvirt refuses.
    """

    def __init__(self, uri: str, connection: Any, domain: Any) -> None:  # Any: the binding publishes no types
        self._uri = uri
        self._connection = connection
        self._domain = domain
        self._uuid = domain.UUIDString()

    def end(self) -> str | None:
        """``None`` while it runs (or is paused); else how it ended: ``shutdown`` (by the guest, or asked to),
        ``destroyed``, ``crashed``, ``failed``; ``lost`` if that was while no daemon watched."""
        binding = _binding()
        state, reason = self._ask(lambda domain: domain.state())
        if state == binding.VIR_DOMAIN_CRASHED:
            return "crashed"
        if state != binding.VIR_DOMAIN_SHUTOFF:
            return None
        return {
            binding.VIR_DOMAIN_SHUTOFF_CRASHED: "crashed",
            binding.VIR_DOMAIN_SHUTOFF_FAILED: "failed",
            binding.VIR_DOMAIN_SHUTOFF_DESTROYED: "destroyed",
            binding.VIR_DOMAIN_SHUTOFF_UNKNOWN: "lost",
            binding.VIR_DOMAIN_SHUTOFF_DAEMON: "lost",
        }.get(reason, "shutdown")

    def xml(self) -> str:
        """The domain as it runs."""
        return str(self._ask(lambda domain: domain.XMLDesc()))

    def attach(self, xml: str) -> None:
        """Attach a device, now and in the stored definition."""
        binding = _binding()
        flags = binding.VIR_DOMAIN_AFFECT_LIVE | binding.VIR_DOMAIN_AFFECT_CONFIG
        self._ask(lambda domain: domain.attachDeviceFlags(xml, flags))

    def request_detach(self, alias: str) -> None:
        """Ask the guest to release a device. It is gone when :meth:`xml` doesn't have it any more."""
        self._ask(lambda domain: domain.detachDeviceAlias(alias, _binding().VIR_DOMAIN_AFFECT_LIVE))

    def forget(self, alias: str) -> None:
        """Remove a device from the stored definition."""
        self._ask(lambda domain: domain.detachDeviceAlias(alias, _binding().VIR_DOMAIN_AFFECT_CONFIG))

    def shutdown(self) -> None:
        """Ask the agent in the guest, or press the power button (ACPI) where there is none. The guest may delay or
        ignore it."""
        self._ask(lambda domain: domain.shutdown())

    def press_button(self) -> None:
        """Press the power button, whether the guest has an agent or not."""
        self._ask(lambda domain: domain.shutdownFlags(_binding().VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN))

    def destroy(self) -> None:
        """Destroy the domain, as if its power were cut."""
        self._ask(lambda domain: domain.destroy())

    def remove(self) -> None:
        """Destroy the domain if it runs, and undefine it."""
        self._ask(_remove)

    def close(self) -> None:
        with suppress(_binding().libvirtError):  # of a daemon that is gone
            self._connection.close()

    def _ask(self, question: Callable[[Any], AnswerT]) -> AnswerT:  # Any: the binding publishes no types
        """The answer of libvirt, by a new connection if the daemon is another one now."""
        try:
            return question(self._domain)
        except _binding().libvirtError as error:
            if not self._is_cut(error):
                raise _refused(self._uri, error) from None
        self._reconnect()
        try:
            return question(self._domain)
        except _binding().libvirtError as error:
            raise (_unavailable if self._is_cut(error) else _refused)(self._uri, error) from None

    def _is_cut(self, error: Any) -> bool:
        """True for an error of the connection, not of libvirt's driver."""
        binding = _binding()
        try:
            return error.get_error_domain() in (binding.VIR_FROM_RPC, binding.VIR_FROM_REMOTE) or not (
                self._connection.isAlive()
            )
        except binding.libvirtError:
            return True

    def _reconnect(self) -> None:
        connection = _opened(self._uri)
        try:
            domain = connection.lookupByUUIDString(self._uuid)
        except _binding().libvirtError as error:
            connection.close()
            raise _refused(self._uri, error) from None
        self.close()
        self._connection, self._domain = connection, domain


@contextmanager
def running(name: str, uri: str = DEFAULT_URI) -> Iterator[Guest]:
    """A domain that runs already, for as long as it is needed; it runs on. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        guest = Guest(uri, connection, connection.lookupByName(name))
        yield guest


@contextmanager
def started(xml: str, uri: str = DEFAULT_URI) -> Iterator[Guest]:
    """Define and start the domain; it is destroyed and undefined at the end. Raises :class:`LauncherError`."""
    connection = _opened(uri)
    try:
        guest = _started(connection, xml, uri)
    except BaseException as error:
        connection.close()
        if isinstance(error, _binding().libvirtError):
            raise _refused(uri, error) from None
        raise
    try:
        yield guest
    except BaseException:
        with suppress(LauncherError):  # the error to report is the first one, not one of the clean-up
            guest.remove()
        raise
    else:
        guest.remove()
    finally:
        guest.close()


def _started(connection: Any, xml: str, uri: str) -> Guest:  # Any: the binding publishes no types
    domain = connection.defineXML(xml)
    try:
        domain.create()
    except BaseException:
        with suppress(_binding().libvirtError):
            _remove(domain)
        raise
    return Guest(uri, connection, domain)


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


def release(uri: str = DEFAULT_URI) -> str:
    """The release of the libvirt that answers, as ``9.0.0``. Raises :class:`LauncherError`."""
    with _connection(uri) as connection:
        number = int(connection.getLibVersion())
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"


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
    connection = _opened(uri)
    try:
        yield connection
    except _binding().libvirtError as error:
        raise _refused(uri, error) from None
    finally:
        connection.close()


def _opened(uri: str) -> Any:  # Any: the binding publishes no types
    libvirt = _binding()
    # Without this handler libvirt also writes every error to standard error.
    libvirt.registerErrorHandler(lambda context, error: None, None)
    try:
        return libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise _unavailable(uri, error) from None


def _unavailable(uri: str, error: Exception) -> LauncherError:
    return LauncherError(LIBVIRT_UNAVAILABLE, uri, f"{uri}: {error}; is the libvirt daemon running?")


def _refused(uri: str, error: Exception) -> LauncherError:
    return LauncherError(LIBVIRT_REFUSED, uri, f"{uri}: {error}")
