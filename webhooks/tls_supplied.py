"""A certificate and key that get here from elsewhere (a Secret that replicas share), kept in memory only.

OpenSSL reads files, so they are files without a place in any folder (memfd_create): however the process ends, nothing of the key is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from webhooks.tls import CertificateError
from webhooks.tls_authority import CERTIFICATE, KEY, Bundle


@dataclass
class SuppliedCertificate:
    """A source of certificates that is filled by :meth:`put`. The authority's key is never kept. Linux only.

    A context manager, for who wants the files closed before the process ends.
    """

    _current: tuple[int, int] | None = None
    _before: list[int] = field(default_factory=list)
    """Files of the previous certificate, which somebody may be reading; closed when there is a newer one."""

    @property
    def certificate(self) -> Path:
        return self._path(0, CERTIFICATE)

    @property
    def key(self) -> Path:
        return self._path(1, KEY)

    def refresh(self) -> None:
        """Nothing: see :meth:`put`."""

    def put(self, bundle: Bundle) -> None:
        """Serve by this from the next look on; nothing changes if it is what is served. Raises :class:`CertificateError`."""
        files = bundle.to_files()
        content = (files[CERTIFICATE], files[KEY])
        if self._current is not None and tuple(_content(number) for number in self._current) == content:
            return
        if not hasattr(os, "memfd_create"):
            raise CertificateError("a certificate can be kept in memory on Linux only; elsewhere give a folder with --tls-dir")
        try:
            new = (_file(CERTIFICATE, content[0]), _file(KEY, content[1]))
        except OSError as error:
            raise CertificateError(f"the certificate can't be kept in memory: {error.strerror or error}") from None
        closing, self._before = self._before, list(self._current or ())
        self._current = new
        for number in closing:
            os.close(number)

    def close(self) -> None:
        """Forget all. What was loaded into a context stays there."""
        numbers, self._current, self._before = [*(self._current or ()), *self._before], None, []
        for number in numbers:
            os.close(number)

    def __enter__(self) -> SuppliedCertificate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, which: int, name: str) -> Path:
        return Path(f"/proc/self/fd/{self._current[which]}" if self._current is not None else f"no {name} yet")


def _file(name: str, content: bytes) -> int:
    """The descriptor of a file in memory; children don't inherit it. Raises OSError."""
    number = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(content)
    except OSError:
        os.close(number)
        raise
    return number


def _content(number: int) -> bytes:
    return os.pread(number, os.fstat(number).st_size, 0)
