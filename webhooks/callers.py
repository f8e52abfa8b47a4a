"""Who asks for reviews: an API server that shows a certificate for clients, or somebody of whom nothing is known. Pure.

The TLS handshake verifies that a certificate is of an authority of ``--client-ca``; here it is decided whether it is an API server's, and
what becomes of reviews without one. Why: docs/decisions/0011-webhook-server.md, "Who asks".
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from webhooks.review import BadReview

DEFAULT_NAME: Final = "kube-apiserver"
"""Common name or DNS name of the certificate that API servers show."""

Answer = Literal["refuse", "limit", "tell"]
REFUSE: Final = "refuse"
"""Reviews without a verified certificate get no verdict."""
LIMIT: Final = "limit"
"""They are answered by what they carry (:attr:`webhooks.knowledge.Knowledge.for_anybody`)."""
TELL: Final = "tell"
"""They are answered by all that is known: where nobody else can connect, or what is known is no secret."""

_MAX_SHOWN: Final = 100


@dataclass(frozen=True)
class Callers:
    """``unverified``: what becomes of reviews of callers without a certificate. ``names``: those that a certificate may have, as its common
    name or a DNS name; certificates are asked for where the server's TLS has an authority for clients."""

    unverified: Answer = LIMIT
    names: frozenset[str] = frozenset({DEFAULT_NAME})

    def verified(self, peer: Mapping[str, Any] | None, now: datetime) -> bool:
        """True if a certificate, as ``ssl`` shows it of a handshake in which it was verified, is an API server's and hasn't expired since.

        Raises :class:`BadReview` for another one, if callers without a certificate are refused.
        """
        if not peer:
            return False
        shown = names_of(peer)
        if self.names.isdisjoint(shown):
            if self.unverified == REFUSE:
                listed = ", ".join(sorted(self.names))
                message = f"the client certificate is of {_shown(shown)}; reviews are answered to {listed} only (--client-name)"
                raise BadReview(403, "Forbidden", message)
            return False
        return now.timestamp() < ssl.cert_time_to_seconds(str(peer["notAfter"]))

    def tells(self, *, verified: bool) -> bool:
        """True if the answer may depend on all that is known. Raises :class:`BadReview` where there is to be none."""
        if verified or self.unverified == TELL:
            return True
        if self.unverified == REFUSE:
            message = (
                "this webhook answers reviews only to API servers that present a client certificate (--client-ca); configure it with "
                "kube-apiserver's --admission-control-config-file, see docs/guides/callers.md"
            )
            raise BadReview(401, "Unauthorized", message)
        return False


def names_of(peer: Mapping[str, Any]) -> frozenset[str]:
    """The common names and DNS names of a certificate as ``ssl.SSLSocket.getpeercert`` shows it."""
    common = {value for relative in peer.get("subject", ()) for key, value in relative if key == "commonName"}
    return frozenset(common | {value for kind, value in peer.get("subjectAltName", ()) if kind == "DNS"})


def _shown(names: frozenset[str]) -> str:
    text = ", ".join(repr(name) for name in sorted(names))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
