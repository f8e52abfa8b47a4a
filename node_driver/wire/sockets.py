"""The sockets of one instance of the driver: their names, the lock that protects them, and what is left of instances
that were killed (D-1, D-2, D-8, D-57)."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_logger = logging.getLogger(__name__)

PATH_MAX: Final = 107
"""Bytes of a Unix socket's path (D-2)."""
UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}")
DRIVER: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LOCK: Final = re.compile(r"instance(?:-(.+))?\.lock")


class SocketsInUse(Exception):
    """Another process serves on these sockets. ``str(error)`` names them."""


@dataclass(frozen=True, slots=True)
class InstanceSockets:
    """Absolute paths. ``lock``: whoever holds it may bind and remove the two sockets."""

    service: str
    registration: str
    lock: str


def instance_sockets(driver: str, plugin_folder: str, registry: str, pod_uid: str = "") -> InstanceSockets:
    """The paths for an instance in this pod; without a pod UID two instances can't run side by side (D-8). Raises
    :class:`ValueError` for names that can't be part of a path, and for folders whose paths leave no room."""
    if len(driver) > 63 or not DRIVER.fullmatch(driver):
        raise ValueError(f"driver name {driver!r}: it must be a DNS name of at most 63 characters")
    if pod_uid and not UID.fullmatch(pod_uid):
        raise ValueError(f"pod UID {pod_uid!r}: it may have letters, digits, '-' and '.' only")
    part = f"-{pod_uid}" if pod_uid else ""
    services, registrations = [f"dra{part}.sock"], [f"{driver}{part}-reg.sock"]
    if pod_uid:
        short = _base64(hashlib.sha256(pod_uid.encode()).digest()[:8])
        whole = _base64(hashlib.sha256(f"{driver}\0{pod_uid}".encode()).digest()[:16])
        services.append(f"dra-{short}.sock")
        registrations += [f"{driver}-{short}-reg.sock", f"dra-{whole}-reg.sock"]
    return InstanceSockets(
        _first_that_fits(plugin_folder, services),
        _first_that_fits(registry, registrations),
        f"{plugin_folder}/instance{part}.lock",
    )


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _first_that_fits(folder: str, names: list[str]) -> str:
    paths = [f"{folder.rstrip('/')}/{name}" for name in names]
    for path in paths:
        if len(path.encode()) <= PATH_MAX:
            return path
    limit = f"a socket has at most {PATH_MAX}: take a shorter folder or driver name"
    raise ValueError(f"{paths[-1]} has {len(paths[-1].encode())} bytes, {limit}")


class InstanceLock:
    """The right to a pair of sockets, held until :meth:`release` or the end of the process."""

    def __init__(self, sockets: InstanceSockets) -> None:
        """Raises :class:`SocketsInUse`, :class:`OSError`."""
        self._sockets = sockets
        self._descriptor = self._locked()

    def _locked(self) -> int:
        while True:
            descriptor = os.open(self._sockets.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(descriptor):
                    return descriptor
            except BlockingIOError:
                os.close(descriptor)
                cure = "two instances of a driver on a node need a pod UID each"
                raise SocketsInUse(f"another process serves {self._sockets.service}: {cure}") from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        """False if whoever had the lock has removed the file meanwhile."""
        try:
            return os.path.samestat(os.fstat(descriptor), Path(self._sockets.lock).stat())
        except FileNotFoundError:
            return False

    def remove_registration(self) -> None:
        """Tells the kubelet that this instance isn't there any more (D-4)."""
        Path(self._sockets.registration).unlink(missing_ok=True)

    def remove_sockets(self) -> None:
        self.remove_registration()
        Path(self._sockets.service).unlink(missing_ok=True)

    def release(self) -> None:
        """Removes the sockets and the lock."""
        self.remove_sockets()
        Path(self._sockets.lock).unlink(missing_ok=True)
        os.close(self._descriptor)


def remove_left_behind(driver: str, plugin_folder: str, registry: str) -> None:
    """Removes the sockets of instances that were killed: the kubelet would keep trying them."""
    for lock_file in sorted(Path(plugin_folder).glob("instance*.lock")):
        name = _LOCK.fullmatch(lock_file.name)
        if name is None:
            continue
        try:
            lock = InstanceLock(instance_sockets(driver, plugin_folder, registry, name[1] or ""))
        except SocketsInUse:
            continue
        except (ValueError, OSError) as error:
            _logger.warning("%s: what an earlier instance left can't be removed: %s", lock_file, error)
            continue
        lock.release()
