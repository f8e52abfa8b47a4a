"""What requests need of a cluster's configuration, wherever it is: which server, trusted by what, and who asks."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from virt_dra.cluster.kube.errors import ConnectionProblem


@dataclass(frozen=True)
class Endpoint:
    """A server, and the way to it. ``tls``: also for one without. ``tls_name``: in its certificate, "" for its
    address."""

    server: str
    tls: ssl.SSLContext
    tls_name: str = ""
    proxy: str = ""
    proxy_headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Credentials:
    """How to reach a server, and as whom: files that exist, and a token without its scheme. ``None``: not used."""

    server: str
    verify: bool
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    token: str | None


class Access(Protocol):
    """A server and as whom it is asked. ``source``: where that is configured, for messages (``kubeconfig /x/y``)."""

    source: str

    @property
    def endpoint(self) -> Endpoint:
        """Another object once :meth:`renewed` has brought other credentials: connections know the old certificate."""

    async def authorization(self) -> str | None:
        """The value of the header of this name, None for none. Raises :class:`~virt_dra.cluster.port.Unauthorized`."""

    async def renewed(self) -> bool:
        """Reloads credentials that were refused; True if the request should be retried."""

    async def credentials(self) -> Credentials:
        """For another client of the same server. Raises as :meth:`authorization`."""


def tls_context(
    source: str,
    *,
    ca_file: str | None = None,
    ca_data: str | bytes | None = None,
    certificate_file: str | None = None,
    key_file: str | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Raises :class:`ConnectionProblem`. ``source``: as of :class:`Access`."""
    try:
        if verify or ca_file or ca_data:
            context = ssl.create_default_context(cafile=ca_file, cadata=ca_data)
        else:  # to read the system's authorities takes 30 ms
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if certificate_file:
            context.load_cert_chain(certificate_file, key_file)
    except OSError as error:  # ssl.SSLError among them
        raise ConnectionProblem("BadConfiguration", f"the certificates of {source} can't be used: {error}") from error
    # As Go's clients: many clusters' certificates lack what RFC 5280 asks of a CA, and Python 3.13 would refuse them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
