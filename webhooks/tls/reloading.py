"""TLS whose certificate can be replaced while connections are open.

Every handshake uses the current context; existing connections keep theirs. If a certificate can't be loaded, or doesn't
belong to its key, the one in service stays, and the next reload tries again. The same applies to the authorities of
client certificates.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509

from webhooks.tls.authority import CERTIFICATE, KEY


class CertificateError(ValueError):
    """A certificate or key that can't be served; the text names the file and what is wrong."""


class CertificateSource(Protocol):
    """Source of the serving certificate."""

    @property
    def certificate(self) -> Path:
        """PEM file of the certificate, followed by intermediates if any."""

    @property
    def key(self) -> Path:
        """PEM file of its key."""

    def refresh(self) -> None:
        """Renew the files if this source does that. Raises :class:`CertificateError`."""


@dataclass(frozen=True)
class CertificateFolder:
    """Files that something else renews: a mounted Secret of type kubernetes.io/tls, as cert-manager keeps it."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / CERTIFICATE

    @property
    def key(self) -> Path:
        return self.folder / KEY

    def refresh(self) -> None:
        """No-op: the files are renewed elsewhere."""


class ReloadingTls:
    """The server's TLS. :attr:`context` stays the same object; what it serves is renewed by :meth:`reload`.

    ``client_ca``: PEM file with the authorities of clients' certificates; without it clients aren't asked for any. A
    client may show none, but one that can't be verified ends the handshake. ``client_ca_changes`` counts how often
    other authorities have been taken over.
    """

    def __init__(self, source: CertificateSource, client_ca: Path | None = None) -> None:
        """Loads the certificate. Raises :class:`CertificateError`."""
        self._source = source
        self._client_ca = client_ca
        self.client_ca_changes = 0
        self._seen = b""
        self._seen_authorities = b""
        self._current = self._loaded()
        self.context = self._context()
        # Called in every handshake, also where the client sends no server name.
        self.context.sni_callback = self._take_current

    @property
    def expires(self) -> datetime:
        """When the certificate in service expires."""
        return self._expires

    def reload(self) -> bool:
        """Read the files again. Returns True if another certificate is in service now. Raises
        :class:`CertificateError`."""
        self._source.refresh()
        if self._digest() == self._seen:
            return False
        self._current = self._loaded()
        return True

    def _take_current(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        if not self._seen:
            self._source.refresh()
        seen, authorities = self._digest(), self._authorities()
        context = self._context()
        try:
            expires = x509.load_pem_x509_certificate(self._source.certificate.read_bytes()).not_valid_after_utc
        except (OSError, ValueError) as error:
            raise CertificateError(f"{self._source.certificate}: {_reason(error)}") from None
        # Files that change in between have another digest at the next reload, and are loaded again.
        if self._seen and authorities != self._seen_authorities:
            self.client_ca_changes += 1
        self._seen, self._seen_authorities, self._expires = seen, authorities, expires
        return context

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._source.certificate, self._source.key
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise CertificateError(f"{certificate} and {key.name}: {_reason(error)}") from None
        authorities = self._authorities()
        if authorities:
            # In a handshake OpenSSL takes the verify mode from the first context, and the authorities from the current
            # one. An intermediate authority may be all that is trusted.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            # A resumed session would bring along what was verified by authorities that have been replaced since.
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError):
                raise CertificateError(f"{self._client_ca}: no certificates in PEM") from None
        return context

    def _authorities(self) -> bytes:
        """The file's content; b"" if clients aren't asked for certificates."""
        if self._client_ca is None:
            return b""
        try:
            content = self._client_ca.read_bytes()
            x509.load_pem_x509_certificates(content)
        except (OSError, ValueError) as error:
            reason = _reason(error) if isinstance(error, OSError) else "no certificates in PEM"
            raise CertificateError(f"{self._client_ca}: {reason}") from None
        return content

    def _digest(self) -> bytes:
        digest = hashlib.sha256()
        for path in (self._source.certificate, self._source.key):
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                raise CertificateError(f"{path}: {_reason(error)}") from None
            digest.update(b"\0")
        digest.update(self._authorities())
        return digest.digest()


def _no_password() -> str:
    # Without this OpenSSL would prompt at the terminal.
    raise ValueError("the key is encrypted; give one without a password")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied; it must be readable for this user"
    if isinstance(error, ssl.SSLError):
        mismatch = error.reason == "KEY_VALUES_MISMATCH"
        return "the key is not the certificate's" if mismatch else "no certificate with its key in PEM"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) or "no certificate in PEM"
